"""Files that Inductor and triton wrote for a frame."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.gathering import by_frame, counted, table_event


@record
class WrittenFile(Record):
    """A file that Inductor or triton wrote: `bytes` is its size, None where it is gone."""

    by: str
    path: str
    kind: str
    bytes: int | None


@record
class WrittenFiles(Record):
    """The files that were written for one frame, each once."""

    rows: tuple[WrittenFile, ...]


@record
class FoundFiles(Record):
    """Files that were written or found at once."""

    files: tuple[WrittenFile, ...]


#: The cache folder of a compile for an absent GPU: `absent.retarget` gives each a random name, and removes it afterwards.
_REMOVED = re.compile(r"^.*[/\\]explorer-absent-\w+(?=[/\\])")


def render(event: Event, id: str) -> Artifact:
    """One line per file of the frame."""
    data = typed(WrittenFiles, event.data)
    return text_artifact(event, id, "Files written", "text", text="\n".join(map(readable, data.rows)), data=data)


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One table per frame, each path once."""
    for group in by_frame(events).values():
        by_path: dict[str, WrittenFile] = {}
        for file in (file for event in group for file in typed(FoundFiles, event.data).files):
            by_path.setdefault(file.path, file)
        yield table_event(group[0], WrittenFiles(rows=tuple(by_path.values())))


def readable(row: WrittenFile) -> str:
    """Format a file as one line: who wrote it, its path, its size. A removed folder stands without its name."""
    size = "gone" if row.bytes is None else f"{row.bytes:,} bytes"
    return f"{row.by}: {_REMOVED.sub('(temporary folder)', row.path)}  ({size})"


STAGE = Stage(
    name="written_file",
    title="Files written",
    language="text",
    event=FoundFiles,
    artifact=WrittenFiles,
    render=render,
    summary=counted("file"),
    gather=gather,
    why_absent="Inductor wrote no file",
    secondary=True,
    about="The files that Inductor and triton wrote: generated sources, and what was compiled of them, also in worker processes.",
)
