"""CUDA graphs: which graphs Inductor captures, and each reason why one is not, or not whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.model.artifacts import CudaGraph, CudaGraphs
from explorer.model.events import CudaGraphDecision
from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import NOWHERE, innermost, link_rows
from explorer.stages.gathering import one_table


def render(event: Event, id: str) -> Artifact:
    """One line a decision of the frame."""
    data = typed(CudaGraphs, event.data)
    return text_artifact(event, id, "CUDA graphs", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: CudaGraph) -> str:
    """A decision as one line: the graph, what became of it, why, and the user's line."""
    why = f"  # {row.code}" if row.code else ""
    graph = f"{row.graph}: " if row.graph else ""
    return f"{graph}{row.what} is {row.decision}: {row.reason}{why}"


def row_of(event: Event) -> CudaGraph:
    """The decision, the graph that it is about, and the user's line on its stack."""
    data = typed(CudaGraphDecision, event.data)
    place = innermost(data.stack) or NOWHERE
    return CudaGraph(graph=event.graph, decision=data.decision, what=data.what, reason=data.reason, **place._asdict())


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each decision to the user's line that it names."""
    return link_rows(artifact, typed(CudaGraphs, artifact.data).rows, trace)


def summary(artifacts: Sequence[Artifact]) -> str:
    """What became of the graphs."""
    return ", ".join(dict.fromkeys(row.decision for a in artifacts for row in typed(CudaGraphs, a.data).rows))


STAGE = Stage(
    name="cuda_graph",
    title="CUDA graphs",
    language="text",
    render=render,
    summary=summary,
    gather=one_table(row_of, CudaGraphs, distinct=True),
    link=link,
    why_absent="CUDA graphs were not asked for; trace with mode='reduce-overhead'",
    about="Where CUDA graphs are asked for (reduce-overhead, max-autotune): which graphs are captured, and why others are not.",
)
