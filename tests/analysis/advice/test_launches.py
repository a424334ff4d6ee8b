"""Verdicts on CUDA graphs that were recorded again: which function, why, what it costs, and what helps."""

from __future__ import annotations

import pytest

from explorer.analysis.advice.launches import AGAIN
from explorer.analysis.advice.verdicts import Verdict
from explorer.model.records import blank
from explorer.model.values import Event
from explorer.stages.dynamo.source import SourceText
from explorer.stages.inductor.cuda_graph import (
    MOVED_INPUT,
    NEW_SIZE,
    OTHER_PLACE,
    RECORDED,
    RECORDED_AGAIN,
    REPLAYED,
    STEP_NOT_OVER,
    WARMED_UP,
    CudaGraphDecision,
)
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import untold

SOURCE = blank(SourceText, text="def f(x):\n    return x.sin()", function="f", file="/a.py", first_line=3, compiled=True)


def trace_of(*rows: tuple[str, str, int, float | None]) -> Trace:
    """A trace of a function whose calls did these things: the decision, why, how often, and the seconds."""
    keys = ("decision", "reason", "count", "seconds")
    runs = [blank(CudaGraphDecision, what="the graph", **dict(zip(keys, row, strict=True))) for row in rows]
    events = [Event("cuda_graph", 1.0, "0/0", "forward", run) for run in runs]
    return trace_of_events([Event("source", 0.0, "0/0", data=SOURCE), *events])


def verdicts(trace: Trace) -> list[Verdict]:
    return [verdict for verdict in trace.advise() if verdict.kind == AGAIN]


def test_sizes_are_paid_once_each() -> None:
    """The verdict has the function's line, the seconds of all recordings, the sizes, and three things to do."""
    trace = trace_of((RECORDED, "first", 1, 0.1), (RECORDED_AGAIN, f"{NEW_SIZE}: 16, 32", 2, 0.2), (REPLAYED, "fits", 90, None))
    (verdict,) = verdicts(trace)
    assert verdict.title == "CUDA graphs of f were recorded again 2 times" and verdict.cost.once == 0.2
    assert verdict.places == (("0/0:cuda_graph", 2),) and [line.number for line in verdict.lines] == [3]
    assert not untold(verdict.evidence, "16, 32")
    assert not untold(verdict.remedy, "pad", "triton.cudagraph_skip_dynamic_graphs", "dynamic=False")
    assert not untold(str(trace), verdict.title, "paid once")


@pytest.mark.parametrize("cause", [MOVED_INPUT, STEP_NOT_OVER, OTHER_PLACE])
def test_what_goes_on_is_paid_in_each_call(cause: str) -> None:
    """Its seconds are the mean of the recorded calls, which take that much longer."""
    (verdict,) = verdicts(trace_of((RECORDED_AGAIN, f"{cause}: w", 5, 0.5), (REPLAYED, "fits", 5, None)))
    assert verdict.cost.seconds == pytest.approx(0.05) and verdict.cost.once is None and verdict.cost.beyond


def test_a_graph_that_only_warms_up_is_said() -> None:
    """Where no step is over, a graph is never recorded; the first warm-up is as it should be."""
    trace = trace_of((WARMED_UP, "first", 1, 0.5), (WARMED_UP, STEP_NOT_OVER, 9, 0.9))
    (verdict,) = verdicts(trace)
    assert verdict.title == "CUDA graphs of f were warmed up 9 times" and verdict.cost.seconds == pytest.approx(0.09)
    assert not untold(verdict.remedy, "torch.compiler.cudagraph_mark_step_begin()", "no_grad()")


def test_a_second_use_is_no_pattern() -> None:
    """One more size, or one more place in the tree, is how a program may be; a parameter that moved once is said, paid once."""
    assert not verdicts(trace_of((RECORDED_AGAIN, f"{NEW_SIZE}: 16", 1, 0.1), (RECORDED_AGAIN, OTHER_PLACE, 1, 0.1)))
    (verdict,) = verdicts(trace_of((RECORDED_AGAIN, f"{MOVED_INPUT}: w", 1, 0.1)))
    assert verdict.cost.once == 0.1 and not untold(verdict.remedy, "copy_()", "mark_static_address")


def test_a_steady_function_is_not_mentioned() -> None:
    """One recording and replays are what CUDA graphs are for."""
    assert not verdicts(trace_of((RECORDED, "first", 1, 0.1), (REPLAYED, "fits", 90, None)))
