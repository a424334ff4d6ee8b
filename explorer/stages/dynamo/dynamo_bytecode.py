"""The bytecode Dynamo puts in the frame's place: call the compiled graph, then do what could not be compiled."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.model.records import record, typed
from explorer.model.shared import Code, Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Event, Link
from explorer.stages.dynamo.bytecode import kinds as bytecode_kinds
from explorer.stages.dynamo.same_text import same_text
from explorer.stages.kinds import NOT_STATED, OWN


@record
class DynamoBytecode(Code):
    """Dynamo's bytecode; `copied` has the lines of the text that it copied, each with its line in the user's file."""

    names: Names
    copied: tuple[tuple[int, int], ...] | None = None


@record
class DynamoBytecodeText(DynamoBytecode):
    """The bytecode that Dynamo puts in a frame's place, as `dis` prints it."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The disassembly as `dis` prints it, without addresses."""
    data = typed(DynamoBytecodeText, event.data)
    return text_artifact(event, id, f"Dynamo's bytecode for {data.qualname}", "bytecode", text=same_text(data.text))


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each instruction that Dynamo copied from the function to its line there; Dynamo's own have none."""
    data = typed(DynamoBytecode, artifact.data)
    for number, line in data.copied or ():
        if place := source_line(trace, data.file, line, frame=artifact.frame):
            yield Link(artifact.id, (number,), place[0], (place[1],), "instruction positions")


def kinds(artifact: Artifact) -> list[str]:
    """Instructions that Dynamo copied from the function; its own, which call the graph and rebuild what is live, are named."""
    copied_lines = typed(DynamoBytecode, artifact.data).copied
    copied = {number for number, _ in copied_lines or ()}
    other = NOT_STATED if copied_lines is None else OWN
    kinds = bytecode_kinds(artifact)
    instructions = [line.strip() != "" and kind != "exception table" for line, kind in zip(artifact.lines, kinds, strict=True)]
    return [
        ("" if number in copied else other) if instruction else kind
        for number, (kind, instruction) in enumerate(zip(kinds, instructions, strict=True), 1)
    ]


STAGE = Stage(
    name="dynamo_bytecode",
    title="Dynamo bytecode",
    language="bytecode",
    event=DynamoBytecodeText,
    artifact=DynamoBytecode,
    render=render,
    kinds=kinds,
    link=link,
    opens_at=1,
    secondary=True,
    about="What runs instead of your function: it calls the compiled graph and, after a graph break, a resume function. "
    "Instructions of Dynamo's own have no line; `dis` shows them under the last one that there was.",
)
