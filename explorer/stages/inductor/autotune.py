"""Autotuning: the ways of doing one operation that Inductor had to choose from, and what it measured of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import Record, keys_of, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain


@record
class Choice(Record):
    """One way of doing an operation: its name, class and config, and its time in milliseconds, None where not timed.

    `grid` is the launch grid of a Triton template, `source` the key of its source, "" for a call into a library. `why` says
    why the fastest counts as that, `taken` whether it was taken.
    """

    choice: str
    kind: str
    config: str
    ms: float | None
    fastest: bool
    why: str | None = None
    grid: tuple[int, ...]
    source: str
    taken: bool | None = None


@record
class Autotune(Record):
    """The ways of doing an operation that Inductor chose among; inputs as dtype and sizes, "float32[8, 16]"."""

    operation: str
    inputs: Names
    choices: tuple[Choice, ...]


@record
class AutotuneTaken(Record):
    """A fusion settled on one choice, and why."""

    choice: str
    why: str


#: The kind of event that says which choice a fusion settled on.
TAKEN = "autotune_taken"


def render(event: Event, id: str) -> Artifact:
    """One line per choice, the fastest first; None for a time says that it was not, or could not be, measured."""
    recorded = typed(Autotune, event.data)
    choices = sorted(recorded.choices, key=lambda row: (not row.fastest, row.ms is None, row.ms or 0.0))
    title = f"Choices for {recorded.operation}"
    text = "\n".join([f"{recorded.operation}({', '.join(recorded.inputs)})", *map(readable, choices)])
    return text_artifact(event, id, title, "text", text=text, data=replace(recorded, choices=tuple(choices)))


def readable(row: Choice) -> str:
    """A choice as one line: its time in milliseconds, its name, its config, and for the one that was taken why."""
    time = f"{row.ms:10.4f} ms" if row.ms is not None else "  not timed  "
    why = ": ".join(filter(None, ("taken" if row.taken else "", row.why or "")))
    return f"{time}  {row.choice}  {row.config}".rstrip() + (f"  # {why}" if why else "")


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """An operation's choices with the one that was taken: that which a fusion settled on last, or else the fastest."""
    settled = [event for event in events if event.kind == TAKEN]
    for event in events:
        if event.kind != TAKEN:
            yield _with_taken(event, settled)


def _with_taken(event: Event, settled: Sequence[Event]) -> Event:
    data = typed(Autotune, event.data)
    names = {row.choice for row in data.choices}
    of_graph = (typed(AutotuneTaken, e.data) for e in settled if (e.frame, e.graph) == (event.frame, event.graph))
    last = next((taken for taken in reversed(list(of_graph)) if taken.choice in names), None)
    choices = []
    for row in data.choices:
        taken = row.choice == last.choice if last else row.fastest
        choices.append(replace(row, taken=taken, why=row.why or (last.why if last and taken else "")))
    return replace(event, data=replace(data, choices=tuple(choices)))


def summary(artifacts: Sequence[Artifact]) -> str:
    """What was taken for each operation."""
    tunings = [typed(Autotune, artifact.data) for artifact in artifacts]
    return ", ".join(f"{data.operation}: {row.choice}" for data in tunings for row in data.choices if _was_taken(row))


def _was_taken(row: Choice) -> bool:
    return row.fastest if row.taken is None else row.taken


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The choices, each with the operation that it is for."""
    data = typed(Autotune, artifact.data)
    for row in data.choices:
        yield {"graph": artifact.graph, "operation": data.operation, "inputs": data.inputs, **row}


STAGE = Stage(
    name="autotune",
    title="Autotuning",
    language="text",
    event=Autotune,
    artifact=Autotune,
    render=render,
    rows=rows,
    columns=("graph", "operation", "inputs", *keys_of(Choice)),
    summary=summary,
    gather=gather,
    consumes={TAKEN: AutotuneTaken},
    backend="inductor",
    why_absent="no operator had several choices; trace with mode='max-autotune' for those of matrix products",
    about="The library's kernels and the templates that could do one operation, with the time that Inductor measured of each.",
)
