"""Whether operators, user lines or nodes are computed by one kernel, and why not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from explorer.analysis.findings.finding import Finding, not_judged
from explorer.analysis.findings.rules import Node, lines_of, listed, user_line, why_no_lowering
from explorer.analysis.questions.fusion import Graph, check_known, fusion_of
from explorer.analysis.questions.lowering import lowerings
from explorer.analysis.questions.tables import graph_breaks
from explorer.errors import InputError, unknown_name
from explorer.model.trace_data import TraceData

#: The operators of ATen that Python's stand for.
INFIX = {
    "+": ("add",),
    "-": ("sub",),
    "*": ("mul",),
    "/": ("div",),
    "//": ("div", "floor_divide"),
    "%": ("remainder",),
    "**": ("pow",),
    "@": ("matmul", "mm", "bmm", "addmm"),
}
#: How a part is named: as `Trace.why` takes it, by the number of a user line, or by some of its code.
Part = str | int


@dataclass(frozen=True)
class Place:
    """Where a part is computed in one graph: its FX nodes or other names there, and the scheduler nodes."""

    graph: Graph
    names: tuple[str, ...]
    numbers: frozenset[int]


def parts_not_fused(trace: TraceData, parts: Sequence[Part], graph: str | None = None) -> Iterator[Finding]:
    """Yield a finding if no kernel computes something of every part, in a graph that has all of them.

    Each graph that computes all parts must have such a kernel, forward and backward alike; `graph` names one. In C++ it is one
    loop nest: a function that runs one loop after the other fuses nothing. InputError for fewer than two parts.
    """
    if len(parts) < 2:
        raise InputError(f"a fusion is of two parts or more: operators, lines of code or nodes, not {listed(map(repr, parts))}")
    if len(set(parts)) < len(parts):
        raise InputError(
            f"a fusion is of different parts, not {listed(map(repr, parts))}: name two nodes, such as 'sum_1', 'sum_2'"
        )
    expected = f"{' and '.join(map(str, parts))} in one kernel"
    if nothing := why_no_lowering(trace) or _no_verdicts(trace):
        yield not_judged("not-fused", expected, nothing)
        return
    every = fusion_of(trace).graphs
    graphs = [g for g in every if graph in (None, g.artifact.graph)]
    if not graphs:
        raise unknown_name("graph of this trace", graph, {g.artifact.graph for g in every})
    places = {part: list(_places(trace, graphs, part)) for part in parts}
    for part, homes in places.items():
        if not homes:
            yield not_judged("not-fused", expected, _unknown(trace, graphs, part), "t.inductor.lowerings")
            return
    common = [g for g in graphs if all(any(home.graph is g for home in homes) for homes in places.values())]
    if not common:
        yield _in_several_graphs(trace, expected, places)
    for each in common:
        yield from _apart(trace, expected, each, {p: next(h for h in homes if h.graph is each) for p, homes in places.items()})


def _no_verdicts(trace: TraceData) -> str:
    return "" if fusion_of(trace).graphs else "the trace has no verdicts of Inductor's scheduler"


def _places(trace: TraceData, graphs: Iterable[Graph], part: Part) -> Iterator[Place]:
    """Yield where each graph computes a part."""
    for graph in graphs:
        names = (part,) if isinstance(part, str) and graph.find(part) else _names_of_line(trace, graph, part)
        numbers = frozenset(n for name in names for n in graph.find(name) or ())
        if numbers:
            yield Place(graph, names, numbers)


def _names_of_line(trace: TraceData, graph: Graph, part: Part) -> tuple[str, ...]:
    """The FX nodes of a graph that a user line makes, by its number or by some of its code."""
    where = (graph.artifact.frame, graph.artifact.graph)
    rows = [row for row in lowerings(trace) if (row["frame"], row["graph"]) == where and _is_meant(row, part)]
    return tuple(row["node"] for row in (_of_code(graph, rows, part) if isinstance(part, str) else rows))


def _of_code(graph: Graph, rows: Sequence[Node], code: str) -> Sequence[Node]:
    """Return the nodes of a line that a part of its code makes: those of the part's operators, or all for the whole line.

    What a backward graph computes has other operators, and goes by its line. InputError where nothing tells the nodes apart.
    """
    words = {*re.findall(r"[A-Za-z]\w*[A-Za-z0-9]", code), *_infix(code)}
    results = {place.node for word in words for place in graph.operators.get(word, ())}
    named = [row for row in rows if row["node"] in results or str(row["target"]).split(".")[1:2] in [[word] for word in words]]
    if named or len(rows) < 2 or graph.artifact.graph == "backward" or any(_value(str(row["code"])) == code for row in rows):
        return named or rows
    raise InputError(f"{code!r} is part of a line that computes {listed(str(r['target']) for r in rows)}: name one of these")


def _infix(code: str) -> set[str]:
    """Return the operators between two operands, without a sign or the "=" of a keyword."""
    signs = re.findall(r"(?<=[\w)\]])\s*(\*\*|//|[-+*/@%])\s*(?=[\w(\[])|^\s*([-+*/@%])", code)
    return {name for pair in signs for sign in pair for name in INFIX.get(sign, ())}


def _value(line: str) -> str:
    """Return a line without its `return` or its assignment target."""
    return re.sub(r"^(return\s+|[\w.,\s]+=(?!=)\s*)", "", line.strip())


def _is_meant(row: Node, part: Part) -> bool:
    """Whether a node belongs to the line. A single word is a name, not code: "sum" is an operator, "h.sum" is code."""
    if isinstance(part, int):
        return bool(row["line"] == part)
    return not part.isidentifier() and part in str(row["code"])


def _unknown(trace: TraceData, graphs: Sequence[Graph], part: Part) -> str:
    """Say that no graph computes a part, with those names that it may mean."""
    if isinstance(part, int):
        return f"no node is of line {part}: {listed(lines_of(trace, lowerings(trace)))}"
    try:
        check_known(part, graphs)
    except InputError as error:
        return str(error)
    return f"{part!r} is computed by no scheduler node: it is a view, or an input"


def _apart(trace: TraceData, expected: str, graph: Graph, places: dict[Part, Place]) -> Iterator[Finding]:
    """Yield a finding if no group of a graph has something of every part."""
    groups = {n: row["name"] for row in graph.groups() for name in row["nodes"] for n in graph.find(name) or ()}
    homes = {part: {groups[n] for n in place.numbers if n in groups} for part, place in places.items()}
    if set.intersection(*homes.values()):
        return
    first, second = next((a, b) for a, b in combinations(places, 2) if not homes[a] & homes[b]) if _pair(homes) else _ends(places)
    kernels = {row["name"]: ", ".join(row["kernels"]) or row["call"] or row["name"] for row in graph.groups()}
    computed = "; ".join(f"{part} in {listed(kernels[name] for name in sorted(homes[part]))}" for part in places)
    why, look = why_apart(graph, _nearest(graph, places[first], last=True), _nearest(graph, places[second], last=False))
    actual = f"they are apart, in {graph.place}: {computed}"
    yield Finding("not-fused", expected, actual, lines_of(trace, _rows(trace, places.values())), why, look)


def why_apart(graph: Graph, first: str, second: str) -> tuple[str, str]:
    """Say why two nodes of a graph are apart, as `Trace.why` does, and the call that says it."""
    sentence = graph.why(first, second).sentence
    return sentence, f"t.why({first!r}, {second!r}, graph={graph.artifact.graph!r}, frame={graph.artifact.frame!r})"


def why_in_several_graphs(trace: TraceData) -> tuple[str, str]:
    """Say why two nodes of different graphs are apart, with the graph breaks of the program, and where to look."""
    broken = [f"{row['reason']} at {user_line(trace, row['file'], row['line'])}" for row in graph_breaks(trace)]
    between = f", and this is a graph break: {listed(broken)}" if broken else ""
    return f"each graph is compiled by itself{between}", "t.dynamo.graph_breaks" if broken else "t.dynamo.functions"


def _pair(homes: dict[Part, set[str]]) -> bool:
    """Whether two of the parts share no group, and not only all of them together."""
    return any(not a & b for a, b in combinations(homes.values(), 2))


def _ends(places: dict[Part, Place]) -> tuple[Part, Part]:
    parts = list(places)
    return parts[0], parts[-1]


def _nearest(graph: Graph, place: Place, *, last: bool) -> str:
    """One name of a part for the question why: the scheduler's for the end of it that is nearest to the other part."""
    if len(place.names) == 1:
        return place.names[0]
    number = max(place.numbers) if last else min(place.numbers)
    return graph.verdicts.names[number]


