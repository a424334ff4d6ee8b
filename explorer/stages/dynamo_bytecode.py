"""The bytecode Dynamo puts in the frame's place: call the compiled graph, then do what could not be compiled."""

from __future__ import annotations

from explorer.model import Artifact, Event
from explorer.stage import Stage, text_artifact


def render(event: Event, id: str) -> Artifact:
    """The disassembly as `dis` prints it."""
    return text_artifact(event, id, f"Dynamo's bytecode for {event.data['qualname']}", "bytecode")


STAGE = Stage(
    name="dynamo_bytecode", title="Dynamo bytecode", language="bytecode", render=render,
    about="What runs instead of your function: it calls the compiled graph and, after a graph break, a resume function.",
)  # fmt: skip
