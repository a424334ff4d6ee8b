"""Records of torch's log that no other stage shows, as torch wrote them."""

from __future__ import annotations

import re

from explorer.model.events import LogRecordText
from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event

#: What a text in Python has at the begin of some line.
_PYTHON = re.compile(r"^\s*(?:class \w+.*:|def \w+\(|import \w+|from [\w.]+ import )", re.MULTILINE)


def render(event: Event, id: str) -> Artifact:
    """The record under the name that torch gives it."""
    data = typed(LogRecordText, event.data)
    return text_artifact(event, id, data.name, "python" if _PYTHON.search(data.text) else "text")


STAGE = Stage(
    name="log_record",
    title="Log record",
    language="text",
    render=render,
    why_absent="the trace is of no log, or every record of it is shown by a stage",
    about="Records of a TORCH_TRACE log that no other stage shows, each under torch's own name for it.",
)
