"""Files that Inductor and triton wrote for a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.gathering import counted, one_table


def render(event: Event, id: str) -> Artifact:
    """One line a file, each once; the event holds all of one frame's, see `replay`."""
    rows = list(listed(event.data["rows"]))
    return text_artifact(event, id, "Files written", "text", text="\n".join(map(readable, rows)), data={"rows": rows})


def listed(rows: Sequence[Mapping[str, Plain]]) -> Iterator[Mapping[str, Plain]]:
    """The files of the rows one after the other, each path once."""
    paths: set[str] = set()
    for row in (one for given in rows for one in given["files"]):
        if row["path"] not in paths:
            paths.add(row["path"])
            yield row


def readable(row: Mapping[str, Plain]) -> str:
    """A file as one line: who wrote it, its size, its path."""
    size = "gone" if row["bytes"] is None else f"{row['bytes']:,} bytes"
    return f"{row['by']}: {row['path']}  ({size})"


STAGE = Stage(
    name="written_file",
    title="Files written",
    language="text",
    render=render,
    summary=counted("file"),
    gather=one_table,
    about="The files that Inductor and triton wrote in this process: generated sources, and what was compiled of them.",
)
