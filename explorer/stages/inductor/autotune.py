"""Autotuning: the ways of doing one operation that Inductor had to choose from, and what it measured of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain, plain

#: The kind of event that says which choice a fusion settled on.
TAKEN = "autotune_taken"


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


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """An operation's choices with the one that was taken: that which a fusion settled on last, or else the fastest."""
    settled = [event for event in events if event.kind == TAKEN]
    for event in events:
        if event.kind != TAKEN:
            yield _with_taken(event, settled)


def _with_taken(event: Event, settled: Sequence[Event]) -> Event:
    place, names = (event.frame, event.graph), [row["choice"] for row in event.data["choices"]]
    own = [e.data for e in settled if (e.frame, e.graph) == place and e.data["choice"] in names]
    last = own[-1] if own else {}
    choices = []
    for row in event.data["choices"]:
        taken = row["choice"] == last["choice"] if last else row["fastest"]
        choices.append({**row, "taken": taken, "why": row.get("why", "") or (last["why"] if last and taken else "")})
    return replace(event, data=plain({**event.data, "choices": choices}))


def summary(artifacts: Sequence[Artifact]) -> str:
    """What was taken for each operation."""
    found = ((a.data["operation"], row) for a in artifacts for row in a.data["choices"])
    return ", ".join(f"{operation}: {row['choice']}" for operation, row in found if row.get("taken", row["fastest"]))


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The choices, each with the operation that it is for."""
    for row in artifact.data["choices"]:
        yield {"graph": artifact.graph, "operation": artifact.data["operation"], "inputs": artifact.data["inputs"], **row}


STAGE = Stage(
    name="autotune",
    title="Autotuning",
    language="text",
    render=render,
    rows=rows,
    summary=summary,
    gather=gather,
    consumes=(TAKEN,),
    about="The library's kernels and the templates that could do one operation, with the time that Inductor measured of each.",
)
