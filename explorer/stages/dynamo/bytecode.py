"""The frame's original bytecode, which is what Dynamo reads."""

from __future__ import annotations

import re
from collections.abc import Iterable

from explorer.model.records import record, typed
from explorer.model.shared import Code, Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Event, Link
from explorer.stages.dynamo.same_text import same_text
from explorer.stages.kinds import BLANK, NOT_STATED, SETUP


@record
class Bytecode(Code):
    """The bytecode of a function: the names it uses."""

    names: Names
    compiled: bool
    not_compiled: int | None = None


@record
class BytecodeText(Bytecode):
    """The bytecode of a function, as `dis` prints it."""

    text: str


# `dis` prints the source line at the start of the first instruction of each line, "--" for one that has none. Up to
# Python 3.12 the instruction's offset follows, from 3.13 on a label where it is jumped to.
LINE_START = re.compile(r"^\s{0,6}(?P<line>\d+|--)\s+(?:L\d+:\s*)?(?:-->\s*)?(?:>>\s*)?(?:\d+ )?[A-Z]")


def render(event: Event, id: str) -> Artifact:
    """The disassembly as `dis` prints it, without addresses."""
    data = typed(BytecodeText, event.data)
    return text_artifact(event, id, f"Bytecode of {data.qualname}", "bytecode", text=same_text(data.text))


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each instruction to its source line in the bytecode's line table."""
    current, file = 0, typed(Bytecode, artifact.data).file
    for number, text in enumerate(artifact.lines, 1):
        if text.startswith("ExceptionTable:"):
            return
        if start := LINE_START.match(text):
            current = int(start["line"]) if start["line"] != "--" else 0
        if current and text.strip():
            place = source_line(trace, file, current, frame=artifact.frame)
            if place:
                yield Link(artifact.id, (number,), place[0], (place[1],), "bytecode line table")


def kinds(artifact: Artifact) -> list[str]:
    """Instructions of the frame; those that make its cells, before the first line, and what `dis` gives no line are named."""
    kinds_of_lines: list[str] = []
    kind = SETUP
    for line in artifact.lines:
        if line.startswith("ExceptionTable:"):
            kind = "exception table"
        elif kind != "exception table" and (start := LINE_START.match(line)):
            kind = NOT_STATED if start["line"] == "--" else ""
        kinds_of_lines.append(kind if line.strip() else BLANK)
    return kinds_of_lines


STAGE = Stage(
    name="bytecode",
    title="Bytecode",
    language="bytecode",
    event=BytecodeText,
    artifact=Bytecode,
    render=render,
    kinds=kinds,
    link=link,
    opens_at=1,
    about="What CPython made of the source. Dynamo executes these instructions symbolically, one by one.",
)
