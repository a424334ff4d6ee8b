"""Records of torch's log that no other stage shows, as torch wrote them."""

from __future__ import annotations

import re

from explorer.model.records import Record, record, typed
from explorer.model.shared import Text
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event


@record
class RecordName(Record):
    """What torch calls a record of its log."""

    name: str


@record
class LogRecordText(Text):
    """A record of a log that no other stage shows, or several of one name: `name` is what torch calls it."""

    name: str


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
    event=LogRecordText,
    artifact=RecordName,
    render=render,
    why_absent="the trace is of no log, or every record of it is shown by a stage",
    about="Records of a TORCH_TRACE log that no other stage shows, each under torch's own name for it.",
)
