"""Gather functions that several stages share, and a summary that counts rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from explorer.model.records import Record, typed
from explorer.model.stage import Frames
from explorer.model.values import Artifact, Event
from explorer.model.wording import quantity
from explorer.stages.fx_graph import FxGraphText

Row = TypeVar("Row", bound=Record)
RowOfTable = TypeVar("RowOfTable", bound=Record, contravariant=True)
Gather = Callable[[Sequence[Event], Frames], Iterator[Event]]


class Table(Protocol[RowOfTable]):
    """The record of a table: `Guards`, `Symbols` and the like."""

    def __call__(self, *, rows: tuple[RowOfTable, ...]) -> Record:
        """The table of these rows."""


def by_frame(events: Sequence[Event]) -> dict[str, list[Event]]:
    """Return the events of each frame, in the order of the frames' first events."""
    groups: dict[str, list[Event]] = {}
    for event in events:
        groups.setdefault(event.frame, []).append(event)
    return groups


def table_event(first: Event, table: Record) -> Event:
    """The event of a frame's whole table, in the place of its first row's."""
    return replace(first, data=table, graph="")


def one_table(row_of: Callable[[Event], Row], table: Table[Row], *, distinct: bool = False) -> Gather:
    """A gather function that makes one table of each frame's events, a row of each event; equal rows once if `distinct`."""

    def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
        for group in by_frame(events).values():
            rows = [row_of(event) for event in group]
            if distinct:
                rows = [row for number, row in enumerate(rows) if row not in rows[:number]]
            yield table_event(group[0], table(rows=tuple(rows)))

    return gather


def data_as(record: type[Row]) -> Callable[[Event], Row]:
    """A function that reads an event's data as a record."""
    return lambda event: typed(record, event.data)


def with_nodes(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Keep one event per graph: AOTAutograd's graphs are recorded twice, from its log and, with their nodes, from Inductor."""
    graphs: dict[tuple[str, str], Event] = {}
    for event in events:
        key = (event.frame, event.graph)
        if key not in graphs or (_has_nodes(event) and not _has_nodes(graphs[key])):
            graphs[key] = event
    yield from graphs.values()


def _has_nodes(event: Event) -> bool:
    return bool(typed(FxGraphText, event.data).nodes)


def number_of_rows(artifacts: Sequence[Artifact]) -> int:
    """How many rows the tables of some artifacts have together."""
    return sum(len(a.data.get("rows", ())) for a in artifacts)


def counted(noun: str) -> Callable[[Sequence[Artifact]], str]:
    """A summary that counts rows: "1 hint", "2 hints"."""

    def summary(artifacts: Sequence[Artifact]) -> str:
        """The number of rows, with its noun."""
        number = number_of_rows(artifacts)
        return quantity(number, noun)

    return summary
