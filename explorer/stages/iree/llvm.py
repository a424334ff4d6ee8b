"""The LLVM IR of each dispatch of IREE, after LLVM's optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.functions import ExecutableText, MachineFunction, function_artifact, one_a_function, stated_places
from explorer.stages.fx_locations import links_to_nodes, of_whole_graph
from explorer.stages.kinds import Kinds, by_rules
from explorer.stages.triton.llir import LINES
from explorer.stages.triton.origins import llvm_chains

_DEFINE = re.compile(r'^define\b[^@]*@(?:"([^"]+)"|([\w.$-]+))\(')


def bounds(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function that is defined."""
    name, first = "", 0
    for number, line in enumerate(lines, 1):
        if begun := _DEFINE.match(line):
            name, first = begun[1] or begun[2], number
        elif line == "}" and first:
            yield name, first, number
            first = 0


def render(event: Event, id: str) -> Artifact:
    """The function of one dispatch."""
    return function_artifact(event, id, "LLVM IR", "llvm")


def kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but those that read the arguments of the dispatch, and jumps."""
    of_inputs = of_whole_graph(stated_places(artifact))
    return [kind or ("inputs" if n in of_inputs else "") for n, kind in enumerate(by_rules(artifact.lines, LINES), 1)]


STAGE = Stage(
    name="iree_llvm",
    title="LLVM IR · IREE",
    language="llvm",
    event=ExecutableText,
    artifact=MachineFunction,
    backend="iree",
    render=render,
    gather=one_a_function(bounds, llvm_chains),
    per_kernel=True,
    kinds=kinds,
    link=links_to_nodes(stated_places, "llvm !dbg"),
    about="The function of a dispatch in LLVM IR, after LLVM's optimizer: what one workgroup computes.",
)
