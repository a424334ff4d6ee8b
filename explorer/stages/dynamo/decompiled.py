"""Dynamo's bytecode as Python again, by depyf, where that is installed."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event


def render(event: Event, id: str) -> Artifact:
    """The decompiled source; where depyf cannot make it, what there is: the bytecode under the lines it was copied from."""
    if "undone" in event.data:
        what = f" its instruction {event.data['undone']}" if event.data["undone"] else " it"
        note = f"# depyf cannot turn{what} into Python. This is the bytecode, under the source lines that it is copied from."
        text = f"{note}\n{event.data['text']}"
        return text_artifact(event, id, f"Dynamo's {event.data['qualname']}, as bytecode", "bytecode", text=text)
    return text_artifact(event, id, f"Dynamo's {event.data['qualname']}, decompiled", "python")


STAGE = Stage(
    name="decompiled",
    title="Decompiled",
    language="python",
    render=render,
    about="Dynamo's bytecode turned back into Python by depyf, to be read.",
)
