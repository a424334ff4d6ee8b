"""compiled_fn: the FX graph that a backend of one's own gives back, in the callable that takes the graph's place."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.stage import Stage, node_count
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Link
from explorer.stages.fx_graph import FxGraph, FxGraphText, link_files, node_lines, outer_nodes, render_graph
from explorer.stages.kinds import fx_kinds

#: How it is known: the node has the name of one in the graph that the backend was handed, and of what it was made.
SAME_NAME = "same name"
#: The node calls the function of that name, but states no line of it.
FUNCTION = "name of the function"


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each node to the user's lines on its stack, and to the node of its name in the graph that the backend was handed."""
    yield from link_files(artifact, trace)
    yield from link_functions(artifact, trace)
    handed = graph_handed(artifact, trace)
    if handed is None:
        return
    before = node_lines(handed)
    for name, line in node_lines(artifact).items():
        if name in before:
            yield Link(artifact.id, (line,), handed.id, (before[name],), SAME_NAME)


def link_functions(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each function of the user's that launches a kernel to the node that calls it: so does the node lead to the kernel."""
    sources = [(source, typed(Source, source.data)) for source in trace.find("source", "")]
    lines = node_lines(artifact)
    for node in outer_nodes(artifact):
        name = node.target.rpartition(".")[2]
        called = [source for source, function in sources if node.op == "call_function" and function.function == name]
        if len(called) == 1 and node.name in lines:
            yield Link(called[0].id, tuple(range(1, len(called[0].lines) + 1)), artifact.id, (lines[node.name],), FUNCTION)


def graph_handed(artifact: Artifact, trace: TraceData) -> Artifact | None:
    """The graph that the backend was handed: one of AOTAutograd's, or Dynamo's."""
    stage = {"": "dynamo", "backward": "backward"}.get(artifact.graph, "forward")
    graphs = trace.find(stage, artifact.frame, *((artifact.graph,) if artifact.graph else ()))
    return graphs[-1] if graphs else None


STAGE = Stage(
    name="compiled_fn",
    title="Graph of your backend",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Graph of your backend"),
    kinds=fx_kinds,
    link=link,
    why_absent="it is the graph that a backend of one's own gives back; trace with backend=a callable (gm, example_inputs)",
    opens_at=4,
    made_from=("forward", "backward", "dynamo"),
    about="The graph in what a backend of your own gives back, which Dynamo calls `compiled_fn` and calls in the frame's place.",
)
