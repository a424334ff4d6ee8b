"""The bytecode Dynamo puts in the frame's place: call the compiled graph, then do what could not be compiled."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link


def render(event: Event, id: str) -> Artifact:
    """The disassembly as `dis` prints it."""
    return text_artifact(event, id, f"Dynamo's bytecode for {event.data['qualname']}", "bytecode")


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each instruction that Dynamo copied from the function to its line there; Dynamo's own come from no line."""
    for number, line in artifact.data.get("copied", ()):
        if found := trace.source_line(artifact.data["file"], line, frame=artifact.frame):
            yield Link(artifact.id, (number,), found[0], (found[1],), "instruction positions")


STAGE = Stage(
    name="dynamo_bytecode",
    title="Dynamo bytecode",
    language="bytecode",
    render=render,
    link=link,
    about="What runs instead of your function: it calls the compiled graph and, after a graph break, a resume function. "
    "Instructions of Dynamo's own have no line; `dis` shows them under the last one that there was.",
)
