"""Dynamo's bytecode as Python again, by depyf, where that is installed."""

from __future__ import annotations

from explorer.model import Artifact, Event
from explorer.stage import Stage, text_artifact


def render(event: Event, id: str) -> Artifact:
    """The decompiled source."""
    return text_artifact(event, id, f"Dynamo's {event.data['qualname']}, decompiled", "python")


STAGE = Stage(
    name="decompiled", title="Decompiled", language="python", render=render,
    about="Dynamo's bytecode turned back into Python by depyf, to be read.",
)  # fmt: skip
