"""Compile metrics: what torch itself counts of each compile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.gathering import data_as, one_table


@record
class CompilationMetrics(Record):
    """What torch counted of a compile: `of` a "forward" or "backward", by torch's own names."""

    of: str
    figures: Mapping[str, Plain]  # torch's CompilationMetrics; they differ from version to version


@record
class AllMetrics(Record):
    """What torch counted of the compiles of one frame."""

    rows: tuple[CompilationMetrics, ...]


def render(event: Event, id: str) -> Artifact:
    """One line per figure of the frame, by torch's own names for them."""
    metrics = typed(AllMetrics, event.data)
    lines = [line for row in metrics.rows for line in readable(row)]
    return text_artifact(event, id, "Compile metrics", "text", text="\n".join(lines), data=metrics)


def readable(row: CompilationMetrics) -> Iterator[str]:
    """Write the figures of a forward or backward compile, one per line; a reason of several lines is cut to its first."""
    yield f"{row.of}:"
    for name, value in row.figures.items():
        shown = "; ".join(str(v).partition("\n")[0] for v in value) if isinstance(value, tuple) else value
        yield f"  {name} = {shown}"


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """One row per compile, with torch's figures by their names."""
    for row in typed(AllMetrics, artifact.data).rows:
        yield {"of": row.of, **row.figures}


STAGE = Stage(
    name="compilation_metrics",
    title="Compile metrics",
    language="text",
    event=CompilationMetrics,
    artifact=AllMetrics,
    render=render,
    gather=one_table(data_as(CompilationMetrics), AllMetrics),
    rows=rows,
    columns=("of",),  # and torch's figures, which differ from version to version
    secondary=True,
    about="What torch counts of a compile: graphs, operators, guards, cache sizes, restarts with their reasons, seconds.",
)
