"""The compiler's own timed phases of one frame, as a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Plain


def intervals(events: Iterable[Event]) -> Iterator[dict[str, Plain]]:
    """One row a phase, in order of start: name, function, start and seconds, and how deeply it is nested."""
    open_phases: list[dict[str, Plain]] = []
    rows: list[dict[str, Plain]] = []
    for event in events:
        name = event.data["name"]
        if event.data["at"] == "B":
            row = {"name": name, "function": event.data["function"], "graph": event.graph, "start": event.time}
            rows.append({**row, "seconds": None, "depth": len(open_phases)})
            open_phases.append(rows[-1])
        elif any(row["name"] == name for row in open_phases):
            while open_phases[-1]["name"] != name:
                open_phases.pop()
            row = open_phases.pop()
            row["seconds"] = event.time - row["start"]
    yield from rows


def readable(row: Mapping[str, Plain]) -> str:
    """One phase as a line, indented by its nesting."""
    seconds = "  (not finished)" if row["seconds"] is None else f"{row['seconds']:9.4f} s"
    return f"{seconds}  {'  ' * row['depth']}{row['name']}"


def render(event: Event, id: str) -> Artifact:
    """The timeline; `data["rows"]` has the phases as mappings."""
    text = "\n".join(map(readable, event.data["rows"]))
    return text_artifact(event, id, "Compiler phases", "text", text=text)


STAGE = Stage(
    name="phase",
    title="Compiler phases",
    language="text",
    render=render,
    about="What the compiler spent its time on, by its own clock: Dynamo, AOTAutograd, passes, lowering, code generation.",
)
