"""Symbols: the sizes that were left dynamic, where each comes from, and the range it may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.gathering import by_frame, table_event


@record
class Symbol(Record):
    """What became known of a symbolic size: it was "created", or "guarded" by an expression, at a line of the user's.

    A created symbol has `symbol`, `val` (the value at this call), `vr` (its range) and `source`; a guarded one has `expr`.
    `framework` is a place in torch, where no line of the user's is known.
    """

    what: str
    symbol: str | None = None
    val: str | None = None
    vr: str | None = None
    source: str | None = None
    expr: str | None = None
    file: str
    line: int
    code: str
    framework: str | None = None


@record
class Symbols(Record):
    """The symbolic sizes of one compile."""

    rows: tuple[Symbol, ...]


def render(event: Event, id: str) -> Artifact:
    """One line per symbol of the frame, or a condition on symbols."""
    data = typed(Symbols, event.data)
    return text_artifact(event, id, "Dynamic shapes", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: Symbol) -> str:
    """A symbol, or a condition on symbols, as one line."""
    why = row.code or (f"torch: {row.framework}" if row.framework else "")
    why = f"  # {why}" if why else ""
    if row.what == "guarded":
        return f"{row.expr}{why}"
    value = f", {row.val} at this call" if row.val else ""
    return f"{row.symbol} = {row.source}  in {row.vr}{value}{why}"


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One table per frame, each symbol once: Dynamo makes them again whenever it begins a frame anew, as after a graph break.

    What it said last of one counts, in the place of what it said first.
    """
    for group in by_frame(events).values():
        latest: dict[tuple[str | None, ...], Symbol] = {}
        for row in (typed(Symbol, event.data) for event in group):
            key = (row.what, row.symbol, row.source) if row.what == "created" else (row.what, row.expr)
            latest[key] = row
        yield table_event(group[0], Symbols(rows=tuple(latest.values())))


STAGE = Stage(
    name="symbol",
    title="Dynamic shapes",
    language="text",
    event=Symbol,
    artifact=Symbols,
    render=render,
    gather=gather,
    why_absent="no size is dynamic; trace with dynamic=True, or call with other sizes inside explorer.record()",
    about="The symbol for each dynamic size, its range, and the conditions that your code put on it.",
)
