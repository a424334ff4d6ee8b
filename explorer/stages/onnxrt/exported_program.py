"""The exported program: AOTAutograd's graph as torch.onnx decomposes it before it writes ONNX."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.model.stage import Stage, node_count
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Link
from explorer.stages.fx_graph import FxGraph, FxGraphText, node_lines, outer_nodes, render_graph
from explorer.stages.kinds import Kinds, fx_kinds

#: Where the text goes on with what the graph's inputs and results are.
SIGNATURE = "Graph signature:"


def kinds(artifact: Artifact) -> Kinds:
    """Node lines compute; what else print_readable writes, and the signature, do not."""
    found = fx_kinds(artifact)
    end = next((n for n, line in enumerate(artifact.lines) if line.startswith(SIGNATURE)), len(found))
    return [*found[:end], *["declarations"] * (len(found) - end)]


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each node to the node, in the graph that torch.onnx was handed, for which it was traced."""
    stage = "backward" if artifact.graph == "backward" else "forward"
    graph = next(iter(reversed(trace.find(stage, artifact.frame, artifact.graph))), None)
    if graph is None:
        return
    lines, targets = node_lines(artifact), node_lines(graph)
    for node in outer_nodes(artifact):
        found = tuple(sorted({targets[name] for name in node.from_ or () if name in targets}))
        if found and node.name in lines:
            yield Link(artifact.id, (lines[node.name],), graph.id, found, "from_node")


STAGE = Stage(
    name="onnx_exported_program",
    title="Exported program · torch.onnx",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    backend="onnxrt",
    render=render_graph("Exported program · torch.onnx"),
    kinds=kinds,
    link=link,
    made_from=("forward", "backward"),
    about="The graph that ONNX is made of, decomposed to operators that torch.onnx has, its types made explicit.",
)
