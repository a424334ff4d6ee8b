"""Recompiles: which guard failed, so that a frame had to be compiled again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.shared import Text
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.dynamo.same_text import same_text


@record
class Recompile(Record):
    """A guard that failed, and the compile that it belongs to."""

    earlier: str
    guard: str


@record
class Recompiles(Record):
    """Why a function was compiled again."""

    rows: tuple[Recompile, ...]


_AGAINST = re.compile(r"^(?P<frame>\d+/\d+): (?P<guard>.*)$", re.DOTALL)


def reasons(text: str) -> tuple[Recompile, ...]:
    """One row per failed guard: the earlier compile that it belongs to, and the guard in Dynamo's words."""
    try:
        listed = json.loads(text)
    except ValueError:
        listed = [text]
    texts = listed if isinstance(listed, list) else [text]
    matches = [(_AGAINST.match(str(t).strip()), str(t).strip()) for t in texts]
    return tuple(Recompile(earlier=m["frame"] if m else "", guard=m["guard"] if m else t) for m, t in matches)


def render(event: Event, id: str) -> Artifact:
    """One line per failed guard."""
    data = typed(Recompiles, event.data)
    text = "\n".join(f"{row.earlier}: {row.guard}" if row.earlier else row.guard for row in data.rows)
    return text_artifact(event, id, f"Recompile: {data.rows[0].guard}", "text", text=text, data=data)


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """The reasons as rows, which name the earlier compiles as the trace does.

    A trace that compiled all anew leaves out what was compiled before it: that was set aside, and nothing was compiled again.
    """
    for event in events:
        rows = reasons(typed(Text, event.data).text)
        if not frames.fresh or any(row.earlier in frames.names for row in rows):
            renamed = (
                replace(row, earlier=frames.names.get(row.earlier, row.earlier), guard=same_text(row.guard)) for row in rows
            )
            yield replace(event, data=Recompiles(rows=tuple(renamed)))


STAGE = Stage(
    name="recompile",
    title="Recompile",
    language="text",
    event=Text,
    artifact=Recompiles,
    render=render,
    gather=gather,
    why_absent="no function was compiled a second time",
    about="The frame was compiled before, but a guard of each earlier version failed for this call.",
)
