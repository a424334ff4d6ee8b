"""What was compiled, as facts that are the same on every machine for the same torch: what stored expectations hold. Pure.

A node is known by its operator, the user's code and its number among equal ones, and not by its line's number, its file or the
name of its kernel: these change with an edit elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.analysis.findings.finding import check, not_judged
from explorer.analysis.findings.rules import SPILLS, Node, called_nodes, code_at, peak_bytes, why_no_lowering
from explorer.analysis.questions.fusion import Graph, fusion_of
from explorer.analysis.questions.kernels import KernelData, kernels_of
from explorer.analysis.questions.lowering import lowerings
from explorer.analysis.questions.rows import GroupRow
from explorer.analysis.questions.tables import graph_breaks, table
from explorer.analysis.questions.target import compiled_for
from explorer.analysis.questions.user_lines import FORWARD
from explorer.errors import FileError
from explorer.model.trace_data import TraceData
from explorer.model.values import once


@dataclass(frozen=True)
class FusedNodes:
    """The nodes that one kernel computes together, in C++ one loop nest of it; what its machine code spills, and takes.

    `spills` are bytes a thread, on AMD registers; None where that is not known. `registers` and `instructions` are not stored.
    """

    kernel: str
    computes: tuple[str, ...]
    spills: int | None = None
    registers: int | None = None
    instructions: int | None = None


@dataclass(frozen=True)
class Facts:
    """What was compiled: graphs, graph breaks, recompiles, kernels, calls, the peak memory of a graph in bytes, failures.

    `kernel_count` counts kernels as `assert_kernels` does; `kernels` has one of them a loop nest. `dtypes` counts nodes by
    operator and the dtype of the result, as "aten.mm.default float32", `patterns` matches by pattern; both are None in files that
    older versions stored.
    """

    target: str
    graphs: int
    recompiles: int
    graph_breaks: tuple[str, ...]
    kernels: tuple[FusedNodes, ...]
    calls: tuple[str, ...]
    peak_bytes: int | None
    failures: tuple[str, ...]
    kernel_count: int
    dtypes: Mapping[str, int] | None = None
    patterns: Mapping[str, int] | None = None

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of the kernels, each once."""
        return tuple(dict.fromkeys(kernel.kernel for kernel in self.kernels))

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON; what is unknown is null, and spills of 0 are left out."""
        return {
            "target": self.target,
            "graphs": self.graphs,
            "recompiles": self.recompiles,
            "graph_breaks": list(self.graph_breaks),
            "kernel_count": self.kernel_count,
            "kernels": [
                {"kernel": k.kernel, "computes": list(k.computes), **({} if k.spills == 0 else {"spills": k.spills})}
                for k in self.kernels
            ],
            "calls": list(self.calls),
            "peak_bytes": self.peak_bytes,
            "failures": list(self.failures),
            **({} if self.dtypes is None else {"dtypes": dict(self.dtypes)}),
            **({} if self.patterns is None else {"patterns": dict(self.patterns)}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], where: str) -> Facts:
        """Read what `to_json` wrote; FileError, with `where`, for anything else."""
        try:
            return Facts(
                str(value["target"]),
                int(value["graphs"]),
                int(value["recompiles"]),
                tuple(map(str, value["graph_breaks"])),
                tuple(FusedNodes(k["kernel"], tuple(map(str, k["computes"])), k.get("spills", 0)) for k in value["kernels"]),
                tuple(map(str, value["calls"])),
                None if value["peak_bytes"] is None else int(value["peak_bytes"]),
                tuple(map(str, value["failures"])),
                int(value["kernel_count"]),
                _counts(value, "dtypes"),
                _counts(value, "patterns"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(f"{where} holds no expectations of explorer's: {type(error).__name__}: {error}") from None


def _counts(value: Mapping[str, Any], name: str) -> dict[str, int] | None:
    return {str(what): int(count) for what, count in value[name].items()} if name in value else None


@once
def facts_of(trace: TraceData) -> Facts:
    """Return the facts of a trace; ContractError, "not judged", if it does not say what became of the program's nodes."""
    if why := why_no_lowering(trace):
        check([not_judged("expectations", "what was compiled", why)])
    peaks, unknown = peak_bytes(trace)
    return Facts(
        compiled_for(trace).name,
        len(trace.find("dynamo")),
        len({row["frame"] for row in table(trace, "recompile")}),
        tuple(sorted(break_key(trace, row) for row in graph_breaks(trace))),
        tuple(_kernels(trace)),
        tuple(_calls(trace)),
        max(peaks.values()) if peaks and not unknown else None,
        tuple(sorted(f"{f.stage}, {f.what}" for f in trace.failures)),
        len(kernels_of(trace)),
        dict(sorted(Counter(f"{operator_of(key)} {dtype}" for key, dtype in dtypes_by_key(trace).items()).items())),
        dict(sorted(Counter(row["pattern"] for row in table(trace, "pattern_match")).items())),
    )


