"""Assumptions: what Inductor would have timed on a GPU that is not there, and what was taken for its outcome."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain


def render(event: Event, id: str) -> Artifact:
    """One line an assumption, the same ones once; the event holds all of one frame's, see `replay`."""
    rows = [dict(row) for n, row in enumerate(event.data["rows"]) if row not in event.data["rows"][:n]]
    text = "\n".join(map(readable, rows))
    return text_artifact(event, id, "Assumptions", "text", text=text, data={"rows": rows})


def readable(row: dict[str, Plain]) -> str:
    """An assumption as one line: where, what was assumed, and why."""
    return f"{row['where']}: {row['assumed']}  # {row['why']}"


STAGE = Stage(
    name="assumption",
    title="Assumptions",
    language="text",
    render=render,
    about="What Inductor decides by timing it on the device, and what was assumed instead, because the device is not there.",
)
