"""Where in the program the nodes of a graph come from, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.analysis.questions.provenance import origins
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData
from explorer.stages.fx_graph import node_lines


def lines_of_node(trace: TraceData, frame: str, graph: str, node: Mapping[str, object]) -> list[tuple[str, int, str]]:
    """The user lines of a node of the post-grad graph, as (file, line, code): its own, else those that the links lead to."""
    if node.get("file"):
        return [(str(node["file"]), int(str(node["line"])), str(node.get("code") or ""))]
    graphs = trace.find("post_grad", frame, graph)[-1:]
    if not graphs or (line := node_lines(graphs[0]).get(str(node.get("name")))) is None:
        return []
    reached = origins(trace, graphs[0].id, (line,))
    places = [(a, number) for a in trace.find("source") for number in sorted(reached.get(a.id, ()))]
    return [(typed(Source, a.data).file, typed(Source, a.data).first_line + n - 1, a.lines[n - 1].strip()) for a, n in places]


def places_of_nodes(trace: TraceData, frame: str, graph: str) -> Mapping[str, str]:
    """Map each node of a graph to its user lines as "file:line  code"; nodes without one are left out."""
    nodes = [node for a in trace.find("post_grad", frame, graph)[-1:] for node in a.nodes]
    found = {str(node["name"]): lines_of_node(trace, frame, graph, node) for node in nodes}
    return {name: "; ".join(f"{file}:{line}  {code}" for file, line, code in lines) for name, lines in found.items() if lines}
