"""Execution: which part of each graph the compiler's own engine ran, and which part PyTorch ran in its place."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.model.artifacts import ExecutedPart, Execution
from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.gathering import data_as, one_table


def render(event: Event, id: str) -> Artifact:
    """One line a part of the frame's graphs."""
    data = typed(Execution, event.data)
    return text_artifact(event, id, "Execution", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: ExecutedPart) -> str:
    """A part as one line: the graph, the part, what ran it and how often, and why not the compiler's own engine."""
    times = f"{row.calls} time{'s' * (row.calls != 1)}"
    why = f": {row.why}" if row.why else ""
    return f"{row.graph}: {row.what} ran {times} on {row.engine} ({row.device}){why}"


def summary(artifacts: Sequence[Artifact]) -> str:
    """What ran the graphs."""
    return ", ".join(dict.fromkeys(row.engine for a in artifacts for row in typed(Execution, a.data).rows))


STAGE = Stage(
    name="execution",
    title="Execution",
    language="text",
    render=render,
    summary=summary,
    why_absent="Inductor has no other engine: what it compiled is what ran",
    gather=one_table(data_as(ExecutedPart), Execution),
    about="Which part of each graph the compiler's own engine ran, and which part PyTorch ran in its place, and why.",
)
