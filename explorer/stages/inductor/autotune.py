"""Autotuning: the ways of doing one operation that Inductor had to choose from, and what it measured of each."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain


def render(event: Event, id: str) -> Artifact:
    """One line a choice, the fastest first; None for a time says that it was not, or could not be, measured."""
    rows = sorted(event.data["choices"], key=lambda row: (not row["fastest"], row["ms"] is None, row["ms"] or 0.0))
    title = f"Choices for {event.data['operation']}"
    text = "\n".join([f"{event.data['operation']}({', '.join(event.data['inputs'])})", *map(readable, rows)])
    return text_artifact(event, id, title, "text", text=text, data={**event.data, "choices": rows})


def readable(row: dict[str, Plain]) -> str:
    """A choice as one line: its time in milliseconds, its name, its config, and for the one that was taken why."""
    time = f"{row['ms']:10.4f} ms" if row["ms"] is not None else "  not timed  "
    why = ": ".join(filter(None, ("taken" if row.get("taken") else "", row.get("why", ""))))
    return f"{time}  {row['choice']}  {row['config']}".rstrip() + (f"  # {why}" if why else "")


STAGE = Stage(
    name="autotune",
    title="Autotuning",
    language="text",
    render=render,
    consumes=("autotune_taken",),
    about="The library's kernels and the templates that could do one operation, with the time that Inductor measured of each.",
)
