"""How the texts of other compilers state the FX node that a line comes from: by a location in a file that stands for the graph.

In that file line 1 is the graph as a whole, its inputs and its results; the nodes follow it, one a line, in their order. Line 0
is LLVM's for an instruction whose line is not known. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from explorer.model.shared import Names
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Link
from explorer.stages.fx_graph import node_lines

#: The file in a location that stands for the FX graph.
FX_GRAPH = "fx_graph"
#: The line in it of the graph as a whole, and that of the first node.
WHOLE_GRAPH, FIRST_NODE = 1, 2
#: For each line the places (file, line) that it comes from.
Places = Iterable[tuple[int, tuple[tuple[str, int], ...]]]


def graph_of(artifact: Artifact, trace: TraceData) -> Artifact | None:
    """Find the FX graph that the compiler was handed and that this text was made from."""
    stage = "backward" if artifact.graph == "backward" else "forward"
    return next(iter(reversed(trace.find(stage, artifact.frame, artifact.graph))), None)


def links_to_nodes(places: Callable[[Artifact], Places], how: str) -> Callable[[Artifact, TraceData], Iterator[Link]]:
    """Make the link function of a stage whose text states FX nodes as `places` reads them.

    The artifact's `fx_nodes` name the nodes of the graph in the order in which locations count them.
    """

    def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
        """Each line to the FX nodes that its location names."""
        graph = graph_of(artifact, trace)
        if graph is None:
            return
        lines = node_lines(graph)
        names: Names = artifact.data["fx_nodes"]
        for number, chain in places(artifact):
            numbers = [line - FIRST_NODE for file, line in chain if file == FX_GRAPH]
            nodes = {names[n] for n in numbers if 0 <= n < len(names)}
            found = tuple(sorted({lines[name] for name in nodes if name in lines}))
            if found:
                yield Link(artifact.id, (number,), graph.id, found, how)

    return link


def of_whole_graph(places: Places) -> set[int]:
    """Return the lines that belong only to the graph's inputs and results: their only location is the graph's own."""
    return {number for number, chain in places if chain and all(place == (FX_GRAPH, WHOLE_GRAPH) for place in chain)}
