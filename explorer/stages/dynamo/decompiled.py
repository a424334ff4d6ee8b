"""Dynamo's bytecode as Python again, by depyf, where that is installed."""

from __future__ import annotations

from explorer.model.records import record, typed
from explorer.model.shared import Code
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.dynamo.same_text import same_text
from explorer.stages.kinds import BLANK, NOT_STATED


@record
class Decompiled(Code):
    """Dynamo's bytecode as Python; `undone` is the instruction that depyf could not turn into it."""

    undone: str | None = None


@record
class DecompiledText(Decompiled):
    """Dynamo's bytecode as Python, by depyf."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The decompiled source; where depyf cannot make it, what there is: the bytecode under the lines it was copied from."""
    data = typed(DecompiledText, event.data)
    if data.undone is not None:
        what = f" its instruction {data.undone}" if data.undone else " it"
        note = f"# depyf cannot turn{what} into Python. This is the bytecode, under the source lines that it is copied from."
        text = f"{note}\n{same_text(data.text)}"
        return text_artifact(event, id, f"Dynamo's {data.qualname}, as bytecode", "bytecode", text=text)
    return text_artifact(event, id, f"Dynamo's {data.qualname}, decompiled", "python", text=same_text(data.text))


def kinds(artifact: Artifact) -> list[str]:
    """Mark every line as one without a stated origin: depyf does not say which instructions a line is made of."""
    return [NOT_STATED if line.strip() else BLANK for line in artifact.lines]


STAGE = Stage(
    name="decompiled",
    title="Decompiled",
    language="python",
    event=DecompiledText,
    artifact=Decompiled,
    render=render,
    kinds=kinds,
    why_absent="depyf is not installed, or nothing was compiled",
    about="Dynamo's bytecode turned back into Python by depyf, to be read.",
)
