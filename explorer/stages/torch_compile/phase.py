"""The compiler's own timed phases of one frame, as a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from explorer.model.artifacts import Phase, Phases
from explorer.model.events import PhaseMark
from explorer.model.records import typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.gathering import by_frame, table_of


def intervals(events: Iterable[Event]) -> Iterator[Phase]:
    """One row a phase, in order of start: name, function, start and seconds, and how deeply it is nested."""
    open_phases: list[dict[str, Plain]] = []
    rows: list[dict[str, Plain]] = []
    for event in events:
        mark = typed(PhaseMark, event.data)
        name = mark.name
        if mark.at == "B":
            row: dict[str, Plain] = {"name": name, "function": mark.function, "graph": event.graph, "start": event.time}
            rows.append({**row, "seconds": None, "depth": len(open_phases)})
            open_phases.append(rows[-1])
        elif any(row["name"] == name for row in open_phases):
            while open_phases[-1]["name"] != name:
                open_phases.pop()
            ended = open_phases.pop()
            ended["seconds"] = event.time - ended["start"]
    yield from (Phase(**row) for row in rows)


def readable(row: Phase) -> str:
    """One phase as a line, indented by its nesting."""
    seconds = "  (not finished)" if row.seconds is None else f"{row.seconds:9.4f} s"
    return f"{seconds}  {'  ' * row.depth}{row.name}"


def render(event: Event, id: str) -> Artifact:
    """The timeline; `data["rows"]` has the phases as mappings."""
    data = typed(Phases, event.data)
    return text_artifact(event, id, "Compiler phases", "text", text="\n".join(map(readable, data.rows)), data=data)


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One timeline a frame."""
    for group in by_frame(events).values():
        yield table_of(group[0], list(intervals(group)))


def seconds_of(phases: Sequence[str], event: Event, timelines: Iterable[Event]) -> float | None:
    """The total of the named phases in the event's frame and graph; None where none was timed."""
    own = (e for e in timelines if e.frame == event.frame)
    rows = [row for e in own for row in e.data["rows"] if row["name"] in phases and row["seconds"] is not None]
    exact = [row["seconds"] for row in rows if row["graph"] == event.graph]
    return sum(exact or [row["seconds"] for row in rows if not row["graph"]]) or None


STAGE = Stage(
    name="phase",
    title="Compiler phases",
    language="text",
    render=render,
    gather=gather,
    about="What the compiler spent its time on, by its own clock: Dynamo, AOTAutograd, passes, lowering, code generation.",
)
