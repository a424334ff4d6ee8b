"""LLVM IR and assembly of each function that TVM compiled for the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.functions import ExecutableText, MachineFunction, function_artifact, one_a_function, stated_places
from explorer.stages.fx_locations import FX_GRAPH, links_to_nodes
from explorer.stages.iree import assembly, llvm
from explorer.stages.kinds import Kinds, by_rules, rules
from explorer.stages.triton.llir import LINES
from explorer.stages.triton.origins import llvm_chains

LLVM_LINES = (*rules(declarations=r"^\s+#dbg_|^\s+call void @llvm\.assume\("), *LINES)
Chains = Iterator[tuple[int, tuple[tuple[str, int], ...]]]


def of_graph(chains: Chains) -> Chains:
    """The places as lines of the file that stands for the graph: the only locations in TVM's code are those, see `origins`.

    TVM names another file, whose name it does not let one choose.
    """
    for number, chain in chains:
        if places := tuple((FX_GRAPH, line) for _, line in chain if line):
            yield number, places


def render(event: Event, id: str, *, what: str, language: str) -> Artifact:
    """The function."""
    return function_artifact(event, id, what, language)


def llvm_kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but jumps and what is only said of a value: its variable, its alignment."""
    return by_rules(artifact.lines, LLVM_LINES)


def assembly_kinds(artifact: Artifact) -> Kinds:
    """Instructions compute, but those that end the function."""
    return [assembly.kind_of(line) for line in artifact.lines]


LLVM = Stage(
    name="tvm_llvm",
    title="LLVM IR · TVM",
    language="llvm",
    event=ExecutableText,
    artifact=MachineFunction,
    backend="tvm",
    render=partial(render, what="LLVM IR", language="llvm"),
    gather=one_a_function(llvm.bounds, lambda text: of_graph(llvm_chains(text))),
    per_kernel=True,
    kinds=llvm_kinds,
    link=links_to_nodes(stated_places, "llvm !dbg"),
    about="A function in LLVM IR, after LLVM's optimizer; TVM's function that checks its arguments and calls it is left out.",
)
ASSEMBLY = Stage(
    name="tvm_assembly",
    title="Assembly · TVM",
    language="asm",
    event=ExecutableText,
    artifact=MachineFunction,
    backend="tvm",
    render=partial(render, what="Assembly", language="asm"),
    gather=one_a_function(assembly.bounds, lambda text: of_graph(assembly.chains(text))),
    per_kernel=True,
    kinds=assembly_kinds,
    link=links_to_nodes(stated_places, ".loc"),
    about="The instructions of a function, as the virtual machine calls them.",
)
STAGES = (LLVM, ASSEMBLY)
