"""The assembly of a C++ kernel, made on demand with Inductor's own compile command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from explorer.model import Artifact, Event, Link
from explorer.stage import Stage, text_artifact

if TYPE_CHECKING:
    from explorer.traced import Trace

_LOC = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)")
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+(?P<names>".*)$')


def render(event: Event, id: str) -> Artifact:
    """The assembly with its .loc lines."""
    return text_artifact(event, id, f"Assembly of {event.data['name']}", "asm", kernel=str(event.data["name"]))


def link(artifact: Artifact, trace: Trace) -> Iterable[Link]:
    """Each instruction to the line of the C++ kernel that the last .loc before it names."""
    kernel = next((a for a in trace.find("kernel", artifact.frame, artifact.graph) if a.kernel == artifact.kernel), None)
    if kernel is None:
        return
    ours, line, last = _kernel_files(artifact, artifact.data["file"]), 0, len(kernel.lines)
    for number, text in enumerate(artifact.lines, 1):
        if loc := _LOC.match(text):
            line = int(loc["line"]) if loc["file"] in ours else 0
        elif 0 < line <= last and text.startswith("\t") and not text.lstrip().startswith("."):
            yield Link(artifact.id, (number,), kernel.id, (line,), ".loc")


def _kernel_files(artifact: Artifact, name: str) -> set[str]:
    """The numbers by which the assembly knows the kernel's own file."""
    return {m["number"] for text in artifact.lines if (m := _FILE.match(text)) and f'{name}"' in m["names"]}


STAGE = Stage(
    name="assembly", title="Assembly", language="asm", render=render, link=link,
    about="What the C++ compiler made of the kernel: the instructions the CPU runs.",
)  # fmt: skip
