"""Assumptions: one line per decision that was not timed, from recorded events to the trace's tables."""

from __future__ import annotations

from explorer.model.stage import Frames
from explorer.model.values import Event, Failure
from explorer.stages.inductor.assumption import STAGE, Assumption, readable, row_of
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import untold

ROW = Assumption(where="aten.mm of (1023, 1023) and (1023, 1023)", assumed="faster with padding", why="nothing can be timed")


def test_an_assumption_is_a_line_that_says_where_what_and_why() -> None:
    """The line has the operation, what was assumed of it, and the reason behind a hash."""
    row = row_of(Event("assumption", 0.0, "0/0", data=ROW))
    assert readable(row) == "aten.mm of (1023, 1023) and (1023, 1023): faster with padding  # nothing can be timed"


def test_the_same_assumption_stands_once() -> None:
    """Inductor asks about the same product more than once; the table and the text have it once."""
    events = [Event("assumption", 0.0, "0/0", graph, data=ROW) for graph in ("forward", "joint", "forward")]
    (table,) = STAGE.gather(events, Frames({}))
    made = STAGE.artifact_of(table, "id")
    assert len(made.lines) == 2
    assert [row["graph"] for row in made.data["rows"]] == ["forward", "joint"]


def test_assumptions_are_the_traces_own_and_no_failures() -> None:
    """They are rows with frame and graph, are counted and printed as assumed, and raise nothing."""
    events = [Event("assumption", 0.1, "3/0", "forward", ROW), Event("assumption", 0.2, "3/0", "backward", ROW)]
    trace = trace_of_events(events)
    assert [(row["frame"], row["graph"], row["assumed"]) for row in trace.inductor.assumptions] == [
        ("0/0", "forward", "faster with padding"),
        ("0/0", "backward", "faster with padding"),
    ]
    assert not untold(repr(trace), "2 assumptions", "assumed", ROW.where) and "failure" not in repr(trace)
    assert not untold(*(row["changes"] for row in trace.stages), "2 assumed")
    assert trace.failures == () and trace.raise_for_failures() is None
    assert trace_of_events(events, [Failure("x", "y", "z")]).inductor.assumptions == trace.inductor.assumptions
