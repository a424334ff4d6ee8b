"""XLA's cost analysis: what it estimates the module computes and moves, and the bytes that it allocates for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain


@record
class XlaFigure(Record):
    """One of XLA's figures of a module, such as "flops", and its value."""

    figure: str
    value: float


@record
class XlaCost(Record):
    """XLA's figures of a module: operations that it estimates, and bytes."""

    rows: tuple[XlaFigure, ...]


def render(event: Event, id: str) -> Artifact:
    """One line per figure; `rows` has the same as a table."""
    data = typed(XlaCost, event.data)
    text = "\n".join(f"{row.value:>16,.0f}  {row.figure}" for row in data.rows)
    return text_artifact(event, id, "Cost analysis · XLA", "text", text=text)


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """One row per figure."""
    for row in typed(XlaCost, artifact.data).rows:
        yield {"graph": artifact.graph, "figure": row.figure, "value": row.value}


def summary(artifacts: Sequence[Artifact]) -> str:
    """The floating-point operations."""
    flops = sum(row.value for artifact in artifacts for row in typed(XlaCost, artifact.data).rows if row.figure == "flops")
    return f"{flops:,.0f} flops"


STAGE = Stage(
    name="xla_cost",
    title="Cost analysis · XLA",
    language="text",
    event=XlaCost,
    artifact=XlaCost,
    backend="xla",
    render=render,
    rows=rows,
    summary=summary,
    about="What XLA estimates that the optimised module computes and moves, and the bytes that it allocates; nothing is timed.",
)
