"""What the stages that are FX graphs share: the links their text states."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.model import CALLED_FROM, Artifact, Event, Link, Plain, once, plain, text_lines
from explorer.stage import text_artifact

if TYPE_CHECKING:
    from explorer.traced import Trace

_COMMENT = re.compile(r"^\s*# (?:File: (?P<file>.+?):(?P<line>\d+) in .*|No stacktrace found.*)$")

_NODE = re.compile(r"^\s+(?P<name>\w+)(?:: [^=]*)? = ")
#: An operator in place, or `x[i] = y`: what it does comes first, and then its node's name.
_IN_PLACE = re.compile(r"^\s+\w+(?:\[.*\] =| [^\s\w=]+=) .*?;  (?P<name>\w+)(?:: [^=]*)? = ")
_NESTED = re.compile(r"^\s+class (?P<name>\w+)\(")
_PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>\S+)')


def render_graph(title: str) -> Callable[[Event, str], Artifact]:
    """A render function for a stage whose event holds an FX graph's text and nodes."""

    def render(event: Event, id: str) -> Artifact:
        """The graph's text, its nodes with the user's innermost line each."""
        data = {k: v for k, v in event.data.items() if k != "text"}
        if "nodes" in data:
            places = [innermost(stack) for stack in data["stacks"]]
            for key in ("nodes", "inner") if "inner" in data else ("nodes",):
                data[key] = tuple(plain({**n, **places[n["stack"]]}) if "stack" in n else n for n in data[key])
        return text_artifact(
            event,
            id,
            f"{title} of {data['of']}" if data.get("of") else title,
            "fx",
            text=str(event.data.get("text", "")).strip("\n"),
            data=plain(data),
        )

    return render


def of_graph(event: Event) -> str:
    """What a title says of an event of a graph inside another one; "" for one of the outermost."""
    return f" of {event.data['of']}" if event.data.get("of") else ""


def innermost(stack: str) -> dict[str, Plain]:
    """The last place of a Python traceback: file, line, function and the code there."""
    places = list(_PLACE.finditer(stack))
    if not places:
        return {}
    last = places[-1]
    code = stack[last.end() :].strip().partition("\n")[0]
    return {"file": last["file"], "line": int(last["line"]), "function": last["function"], "code": code.strip()}


def file_comments(text: str) -> Iterator[tuple[int, str, int]]:
    """(line of the text, file, line of the file) for each line of code under a "# File: …" comment."""
    file, line = "", 0
    for number, content in enumerate(text_lines(text), 1):
        if comment := _COMMENT.match(content):
            file, line = comment["file"] or "", int(comment["line"] or 0)
        elif content.lstrip().startswith(("class ", "def ")):
            file = ""  # a nested graph begins, and no comment is said to go on into it
        elif file and "=" in content and not content.lstrip().startswith("#"):
            yield number, file, line


def link_files(artifact: Artifact, trace: Trace) -> Iterable[Link]:
    """Each line of a graph to the user's lines on its node's stack, or else to the one its comment names."""
    if artifact.nodes:
        return link_stacks(artifact, trace)
    return [
        Link(artifact.id, (number,), *_at(found), "File comment")
        for number, file, line in file_comments(artifact.text)
        if (found := trace.source_line(file, line, frame=artifact.frame))
    ]


def link_stacks(artifact: Artifact, trace: Trace) -> Iterator[Link]:
    """The lines of all nodes made by one stack, to the user's line that made them and to the calls that led there."""
    lines = node_lines(artifact)
    by_stack: dict[int, list[int]] = {}
    for node in (*artifact.nodes, *artifact.inner):
        if "stack" in node and node["name"] in lines:
            by_stack.setdefault(node["stack"], []).append(lines[node["name"]])
    for number, where in by_stack.items():
        how = "stack_trace"
        for place in reversed(list(_PLACE.finditer(artifact.data["stacks"][number]))):
            if found := trace.source_line(place["file"], int(place["line"]), frame=artifact.frame):
                yield Link(artifact.id, tuple(where), *_at(found), how)
            how = CALLED_FROM


def _at(found: tuple[str, int]) -> tuple[str, tuple[int]]:
    return found[0], (found[1],)


@once
def node_lines(artifact: Artifact) -> Mapping[str, int]:
    """The line of the text on which each node is computed, by the node's name.

    Nested graphs, such as the branches of a cond, stand below as classes of their own, and those inside them again below
    these, indented further; a node there is `class.node`, or `class.class.node`.
    """
    lines: dict[str, int] = {}
    classes: list[tuple[int, str]] = []
    inside = ""
    for number, line in enumerate(artifact.lines, 1):
        if number > 1 and (nested := _NESTED.match(line)):
            indent = len(line) - len(line.lstrip())
            classes = [*(known for known in classes if known[0] < indent), (indent, nested["name"])]
            inside = "".join(f"{name}." for _, name in classes)
        elif node := _NODE.match(line) or _IN_PLACE.match(line):
            lines[inside + node["name"]] = number
    return lines


def short(file: str) -> str:
    """A file's name without its folders, for titles."""
    return Path(file).name or file
