"""The VMFB: the file that IREE's runtime loads, its size and what is in it."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event


@record
class FileSection(Record):
    """A section of a file, and its bytes."""

    name: str
    bytes: int


@record
class Vmfb(Record):
    """The file that IREE's runtime loads: its bytes and their SHA-256, its sections, the command that made it, its seconds."""

    rows: tuple[FileSection, ...]
    bytes: int
    sha256: str
    seconds: float
    command: Names


def render(event: Event, id: str) -> Artifact:
    """One line per section; `rows` has the same as a table."""
    file = typed(Vmfb, event.data)
    text = "\n".join([f"{file.bytes:>12,}  bytes in all", *(f"{row.bytes:>12,}  {row.name}" for row in file.rows)])
    return text_artifact(event, id, "VMFB · IREE", "text", text=text)


def summary(artifacts: Sequence[Artifact]) -> str:
    """The size of the files."""
    return f"{sum(typed(Vmfb, artifact.data).bytes for artifact in artifacts):,} bytes"


STAGE = Stage(
    name="iree_vmfb",
    title="VMFB · IREE",
    language="text",
    event=Vmfb,
    artifact=Vmfb,
    backend="iree",
    render=render,
    summary=summary,
    about="The file that IREE's runtime loads: the module of its virtual machine and the dispatches' executables, in bytes.",
)