def _rows(trace: TraceData, places: Iterable[Place]) -> list[Node]:
    """The FX nodes of some parts; of a scheduler node, a buffer or a kernel all that it computes."""
    meant = {
        (p.graph.artifact.frame, p.graph.artifact.graph, node) for p in places for name in p.names for node in _nodes(p, name)
    }
    return [row for row in lowerings(trace) if (row["frame"], row["graph"], row["node"]) in meant]


def _nodes(place: Place, name: str) -> set[str]:
    """The FX nodes that a name of a part stands for."""
    graph, every = place.graph, {n for number in place.numbers for n in place.graph.fx_nodes(place.graph.verdicts.names[number])}
    return {name} & every or {home.node for home in graph.operators.get(name, ())} & every or every


def _in_several_graphs(trace: TraceData, expected: str, places: dict[Part, list[Place]]) -> Finding:
    """Build the finding for parts that no graph has together, with the graph breaks between them."""
    where = "; ".join(f"{part} in {listed(home.graph.place for home in homes)}" for part, homes in places.items())
    lines = lines_of(trace, _rows(trace, [home for homes in places.values() for home in homes]))
    return Finding("not-fused", expected, f"they are in different graphs: {where}", lines, *why_in_several_graphs(trace))


__all__ = ["Part", "parts_not_fused", "why_apart", "why_in_several_graphs"]
