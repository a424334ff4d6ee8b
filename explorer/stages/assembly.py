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

_FUNCTION = re.compile(r"^\s*\.type\s+(?P<name>[^,\s]+),\s*[@%]function")


def render(event: Event, id: str) -> Artifact:
    """The assembly of the functions that hold lines of the kernel's own file, with their .loc lines."""
    text = own_functions(str(event.data["text"]), str(event.data["file"]))
    return text_artifact(event, id, f"Assembly of {event.data['name']}", "asm", text=text, kernel=str(event.data["name"]))


def own_functions(text: str, file: str) -> str:
    """The .file lines, and each function that has a .loc of `file`: the headers' inline functions are left out."""
    lines = text.splitlines()
    files = [line for line in lines if _FILE.match(line)]
    ours = _numbers(files, file)
    kept: list[str] = []
    done = 0
    for start, name in ((n, m["name"]) for n, line in enumerate(lines) if (m := _FUNCTION.match(line))):
        end = next(
            (n for n in range(start, len(lines)) if re.match(rf"\s*\.size\s+{re.escape(name)},", lines[n])), len(lines) - 1
        )
        body = lines[max(start, done) : end + 1]  # "kernel.cold" begins inside "kernel"
        if any((loc := _LOC.match(line)) and loc["file"] in ours for line in body):
            kept += body
            done = end + 1
    used = {loc["file"] for line in kept if (loc := _LOC.match(line))}
    named = [line for line in files if (m := _FILE.match(line)) and m["number"] in used]
    return "\n".join([*named, *kept]) if kept else text


def _numbers(lines: Iterable[str], file: str) -> set[str]:
    """The numbers by which .file lines know a file."""
    return {m["number"] for line in lines if (m := _FILE.match(line)) and f'{file}"' in m["names"]}


def link(artifact: Artifact, trace: Trace) -> Iterable[Link]:
    """Each instruction to the line of the C++ kernel that the last .loc before it names."""
    kernel = next((a for a in trace.find("kernel", artifact.frame, artifact.graph) if a.kernel == artifact.kernel), None)
    if kernel is None:
        return
    ours, line, last = _numbers(artifact.lines, artifact.data["file"]), 0, len(kernel.lines)
    for number, text in enumerate(artifact.lines, 1):
        if loc := _LOC.match(text):
            line = int(loc["line"]) if loc["file"] in ours else 0
        elif 0 < line <= last and text.startswith("\t") and not text.lstrip().startswith("."):
            yield Link(artifact.id, (number,), kernel.id, (line,), ".loc")


STAGE = Stage(
    name="assembly", title="Assembly", language="asm", render=render, link=link,
    about="What the C++ compiler made of the kernel: the instructions the CPU runs.",
)  # fmt: skip
