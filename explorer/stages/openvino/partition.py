"""A graph as OpenVINO's backend partitions it: parts that OpenVINO is handed, and the operators left to PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.model.wording import quantity
from explorer.stages.fx_graph import node_lines
from explorer.stages.fx_locations import graph_of
from explorer.stages.kinds import fx_kinds


@record
class OpenVinoPart(Record):
    """Operators of a graph that run together: a part for OpenVINO, or operators left to PyTorch, and why."""

    part: str
    engine: str
    fx_nodes: Names
    why: str


@record
class OpenVinoOrigin(Record):
    """A line of a partitioned graph, `part.node` for one in a part, and the FX nodes of the graph before that it stands for."""

    name: str
    fx_nodes: Names


@record
class OpenVinoPartition(Record):
    """A graph as OpenVINO's backend partitioned it: its parts, and the FX nodes of each line."""

    rows: tuple[OpenVinoPart, ...]
    origins: tuple[OpenVinoOrigin, ...]


@record
class OpenVinoPartitionText(OpenVinoPartition):
    """A graph as OpenVINO's backend partitioned it, with the graphs of the parts in it."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The graph, and below it the graphs of its parts."""
    text = typed(OpenVinoPartitionText, event.data).text.strip("\n")
    return text_artifact(event, id, "Partition · OpenVINO", "python", text=text)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each line to the FX nodes that it stands for: a call of a part to all nodes in it."""
    graph = graph_of(artifact, trace)
    if graph is None:
        return
    here, there = node_lines(artifact), node_lines(graph)
    for origin in typed(OpenVinoPartition, artifact.data).origins:
        lines = tuple(sorted({there[name] for name in origin.fx_nodes if name in there}))
        if origin.name in here and lines:
            yield Link(artifact.id, (here[origin.name],), graph.id, lines, "FX node")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many operators OpenVINO is handed, of all."""
    rows = [row for artifact in artifacts for row in typed(OpenVinoPartition, artifact.data).rows]
    handed = sum(len(row.fx_nodes) for row in rows if row.part)
    parts = sum(bool(row.part) for row in rows)
    return f"{handed} of {sum(len(row.fx_nodes) for row in rows)} operators in {quantity(parts, 'part')}"


STAGE = Stage(
    name="openvino_partition",
    title="Partition · OpenVINO",
    language="python",
    event=OpenVinoPartitionText,
    artifact=OpenVinoPartition,
    backend="openvino",
    render=render,
    link=link,
    kinds=fx_kinds,
    summary=summary,
    about="The graph as OpenVINO's backend partitions it: each `fused_…` is a part for OpenVINO, PyTorch runs what is left.",
)
