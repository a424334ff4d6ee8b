"""CUDA graphs: from recorded decisions and runs to the table of a frame."""

from __future__ import annotations

from explorer.model.records import blank
from explorer.model.values import Event
from explorer.stages.dynamo.source import SourceText
from explorer.stages.inductor.cuda_graph import (
    CAPTURED,
    MOVED_INPUT,
    OTHER_PLACE,
    RECORDED_AGAIN,
    REPLAYED,
    CudaGraphDecision,
)
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events

SOURCE = blank(SourceText, text="def f(x):\n    return x.sin()", function="f", file="/a.py", first_line=3, compiled=True)
STACK = '  File "/a.py", line 4, in f\n    return x.sin()'


def decision(made: str, reason: str = "why", **more: object) -> CudaGraphDecision:
    return blank(CudaGraphDecision, decision=made, what="the graph", reason=reason, **more)


def trace_of(*rows: CudaGraphDecision) -> Trace:
    """A trace of two functions; the rows are of the second, whose compile id is 7/0 for the compiler."""
    sources = [Event("source", 0.0, frame, data=SOURCE) for frame in ("5/0", "7/0")]
    return trace_of_events([*sources, *(Event("cuda_graph", 1.0, "7/0", "forward", row) for row in rows)])


def test_what_calls_did_is_at_the_function_where_torch_names_no_line() -> None:
    """A decision before the first call keeps its empty line; a stack goes before the function's own line."""
    rows = trace_of(
        decision(CAPTURED), decision(REPLAYED, count=4), decision(RECORDED_AGAIN, stack=STACK, count=1)
    ).inductor.cuda_graphs
    assert [(row["frame"], row["line"], row["code"]) for row in rows] == [
        ("1/0", 0, ""),
        ("1/0", 3, "def f(x):"),
        ("1/0", 4, "return x.sin()"),
    ]
    assert [row.get("count") for row in rows] == [None, 4, 1]


def test_a_run_says_how_often_and_how_long_in_one_line() -> None:
    """The text has a line for each row, with its count and seconds; a replay has no seconds."""
    again = decision(RECORDED_AGAIN, f"{MOVED_INPUT}: w", count=3, seconds=0.25)
    text = trace_of(decision(REPLAYED, count=1), again).text("cuda_graph")
    assert text == (
        f"forward: the graph is replayed 1 time: why  # def f(x):\n"
        f"forward: the graph is recorded again 3 times, 0.25 s: {MOVED_INPUT}: w  # def f(x):"
    )


def test_the_graph_before_has_the_traces_compile_id() -> None:
    """The compiler counts over the whole process, the trace from 0."""
    (row,) = trace_of(decision(RECORDED_AGAIN, f"{OTHER_PLACE}: the forward graph of", count=1, after="5/0")).inductor.cuda_graphs
    assert row["reason"] == f"{OTHER_PLACE}: the forward graph of 0/0"
