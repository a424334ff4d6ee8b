"""What several stages make of their events before they are rendered, and what they count for the summary. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.stage import Frames
from explorer.model.values import Artifact, Event, Plain, plain


def by_frame(events: Sequence[Event]) -> dict[str, list[Event]]:
    """The events of each frame, frames in the order in which they first come."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.frame, []).append(event)
    return found


def table_of(first: Event, rows: Sequence[Mapping[str, Plain]]) -> Event:
    """The event of a frame's whole table, in the place of its first row's."""
    return replace(first, data=plain({"rows": rows}), graph="")


def one_table(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One table a frame, each event a row of it."""
    for group in by_frame(events).values():
        yield table_of(group[0], [event.data for event in group])


def one_table_with_graphs(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One table a frame, each event a row of it that names its graph."""
    for group in by_frame(events).values():
        yield table_of(group[0], [{"graph": event.graph, **event.data} for event in group])


def with_nodes(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One event a graph: AOTAutograd's graphs are heard of twice, from its log, and with their nodes from Inductor."""
    graphs: dict[tuple[str, str], Event] = {}
    for event in events:
        key = (event.frame, event.graph)
        if key not in graphs or (event.data.get("nodes") and not graphs[key].data.get("nodes")):
            graphs[key] = event
    yield from graphs.values()


def number_of_rows(artifacts: Sequence[Artifact]) -> int:
    """How many rows the tables of some artifacts have together."""
    return sum(len(a.data.get("rows", ())) for a in artifacts)


def counted(noun: str) -> Callable[[Sequence[Artifact]], str]:
    """A summary that counts rows: "1 hint", "2 hints"."""

    def summary(artifacts: Sequence[Artifact]) -> str:
        """The number of rows, with its noun."""
        number = number_of_rows(artifacts)
        return f"{number} {noun}{'s' * (number != 1)}"

    return summary
