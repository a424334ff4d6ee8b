"""Which nodes of an ONNX graph each node of the graph after it was made of, by the values that both name. Pure.

A name of a value means one value: ONNX Runtime gives what it makes anew a name that the graph did not have. So what a node
computes of some values is what the nodes between these values and its results computed before. Nodes that hand each other values
with new names, as those around a change of layout do, are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from explorer.model.records import Record, record
from explorer.model.shared import Names


@record
class OnnxNode(Record):
    """An input ("placeholder") or a node of an ONNX graph.

    `name` is ONNX's, or the value that the node computes if ONNX gives it no name; `target` is the operator, after the name of
    its domain: "Gemm", "com.microsoft.FusedGemm". `inputs` names the nodes whose values it uses, `reads` and `writes` the values.
    `fx_node` is the node of the exported program that the exporter says it is of.
    """

    name: str
    op: str
    target: str
    inputs: Names
    reads: Names
    writes: Names
    fx_node: str | None = None


@record
class OnnxGraph(Record):
    """A graph in ONNX: its nodes, behind its inputs, and the names of its constants."""

    nodes: tuple[OnnxNode, ...]
    constants: Names


def origins(before: OnnxGraph, after: OnnxGraph) -> dict[str, tuple[str, ...]]:
    """For each node of the graph `after` the nodes of the graph before it that it was made of, by name, in their order."""
    known, kept, earlier = values_of(before), unchanged(before, after), Earlier(before)
    reads = {node.name: node.reads for node in _computing(before)}
    made_of: dict[str, tuple[str, ...]] = {
        node.name: (node.name,) for node in _computing(after) if node.name in kept and node.reads == reads[node.name]
    }
    for group in _groups([node for node in _computing(after) if node.name not in made_of], known):
        names = {node.name for node in group}
        results = {value for node in group for value in node.writes if value in known}
        inputs = {value for node in group for value in node.reads if value in known} - results
        made_of |= dict.fromkeys(names, earlier.between(inputs, results, kept - names))
    return made_of


def values_of(graph: OnnxGraph) -> set[str]:
    """The values of a graph by name."""
    return {*graph.constants, *(value for node in graph.nodes for value in node.writes)}


def unchanged(before: OnnxGraph, after: OnnxGraph) -> set[str]:
    """The nodes that are in both graphs: of one name, operator and results. What they read may be another node's by now."""
    ones = {(node.name, node.target, node.writes) for node in _computing(before)}
    return {node.name for node in _computing(after) if (node.name, node.target, node.writes) in ones}


class Earlier:
    """A graph, to be asked which of its nodes compute a value.

    `makers` has the node that computes each value, `order` the place of each node, `fixed` the values that depend on no
    input.
    """

    def __init__(self, graph: OnnxGraph) -> None:
        self.makers = {value: node for node in _computing(graph) for value in node.writes}
        self.order = {node.name: (number, node) for number, node in enumerate(_computing(graph))}
        self.fixed = set(graph.constants)
        for node in _computing(graph):
            if set(node.reads) <= self.fixed:
                self.fixed |= set(node.writes)

    def between(self, inputs: set[str], results: set[str], kept: set[str]) -> tuple[str, ...]:
        """The nodes that compute the results of the inputs, without those that are nodes of the next graph too.

        A needed node that computes nothing from these inputs is left out: its value became equal to another one.
        """
        reached = set(inputs)
        for node in self._needed(inputs, results):
            if not set(node.reads) <= self.fixed and reached & set(node.reads):
                reached |= set(node.writes)
        chosen = [n for n in self._needed(inputs, results) if (reached | results) & set(n.writes)]
        varying = {value for node in chosen for value in node.reads if value not in self.fixed}
        constant = self._needed(inputs | varying, {value for node in chosen for value in node.reads})
        names = {node.name for node in (*chosen, *constant)} - kept
        return tuple(sorted(names, key=lambda name: self.order[name][0]))

    def _needed(self, given: set[str], wanted: Iterable[str]) -> list[OnnxNode]:
        """The nodes that the wanted values are computed by, in their order, where some values are given."""
        waiting, seen, names = list(wanted), set(given), set()
        while waiting:
            value = waiting.pop()
            if value not in seen and value in self.makers:
                names.add(self.makers[value].name)
                waiting.extend(self.makers[value].reads)
            seen.add(value)
        return [node for _, node in sorted((self.order[name] for name in names), key=lambda place: place[0])]


def _computing(graph: OnnxGraph) -> Iterator[OnnxNode]:
    return (node for node in graph.nodes if node.op != "placeholder")


def _groups(nodes: Sequence[OnnxNode], known: set[str]) -> Iterable[list[OnnxNode]]:
    """The nodes, those together that hand each other values that are not known."""
    group_of: dict[str, int] = {}
    makers: Mapping[str, str] = {value: node.name for node in nodes for value in node.writes if value not in known}
    groups: dict[int, list[OnnxNode]] = {}
    for number, node in enumerate(nodes):
        joined = {group_of[makers[value]] for value in node.reads if value in makers and makers[value] in group_of}
        members = [*(member for each in sorted(joined) for member in groups.pop(each)), node]
        groups[number] = members
        group_of |= dict.fromkeys((member.name for member in members), number)
    return groups.values()
