"""The names under which a profile has the kernels and library calls of a trace. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.questions.costs import is_call, kernel_rows
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.kernels import kernels_of
from explorer.analysis.questions.rows import GroupRow
from explorer.model.trace_data import TraceData

#: What a C++ kernel's name has before it in a profile: the number of its graph in the process that was profiled.
_GRAPH_NUMBER = re.compile(r"^graph_\d+_(?=cpp_)")
#: The function of a Triton kernel; the wrapper calls a kernel of the program's own by a different name.
_TRITON_NAME = re.compile(r"@triton\.jit[^\n]*\n\s*def (\w+)\(")


@dataclass(frozen=True)
class GraphLaunches:
    """What one run of a graph launches: its kernels by every name that a profile may have for them, its library calls.

    `calls` has for the name of an operator, without its namespace, the scheduler's nodes in the order of their calls. `nodes` has
    the FX nodes of each kernel and call, `times` how often a kernel is launched in one run, None where that is not known.
    """

    frame: str
    graph: str
    kernels: Mapping[str, str]
    calls: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, tuple[str, ...]]
    times: Mapping[str, int | None]
    language: str

    @property
    def call_counts(self) -> Counter[str]:
        """How often one run calls each operator."""
        return Counter({name: len(nodes) for name, nodes in self.calls.items()})


def launches_of(trace: TraceData) -> tuple[GraphLaunches, ...]:
    """List what each graph of a trace launches, in the trace's order."""
    groups: dict[tuple[str, str], list[GroupRow]] = {(a.frame, a.graph): [] for a in trace.find("output_code")}
    for graph in fusion_of(trace).graphs:
        groups[graph.artifact.frame, graph.artifact.graph] = list(graph.groups())  # of a graph compiled again the last counts
    return tuple(_launches(trace, frame, graph, rows) for (frame, graph), rows in groups.items())


def _launches(trace: TraceData, frame: str, graph: str, groups: list[GroupRow]) -> GraphLaunches:
    here = [k for k in kernels_of(trace) if (k.artifact.frame, k.artifact.graph) == (frame, graph)]
    names = {alias: k.name for k in here for alias in aliases(k.source)} | {k.name: k.name for k in here}
    calls: dict[str, tuple[str, ...]] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    for group in groups:
        if is_call(group):
            name = operator_name(group)
            calls[name] = (*calls.get(name, ()), group["name"])
            nodes[group["name"]] = tuple(group["fx_nodes"])
        for kernel in group["kernels"]:
            nodes[kernel] = tuple(dict.fromkeys((*nodes.get(kernel, ()), *group["fx_nodes"])))
    times = {row["kernel"]: row["launches"] for row in kernel_rows(trace) if (row["frame"], row["graph"]) == (frame, graph)}
    return GraphLaunches(frame, graph, names, calls, nodes, times, here[0].language if here else "")


def aliases(source: str) -> Iterator[str]:
    """Yield the other names that a kernel has in a profile, by its text."""
    yield from _TRITON_NAME.findall(source)


def kernel_name(name: str) -> str:
    """A kernel's name of a profile as the output code has it: "cpp_fused_add_0" of "graph_0_cpp_fused_add_0"."""
    return _GRAPH_NUMBER.sub("", name)


def operator_name(group: GroupRow) -> str:
    """The name of the operator that a library call calls, as the profile has it behind "aten::".

    The wrapper writes `extern_kernels.addmm`, or `torch.ops.aten.sort.stable` with the overload.
    """
    parts = group["call"].split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 3:
        return parts[3]
    return parts[-1].removeprefix("bias_")


__all__ = ["GraphLaunches", "aliases", "kernel_name", "launches_of", "operator_name"]
