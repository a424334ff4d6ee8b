"""The FX graph that Dynamo hands to the backend."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.model.stage import Stage, node_count
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Link
from explorer.stages.fx_graph import FxGraph, FxGraphText, innermost, link_files, node_lines, outer_nodes, render_graph, stack_of
from explorer.stages.kinds import fx_kinds

#: How an input's user line is known where the graph's text is all there is: `print_readable` writes no place above an input.
FIRST_READ = "the first node that reads it"


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each node to the user's lines on its stack, and an input without a stack to the line that first reads it."""
    yield from link_files(artifact, trace)
    lines = node_lines(artifact)
    for node in outer_nodes(artifact):
        if node.op != "placeholder" or node.stack is not None or node.name not in lines:
            continue
        reader = next((other for other in outer_nodes(artifact) if node.name in other.inputs and other.op != "output"), None)
        place = innermost(stack_of(artifact, reader.stack)) if reader else None
        if place and (source := source_line(trace, place.file, place.line, frame=artifact.frame)):
            yield Link(artifact.id, (lines[node.name],), source[0], (source[1],), FIRST_READ)


STAGE = Stage(
    name="dynamo",
    title="Dynamo FX graph",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Dynamo FX graph"),
    kinds=fx_kinds,
    link=link,
    phases=("bytecode_tracing",),
    opens_at=2,
    about="The tensor operations of the frame, as Dynamo saw them run on fake tensors; the rest of Python is gone.",
)
