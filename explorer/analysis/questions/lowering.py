"""How Inductor lowered each FX node, and the kernel that it ended in. Pure.

    t.inductor.lowerings    one row per FX node: what lowered it, its kind, whether it is in memory, its kernels
    t.why("cumsum")         the same of one node in plain sentences, with Inductor's decisions on its loops

A node is named by its FX name ("cumsum"), its operator ("aten.cumsum.default"), a buffer or operation of it ("buf3", "op3"), or
a kernel, which stands for all nodes that ended in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.analysis.questions.breaks import check_in_a_graph
from explorer.analysis.questions.fusion import Graph, fusion_of
from explorer.analysis.questions.rows import GroupRow, LoweringRow
from explorer.errors import InputError, unknown_name
from explorer.model.records import typed
from explorer.model.shared import FxNode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Table, once
from explorer.stages.fx_graph import FxGraph
from explorer.stages.inductor.lowered import (
    IDLE,
    LoweredNode,
    LoweredOperation,
    Lowering,
    kinds_of_node,
    said_of_order,
    said_of_split,
    said_of_tiling,
    why_fallback,
)
from explorer.stages.inductor.lowering import operations_by_node

#: The kinds of a scheduler node that the wrapper calls.
CALLED = ("extern", "template")
#: What each kind is called in a sentence.
SAID = {
    "pointwise": "a pointwise loop nest",
    "reduction": "a reduction",
    "scan": "a scan",
    "sort": "a sort",
    "scatter": "a scatter, a loop nest that writes at computed places",
    "template": "a template",
    "extern call": "an extern call",
    "fallback": "a fallback: a call of the operator itself",
    "user's kernel": "a kernel that the program brings",
    "collective": "a collective",
    "view": "a view: only how its input is indexed",
    "entry of a tuple": "an entry of what another node gives",
    "constant": "a constant",
    "same buffer": "the buffer that it is given, unchanged",
    "size": "a size, which is computed in the wrapper",
    "nothing": "nothing",
    "nothing computed": "a buffer that others write parts of",
    "output of a call": "an output of a call",
}


@dataclass(frozen=True)
class Lowered:
    """The answer to `Trace.why` on one node: a sentence or several for each node that was asked about, and their rows."""

    name: str
    sentences: tuple[str, ...]
    table: Table = field(default_factory=Table, repr=False)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def __repr__(self) -> str:
        return str(self)


def lowerings(trace: TraceData) -> Table:
    """One row per FX node of each graph that Inductor lowered."""
    return Table((row for nodes in _graphs(trace) for row in nodes.rows()), LoweringRow.__annotations__)


def lowering(trace: TraceData, name: str, graph: str | None = None, frame: str | None = None) -> Lowered:
    """Say how a node was lowered; InputError for an unknown name, with the nearest or with the line of its graph break."""
    graphs = [g for g in _graphs(trace) if graph in (None, g.artifact.graph) and frame in (None, g.artifact.frame)]
    if not graphs:
        raise InputError(
            "this trace does not say how its nodes were lowered: Inductor lowered no matching graph during the recording"
        )
    found = [(g, row) for g in graphs for row in g.matching(name)]
    if not found:
        check_in_a_graph(trace, name)
        raise unknown_name("FX node, operator, buffer or kernel", name, {known for g in graphs for known in g.names()})
    return Lowered(name, tuple(line for g, row in found for line in g.sentences(row)), Table(row for _, row in found))


def by_node(trace: TraceData, frame: str, graph: str) -> dict[str, LoweringRow]:
    """The rows of one graph, the graphs inside it included, by the names of their nodes."""
    return {row["node"]: row for g in _graphs_by_place(trace).get((frame, graph), ()) for row in g.rows()}


@once
def _graphs_by_place(trace: TraceData) -> dict[tuple[str, str], list[_Graph]]:
    graphs: dict[tuple[str, str], list[_Graph]] = {}
    for graph in _graphs(trace):
        graphs.setdefault((graph.artifact.frame, graph.artifact.graph), []).append(graph)
    return graphs


@once
def _graphs(trace: TraceData) -> tuple[_Graph, ...]:
    """The lowerings of each graph, with the scheduler's verdicts on it."""
    verdicts = {(g.artifact.frame, g.artifact.graph, g.artifact.data["of"]): g for g in fusion_of(trace).graphs}
    return tuple(_Graph(a, verdicts.get((a.frame, a.graph, a.data["of"])), _places(trace, a)) for a in trace.find("lowering"))


