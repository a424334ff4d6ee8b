"""Execution: which part of each graph the compiler's own engine ran, and which part PyTorch ran in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.model.wording import quantity
from explorer.stages.gathering import data_as, one_table
from explorer.stages.inductor import cuda_graph
from explorer.stages.inductor.cuda_graph import CudaGraphDecision


@record
class ExecutedPart(Record):
    """What ran a part of a graph: an engine, or PyTorch in its place, and why; `calls` is how often it did while recorded.

    `device` is the engine's own name for where it ran, and `what` the part: the whole graph, or its operators.
    """

    graph: str
    engine: str
    device: str
    what: str
    calls: int
    why: str


@record
class Execution(Record):
    """What ran the graphs of one frame."""

    rows: tuple[ExecutedPart, ...]


def render(event: Event, id: str) -> Artifact:
    """One line per part of the frame's graphs."""
    data = typed(Execution, event.data)
    return text_artifact(event, id, "Execution", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: ExecutedPart) -> str:
    """A part as one line: the graph, the part, what ran it and how often, and why not the compiler's own engine."""
    times = quantity(row.calls, "time")
    why = f": {row.why}" if row.why else ""
    return f"{row.graph}: {row.what} ran {times} on {row.engine} ({row.device}){why}"


def summary(artifacts: Sequence[Artifact]) -> str:
    """What ran the graphs."""
    return ", ".join(dict.fromkeys(row.engine for a in artifacts for row in typed(Execution, a.data).rows))


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Make one table per frame, with the reason if PyTorch ran a graph because no CUDA graph was captured."""
    decisions = ((event, typed(CudaGraphDecision, event.data)) for event in events if event.kind == cuda_graph.STAGE.name)
    skipped = {(event.frame, event.graph): each for event, each in decisions if each.decision == cuda_graph.SKIPPED}
    executed = [event for event in events if event.kind == STAGE.name]
    yield from one_table(data_as(ExecutedPart), Execution)([_with_reason(event, skipped) for event in executed], frames)


def _with_reason(event: Event, skipped: Mapping[tuple[str, str], CudaGraphDecision]) -> Event:
    row = typed(ExecutedPart, event.data)
    decision = skipped.get((event.frame, row.graph))
    if row.why or decision is None:
        return event
    return replace(event, data=replace(row, why=f"no CUDA graph is captured, {decision.reason.partition(';')[0]}"))


STAGE = Stage(
    name="execution",
    title="Execution",
    language="text",
    event=ExecutedPart,
    artifact=Execution,
    render=render,
    summary=summary,
    why_absent="what Inductor compiled is what ran; another backend has a row for each graph that explorer.trace sees run",
    consumes={cuda_graph.STAGE.name: CudaGraphDecision},
    gather=gather,
    about="Which part of each graph the compiler's own engine ran, and which part PyTorch ran in its place, and why.",
)
