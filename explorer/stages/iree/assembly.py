"""The assembly of each dispatch of IREE."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event, text_lines
from explorer.stages.cpp.assembly import is_instruction
from explorer.stages.functions import ExecutableText, MachineFunction, function_artifact, one_a_function, stated_places
from explorer.stages.fx_locations import links_to_nodes, of_whole_graph
from explorer.stages.kinds import SETUP, Kinds

_LOC = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\b")
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+"(?P<name>[^"]*)"')
_LABEL = re.compile(r'^(?:"(?P<quoted>[^"]+)"|(?P<plain>[A-Za-z_][\w.$]*)):')
_END = re.compile(r"^\.?L?func_end\d+:|^\.Lfunc_end\d+:")
#: The end of a function, on x86, Arm and RISC-V.
_RETURN = re.compile(r"^\s*(ret[ql]?|popq\s+%rbp|vzeroupper)\s*$")


def bounds(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function."""
    name, first = "", 0
    for number, line in enumerate(lines, 1):
        if label := _LABEL.match(line):
            name, first = label["quoted"] or label["plain"], number
        elif first and _END.match(line):
            yield name, first, number
            first = 0


def chains(text: str) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
    """For each instruction the file and line of the last .loc.

    The assembly is made with a .loc of line 0 wherever an instruction has no location: no instruction then inherits the one
    before.
    """
    lines = text_lines(text)
    files = {m["number"]: m["name"] for line in lines if (m := _FILE.match(line))}
    last: tuple[str, int] | None = None
    for number, line in enumerate(lines, 1):
        if _LABEL.match(line):
            last = None
        elif loc := _LOC.match(line):
            last = (files.get(loc["file"], ""), int(loc["line"]))
        elif is_instruction(line) and last is not None and last[1]:
            yield number, (last,)


def render(event: Event, id: str) -> Artifact:
    """The function of one dispatch."""
    return function_artifact(event, id, "Assembly", "asm")


def kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but those that end the function; directives and labels do not."""
    of_inputs = of_whole_graph(stated_places(artifact))
    return [kind_of(line, number in of_inputs) for number, line in enumerate(artifact.lines, 1)]


def kind_of(line: str, of_inputs: bool = False) -> str:
    """The kind of a line: "" for an instruction that computes."""
    if not is_instruction(line):
        return "directives"
    return SETUP if _RETURN.match(line) else "inputs" if of_inputs else ""


STAGE = Stage(
    name="iree_assembly",
    title="Assembly · IREE",
    language="asm",
    event=ExecutableText,
    artifact=MachineFunction,
    backend="iree",
    render=render,
    gather=one_a_function(bounds, chains),
    per_kernel=True,
    kinds=kinds,
    link=links_to_nodes(stated_places, ".loc"),
    about="The instructions of a dispatch, as they are in the executable that runs.",
)
