"""What the stages that are FX graphs share: the links their text states."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.model import Artifact, Event, Link
from explorer.stage import text_artifact

if TYPE_CHECKING:
    from explorer.traced import Trace

_COMMENT = re.compile(r"^\s*# (?:File: (?P<file>.+?):(?P<line>\d+) in .*|No stacktrace found.*)$")


def render_graph(title: str) -> Callable[[Event, str], Artifact]:
    """A render function for a stage whose event holds an FX graph's text and nodes."""

    def render(event: Event, id: str) -> Artifact:
        return text_artifact(event, id, title, "fx", text=str(event.data.get("text", "")).strip("\n"))

    return render


def file_comments(text: str) -> Iterator[tuple[int, str, int]]:
    """(line of the text, file, line of the file) for each line of code under a "# File: …" comment."""
    file, line = "", 0
    for number, content in enumerate(text.splitlines(), 1):
        if comment := _COMMENT.match(content):
            file, line = comment["file"] or "", int(comment["line"] or 0)
        elif file and "=" in content and not content.lstrip().startswith(("#", "class ", "def ")):
            yield number, file, line


def link_files(artifact: Artifact, trace: Trace) -> Iterable[Link]:
    """Each line of a graph to the user's line that its "# File:" comment names."""
    for number, file, line in file_comments(artifact.text):
        if found := trace.source_line(file, line, frame=artifact.frame):
            source, at = found
            yield Link(artifact.id, (number,), source, (at,), "File comment")


def short(file: str) -> str:
    """A file's name without its folders, for titles."""
    return Path(file).name or file
