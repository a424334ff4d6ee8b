"""Assumptions: what was taken in place of what a GPU would have told, and results that were not compared with eager."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.gathering import number_of_rows, one_table


@record
class Assumption(Record):
    """What was not timed on a GPU that is not attached, or not compared with eager, what was taken for it, and why."""

    where: str
    assumed: str
    why: str


@record
class GraphAssumption(Record):
    """An assumption, and the graph it is about."""

    graph: str
    where: str
    assumed: str
    why: str


@record
class Assumptions(Record):
    """The assumptions of a compile."""

    rows: tuple[GraphAssumption, ...]


def render(event: Event, id: str) -> Artifact:
    """One line per assumption of the frame."""
    data = typed(Assumptions, event.data)
    return text_artifact(event, id, "Assumptions", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: GraphAssumption) -> str:
    """An assumption as one line: where, what was assumed, and why."""
    return f"{row.where}: {row.assumed}  # {row.why}"


def row_of(event: Event) -> GraphAssumption:
    """The assumption, and the graph that it is about."""
    data = typed(Assumption, event.data)
    return GraphAssumption(graph=event.graph, where=data.where, assumed=data.assumed, why=data.why)


def summary(artifacts: Sequence[Artifact]) -> str:
    """How much was assumed."""
    return f"{number_of_rows(artifacts)} assumed"


STAGE = Stage(
    name="assumption",
    title="Assumptions",
    language="text",
    event=Assumption,
    artifact=Assumptions,
    render=render,
    summary=summary,
    gather=one_table(row_of, Assumptions, distinct=True),
    backend="inductor",
    why_absent="Inductor had nothing to time",
    about="What depends on the device being there, such as what Inductor decides by timing, and what was assumed instead; and "
    "results that were not compared with eager.",
)