def break_key(trace: TraceData, row: Mapping[str, Any]) -> str:
    """What a graph break, a row of `t.dynamo.graph_breaks`, is known by: its reason and the user's code."""
    return f"{row['reason']} at `{code_at(trace, row['file'], row['line'])}`"


Place = tuple[str, str, str]


def nodes_by_key(trace: TraceData) -> dict[str, Node]:
    """Map the key of each FX node that a kernel or a call computes to its row, in the order of the graphs."""
    seen: Counter[str] = Counter()
    nodes: dict[str, Node] = {}
    for row in lowerings(trace):
        if row["kernels"] or row["calls"]:
            key = _key(row)
            seen[key] += 1
            nodes[key if seen[key] == 1 else f"{key} #{seen[key]}"] = row
    return nodes


def dtypes_by_key(trace: TraceData) -> dict[str, str]:
    """Map the key of each FX node that something computes to the dtype of its result, where it is one tensor."""
    nodes = ((a.frame, a.graph, node) for a in trace.artifacts for node in a.nodes if node.get("dtype"))
    dtypes = {(frame, graph, node["name"]): str(node["dtype"]) for frame, graph, node in nodes}
    return {key: dtypes[place] for place, key in keys_by_place(trace).items() if place in dtypes}


def operator_of(key: str) -> str:
    """The operator in a node's key, with the graph where that is not the forward one."""
    return key.partition(" of `")[0].partition(" #")[0]


def _key(row: Node) -> str:
    graph = FORWARD.get(row["graph"], row["graph"])
    within = f"{graph}: " if graph != "forward" else ""
    return f"{within}{row['target']} of `{row['code']}`" if row["code"] else f"{within}{row['target']}"


def keys_by_place(trace: TraceData) -> dict[Place, str]:
    """Map the frame, graph and name of each FX node that something computes to its key."""
    return {(row["frame"], row["graph"], row["node"]): key for key, row in nodes_by_key(trace).items()}


def _kernels(trace: TraceData) -> Iterator[FusedNodes]:
    """Yield what each group of the scheduler computes in its kernel."""
    keys = keys_by_place(trace)
    kernels = {(k.artifact.frame, k.artifact.graph, k.name): k for k in kernels_of(trace)}
    for graph in fusion_of(trace).graphs:
        where = (graph.artifact.frame, graph.artifact.graph)
        for group in graph.groups():
            nodes = _in_loops(graph, group) or group["fx_nodes"]
            computed = {(*where, node): keys[(*where, node)] for node in nodes if (*where, node) in keys}
            if group["kernels"] and computed:
                in_order = sorted(computed.values(), key=list(keys.values()).index)
                yield _fused(kernels.get((*where, group["kernels"][0])), group["kernels"][0], tuple(in_order))


def _in_loops(graph: Graph, group: GroupRow) -> dict[str, None]:
    """Name the FX nodes of the operations in a group's loops, where these were recorded; a copy has none of what it copies.

    Inductor's origins of a node have also what was computed into the buffers that it reads.
    """
    return dict.fromkeys(node for _, node in graph.operations(group))


def _fused(kernel: KernelData | None, name: str, computes: tuple[str, ...]) -> FusedNodes:
    resources = kernel.resources if kernel is not None else {}
    spilled = [int(resources[what]) for what in SPILLS if resources.get(what) is not None]
    mix = resources.get("mix")
    instructions = sum(mix.values()) if mix else None
    return FusedNodes(name, computes, sum(spilled) if spilled else None, resources.get("registers"), instructions)


def _calls(trace: TraceData) -> Iterator[str]:
    keys = keys_by_place(trace)
    for row in called_nodes(trace):
        yield keys[row["frame"], row["graph"], row["node"]]


__all__ = ["Facts", "FusedNodes", "break_key", "dtypes_by_key", "facts_of", "keys_by_place", "nodes_by_key", "operator_of"]
