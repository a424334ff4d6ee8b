"""The execution provider of each node: the part of ONNX Runtime that has a kernel for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.onnxrt.graph import lines_of


@record
class OnnxPlacement(Record):
    """The execution provider that a node is for."""

    node: str
    operator: str
    provider: str


@record
class OnnxPlacements(Record):
    """The execution provider of each node."""

    rows: tuple[OnnxPlacement, ...]


#: The graphs of whose nodes the engine speaks: nodes are given to providers behind the basic level.
GRAPHS = ("onnxrt_basic", "onnxrt_disable", "onnx_optimize", "onnx")


def render(event: Event, id: str) -> Artifact:
    """One line per node."""
    data = typed(OnnxPlacements, event.data)
    text = "\n".join(f"{row.provider}  {row.node} ({row.operator})" for row in data.rows)
    return text_artifact(event, id, "Execution providers · ONNX Runtime", "text", text=text, data=data)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each line to the node of that name."""
    graphs = [found[-1] for stage in GRAPHS if (found := trace.find(stage, artifact.frame, artifact.graph))]
    lines = lines_of(graphs[0]) if graphs else {}
    for number, row in enumerate(typed(OnnxPlacements, artifact.data).rows, 1):
        if row.node in lines:
            yield Link(artifact.id, (number,), graphs[0].id, lines[row.node], "node name")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes each provider has."""
    counts = Counter(row.provider for artifact in artifacts for row in typed(OnnxPlacements, artifact.data).rows)
    return ", ".join(f"{count} on {provider}" for provider, count in counts.items())


STAGE = Stage(
    name="onnxrt_providers",
    title="Execution providers · ONNX Runtime",
    language="text",
    event=OnnxPlacements,
    artifact=OnnxPlacements,
    backend="onnxrt",
    render=render,
    link=link,
    summary=summary,
    about="Which of ONNX Runtime's execution providers has each node, as the session that runs says after its basic level.",
)