def _places(trace: TraceData, artifact: Artifact) -> Mapping[str, FxNode]:
    """The nodes of the post-grad graph by name, each with the user's line."""
    found = trace.find("post_grad", artifact.frame, artifact.graph)
    graph = typed(FxGraph, found[-1].data) if found else FxGraph()
    return {node.name: node for node in (*(graph.nodes or ()), *(graph.inner or ()))}


class _Graph:
    """The nodes of one graph."""

    def __init__(self, artifact: Artifact, fusion: Graph | None, nodes: Mapping[str, FxNode]) -> None:
        self.artifact = artifact
        self.data = typed(Lowering, artifact.data)
        self._nodes, self._fusion = nodes, fusion
        self._operations = operations_by_node(self.data)
        self._within = f"{self.data.path}." if self.data.path else ""
        self._groups = list(fusion.groups()) if fusion else []
        self._groups_of_operation = _places_of(group["nodes"] for group in self._groups)
        self._groups_of_node = _places_of(group["fx_nodes"] for group in self._groups)
        self._why_made = {row["buffer"]: row["why"] for row in fusion.buffers()} if fusion else {}
        self._rows: list[LoweringRow] = []

    def rows(self) -> list[LoweringRow]:
        """Return one row per node, made once."""
        if not self._rows:
            self._rows = [self._row(node) for node in self.data.lowered]
        return self._rows

    def _row(self, node: LoweredNode) -> LoweringRow:
        operations = self._operations.get(node.node, [])
        kinds = kinds_of_node(node, operations)
        names = tuple(one.operation for one in operations)
        place = self._nodes.get(self._within + node.node)
        groups = self._ended_in(node.node, names, kinds)
        return {
            "frame": self.artifact.frame,
            "graph": self.artifact.graph,
            "node": self._within + node.node,
            "target": node.target,
            "kind": kinds[0],
            "kinds": kinds,
            "device": node.device,
            "realized": self._is_realized(kinds, operations),
            "why": self._why(kinds, operations),
            "kernels": tuple(dict.fromkeys(name for group in groups for name in group["kernels"])),
            "calls": tuple(dict.fromkeys(group["call"] for group in groups if group["kind"] in CALLED and not group["kernels"])),
            "with": self._fused_with(node.node, groups),
            "operations": names,
            "buffers": tuple(name for one in operations for name in one.buffers),
            "function": node.function,
            "lowered_at": f"{node.file}:{node.line}" if node.file else "",
            "file": (place and place.file) or "",
            "line": (place and place.line) or 0,
            "code": (place and place.code) or "",
        }

    def _ended_in(self, node: str, operations: Iterable[str], kinds: tuple[str, ...]) -> list[GroupRow]:
        """Return the scheduler's groups that compute a node: the groups of its operations, or of its readers if it is inlined."""
        own = tuple(operations)
        if own:
            places = sorted({place for name in own for place in self._groups_of_operation.get(name, ())})
        else:
            places = [] if kinds[0] in IDLE else self._groups_of_node.get(node, [])
        return [self._groups[place] for place in places]

    def _fused_with(self, node: str, groups: Iterable[GroupRow]) -> tuple[str, ...]:
        names = dict.fromkeys(name for group in groups if group["kernels"] for name in group["fx_nodes"])
        return tuple(name for name in names if name != node)

    @staticmethod
    def _is_realized(kinds: tuple[str, ...], operations: Iterable[LoweredOperation]) -> bool | None:
        """Whether a buffer was made for a node; None for what computes nothing."""
        return None if kinds[0] in IDLE else any(one.buffers for one in operations)

    def _why(self, kinds: tuple[str, ...], operations: Sequence[LoweredOperation]) -> str:
        """Say why a node became a library call, or why its result is in memory."""
        called = [why_fallback(one.reason) for one in operations if one.reason is not None]
        made = [self._why_made[name] for one in operations for name in one.buffers if name in self._why_made]
        if called or made:
            return "; ".join(dict.fromkeys((*called, *made)))
        return "" if kinds[0] in IDLE or operations else "no rule put it in memory: it is computed where it is read"

    # One node ------------------------------------------------------------------------------------------------------

    def names(self) -> Iterator[str]:
        """The names by which nodes can be asked about."""
        for row in self.rows():
            yield from _names(row)

    def matching(self, name: str) -> list[LoweringRow]:
        """The rows that a name stands for: of the node of that name where there is one."""
        exact = [row for row in self.rows() if name == row["node"]]
        named = exact or [row for row in self.rows() if name in _names(row)]
        if named or self._fusion is None:
            return named
        nodes = {place.node for place in self._fusion.operators.get(name, ())}
        return [row for row in self.rows() if row["node"] in nodes]

    def sentences(self, row: LoweringRow) -> Iterator[str]:
        """Say how a node was lowered, in whole sentences."""
        code = f", `{row['code']}`" if row["code"] else ""
        kinds = " and ".join(SAID.get(kind, kind) for kind in row["kinds"])
        by = f" It was lowered by {row['function']} ({row['lowered_at']})." if row["function"] else ""
        yield f"{row['node']} ({row['target']}{code}) became {kinds}.{by}"
        if row["why"]:
            yield f"  {self._because(row)}: {row['why']}."
        if ended := self._ended(row):
            yield f"  {ended}"
        if alone := self._alone(row):
            yield f"  {alone}"
        own, node = set(row["operations"]), row["node"].removeprefix(self._within)
        yield from (f"  Reduction: {said_of_split(one)}." for one in self.data.splits if one.node == node)
        yield from (f"  Order of loops: {said_of_order(one)}." for one in self.data.orders if one.operation in own)
        yield from (f"  Tiling: {said_of_tiling(one)}." for one in self.data.tilings if own & set(one.operations))

    def _alone(self, row: LoweringRow) -> str:
        """Say why no other node is in the kernel of a node; "" where one is, and where the scheduler says nothing of it."""
        if self._fusion is None or not row["kernels"] or row["with"] or len(row["operations"]) != 1:
            return ""
        return self._fusion.alone(row["operations"][0]).sentence

    @staticmethod
    def _because(row: LoweringRow) -> str:
        if row["kind"] == "fallback":
            return "Why a call"
        return f"In memory as {', '.join(row['buffers'])}" if row["realized"] else "Not in memory"

    @staticmethod
    def _ended(row: LoweringRow) -> str:
        """Say which kernels and calls a node ended in."""
        parts = []
        if row["kernels"]:
            others = f" with {', '.join(row['with'])}" if row["with"] else ", alone"
            parts.append(f"It is computed in {', '.join(row['kernels'])}{others}.")
        if row["calls"]:
            parts.append(f"The wrapper calls {', '.join(row['calls'])}.")
        return " ".join(parts)


def _places_of(members: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """For each name the numbers of the groups that it is a member of, in their order."""
    places: dict[str, list[int]] = {}
    for number, names in enumerate(members):
        for name in dict.fromkeys(names):
            places.setdefault(name, []).append(number)
    return places


def _names(row: LoweringRow) -> tuple[str, ...]:
    """List the names by which a node can be asked about."""
    target = str(row["target"])
    short = target.split(".")[1] if target.count(".") >= 2 else target
    return (row["node"], target, short, *row["buffers"], *row["operations"], *row["kernels"])


__all__ = ["Lowered", "by_node", "lowering", "lowerings"]
