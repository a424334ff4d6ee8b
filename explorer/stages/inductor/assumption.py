"""Assumptions: what Inductor would have timed on a GPU you don't have, and what was taken for its outcome."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.gathering import number_of_rows, one_table_with_graphs


def render(event: Event, id: str) -> Artifact:
    """One line an assumption, the same ones once; the event holds all of one frame's, see `replay`."""
    rows = [dict(row) for n, row in enumerate(event.data["rows"]) if row not in event.data["rows"][:n]]
    text = "\n".join(map(readable, rows))
    return text_artifact(event, id, "Assumptions", "text", text=text, data={"rows": rows})


def readable(row: dict[str, Plain]) -> str:
    """An assumption as one line: where, what was assumed, and why."""
    return f"{row['where']}: {row['assumed']}  # {row['why']}"


def summary(artifacts: Sequence[Artifact]) -> str:
    """How much was assumed."""
    return f"{number_of_rows(artifacts)} assumed, not timed"


STAGE = Stage(
    name="assumption",
    title="Assumptions",
    language="text",
    render=render,
    summary=summary,
    gather=one_table_with_graphs,
    about="What Inductor decides by timing it on the device, and what was assumed instead, because the device is not there.",
)
