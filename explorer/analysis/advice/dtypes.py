"""Verdicts on float64, and the casts that the program itself writes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.advice.call_cost import Launch, TracedCall, bytes_of, reads_of
from explorer.analysis.advice.verdicts import Cost, Verdict
from explorer.analysis.questions.costs import loop_operations
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import typed
from explorer.model.values import Plain
from explorer.stages.fx_graph import FxGraph, captured_graphs, input_names

#: The methods of a tensor that change its dtype.
METHODS = frozenset(
    {"to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool"}
)
#: The operators that they become.
CASTS = frozenset({"prims.convert_element_type.default", "aten._to_copy.default"})


@dataclass(frozen=True)
class Cast:
    """A cast that the program writes: the method, the dtypes before and after, and its line."""

    method: str
    before: str
    after: str
    line: UserLine

    def __str__(self) -> str:
        return f".{self.method}() makes {self.after} of {self.before}"


def casts_of(traced: TracedCall, frame: str, nodes: Iterable[Mapping[str, Plain]]) -> tuple[Cast, ...]:
    """List the casts in Dynamo's graph that some FX nodes compute: those of the same line that give the same dtype.

    What autocast, a promotion of dtypes or a decomposition casts is not in Dynamo's graph.
    """
    places = {(n["file"], n["line"], n["dtype"]) for n in nodes if n["target"] in CASTS}
    casts = (one for graph in captured_graphs(traced.trace, frame) for one in _casts(typed(FxGraph, graph.data)))
    return tuple(dict.fromkeys(one for one in casts if (one.line.file, one.line.number, one.after) in places))


def _casts(graph: FxGraph) -> Iterator[Cast]:
    """Yield each call of a method that gives another dtype than it is called on."""
    nodes = {node.name: node for node in graph.nodes or ()}
    for node in nodes.values():
        before = nodes[node.inputs[0]].dtype if node.inputs and node.inputs[0] in nodes else None
        if node.op == "call_method" and node.target in METHODS and node.file and before and node.dtype not in (None, before):
            line = UserLine(node.file, node.line or 0, node.code or "")
            yield Cast(node.target, before, str(node.dtype), line)


def float64(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict where a graph mixes float64 with narrower inputs, which makes every result float64."""
    for graph in traced.graphs:
        inputs = [node for node in graph.graph_nodes if node.get("op") == "placeholder" and "float" in str(node.get("dtype"))]
        wide = [node for node in graph.graph_nodes if "float64" in str(node.get("dtype"))]
        if not wide or all("float64" in str(node.get("dtype")) for node in inputs):
            continue
        launches = [
            one
            for one in traced.launches
            if one.graph is graph and {n["name"] for n in wide} & {*one.row["fx_nodes"], *reads_of(one)}
        ]
        cost = _narrowed(traced, launches)
        names = input_names(traced.trace, graph.artifact.frame, graph.artifact.graph)
        named = [names.get(str(node["name"]), str(node["name"])) for node in inputs if node in wide]
        first = [node for node in wide if node.get("file")]
        casts = casts_of(traced, graph.artifact.frame, wide)
        yield Verdict(
            "float64",
            f"{len(wide)} values are float64 among narrower ones"
            + (f", from {', '.join(named)}" if named else f": {casts[0]}" if casts else ""),
            cost,
            "; ".join(f"{node['name']} is {node['dtype']}[{', '.join(node.get('shape') or ())}]" for node in wide[:3]),
            "leave the cast out: float32 is enough for most sums, which kernels accumulate in it"
            if casts and not named
            else "give the float64 input the dtype of the others before the call: what NumPy makes is float64",
            tuple(dict.fromkeys((*(one.line for one in casts if not named), *traced.user_lines(first[:3])))),
            tuple(traced.places_of_nodes(graph.artifact, [node["name"] for node in wide[:3]])),
            why_unproved="a dtype of the program's has to change: trace the changed one, and explorer.compare() shows both",
        )


def _narrowed(traced: TracedCall, launches: Iterable[Launch]) -> Cost:
    """Return the cost of float64: half of its bytes, and the slower of both rates."""
    moved, seconds = 0, 0.0
    for launch in launches:
        names = {*launch.row["fx_nodes"], *reads_of(launch)}
        nodes = [node for node in launch.graph.graph_nodes if node["name"] in names and "float64" in str(node.get("dtype"))]
        half = min(sum(bytes_of(node) for node in nodes), launch.row["read"] + launch.row["written"]) // 2
        moved += half
        seconds += max(traced.seconds_of(half), _slower(traced, launch))
    return Cost(
        seconds, "estimated", f"half of the bytes that float64 takes, {traced.bandwidth}, or its slower operations", moved
    )


def _slower(traced: TracedCall, launch: Launch) -> float:
    """Seconds that the float64 operations of a launch take longer than float32's would."""
    peak = traced.target.peak if traced.target else {}
    count = loop_operations(launch.row).get("float64", 0)
    if not count or not peak.get("fp64") or not peak.get("fp32"):
        return 0.0
    return 2 * count * (1 / peak["fp64"] - 1 / peak["fp32"])


__all__ = ["Cast", "casts_of", "float64"]
