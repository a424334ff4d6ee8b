"""Collectives of hooks in a profile: profiles and recordings whose times and calls are known, since each test writes them."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.analysis.questions.priced_collectives import priced_rows
from explorer.analysis.timing.run_times import run_times
from explorer.analysis.timing.timeline import Span, Timeline
from explorer.model.records import changed
from explorer.model.trace_data import TraceData
from explorer.model.values import Event
from explorer.sources.ranks.waiting import runs_of_rank
from explorer.stages.replay import extended, rendered, replay
from explorer.stages.torch_compile.eager_collective import EagerCollective, EagerCollectives
from explorer.stages.torch_compile.run_times import ExchangeTime, RunTimes
from tests.sent_collectives import ALL_REDUCE

#: The lines of the text that list the rows.
FIRST, SECOND, GATHER = 2, 3, 4


def row(operator: str, call: str, runs: int, bytes: int = 64, group: str = "0") -> EagerCollective:
    shape = (bytes // 4,)
    return changed(ALL_REDUCE, operator=operator, call=f"c10d.{call}", group=group, shape=shape, bytes=bytes, runs=runs)


def recorded(order: Sequence[int] = (0, 2, 1, 0, 1), counts: Sequence[int] = (2, 2, 1), groups: str = "000") -> TraceData:
    """A trace of two all_reduces and an all_gather, in that order of runs."""
    kinds = ("all_reduce", "allreduce_"), ("all_reduce", "allreduce_"), ("all_gather", "allgather_")
    rows = tuple(row(*kind, runs, 64 + 64 * n, groups[n]) for n, (kind, runs) in enumerate(zip(kinds, counts, strict=True)))
    data = EagerCollectives(rows=rows, graphs=(), order=tuple(order), left_out=0)
    return replay([Event(kind="eager_collective", time=0.0, data=data)])


#: The calls of the recording, in order.
CALLS = ("allreduce_", "allgather_", "allreduce_", "allreduce_", "allreduce_")


def on_a_gpu(calls: Sequence[str] = CALLS) -> tuple[list[Span], list[Span]]:
    """Each call launches a kernel of NCCL's that takes as many seconds as its place, from 1, the first half beside a product."""
    cpu, gpu, begin = [], [], 100.0
    for place, call in enumerate(calls):
        cpu.append(Span(f"c10d::{call}", float(place), 0.5, 1))
        cpu.append(Span("record_param_comms", place + 0.1, 0.3, 1))
        cpu.append(Span("cudaLaunchKernelExC", place + 0.2, 0.1, 1, correlation=place))
        gpu.append(Span("ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin, place + 1.0, (0, 20), correlation=place))
        gpu.append(Span("triton_mm", begin, (place + 1.0) / 2, (0, 7)))
        begin += place + 1.0
    return cpu, gpu


def times_on_a_gpu(trace: TraceData, calls: Sequence[str] = CALLS, more: Sequence[Span] = ()) -> RunTimes:
    cpu, gpu = on_a_gpu(calls)
    return run_times(trace, Timeline("torch.profiler", "H200", (*cpu, *more), tuple(gpu)))


def lines(times: RunTimes) -> list[tuple[int | None, float | None, float | None]]:
    return [(one.line, one.seconds, one.overlapped) for one in times.exchanges]


def test_each_run_has_the_time_of_its_kernel() -> None:
    """The n-th call of an operator in the profile is the n-th of the recording; half of each ran beside a product."""
    expected = [(FIRST, 1.0), (GATHER, 2.0), (SECOND, 3.0), (FIRST, 4.0), (SECOND, 5.0)]
    times = times_on_a_gpu(recorded())
    assert lines(times) == [(line, seconds, seconds / 2) for line, seconds in expected]
    assert not times.unmatched


def test_other_counts_match_nothing_and_say_so() -> None:
    """A profile of fewer calls: the all_reduces have their times and no row, the operator and both counts are named."""
    times = times_on_a_gpu(recorded(), CALLS[:-1])
    assert [line for line, _, _ in lines(times)] == [None, GATHER, None, None]
    (why,) = times.unmatched
    assert all(word in why for word in ("3 calls", "c10d.allreduce_", "4"))


def test_of_a_long_job_the_last_calls_are_matched() -> None:
    """The recording has the order of the last runs only, and the count of all."""
    assert [line for line, _, _ in lines(times_on_a_gpu(recorded((0, 1))))] == [None, None, None, FIRST, SECOND]


def test_what_a_graph_sends_is_no_hooks() -> None:
    """Its operator asks the process group too, inside of a compiled frame's call."""
    graphs = (
        Span("Torch-Compiled Region: 0/0", 10.0, 1.0, 1),
        Span("_c10d_functional::all_reduce_", 10.1, 0.5, 1),
        Span("c10d::allreduce_", 10.2, 0.2, 1),
    )
    times = times_on_a_gpu(recorded(), more=graphs)
    assert not times.unmatched and sum(one.line is not None for one in times.exchanges) == len(CALLS)


def test_on_the_cpu_it_is_the_time_of_gloos_span() -> None:
    """They are in the order of the calls; those of several groups are not told apart, so that their times are unknown."""
    titles = {"allreduce_": "gloo:all_reduce", "allgather_": "gloo:all_gather"}
    cpu = [Span(f"c10d::{call}", float(place), 0.2, 1) for place, call in enumerate(CALLS)]
    cpu += [Span(titles[call], place + 0.5, place + 1.0, 2 + place % 2) for place, call in enumerate(CALLS)]
    timeline = Timeline("torch.profiler", "", tuple(cpu), ())
    expected = [(FIRST, 1.0), (GATHER, 2.0), (SECOND, 3.0), (FIRST, 4.0), (SECOND, 5.0)]
    assert lines(run_times(recorded(), timeline)) == [(line, seconds, None) for line, seconds in expected]
    assert {one.seconds for one in run_times(recorded(groups="001"), timeline).exchanges} == {None}


def test_a_run_that_a_compile_delays_counts_only_where_there_is_no_other() -> None:
    """After a compile a collective has to end before the next is undelayed: the ranks are in step only then."""
    compiling = Span("compile_fx_inner (dynamo_timed)", 1.7, 0.2, 1)
    times = times_on_a_gpu(recorded(), more=(compiling,))
    assert [(one.line, one.run) for one in times.exchanges] == [(FIRST, 0), (GATHER, 0), (SECOND, 0), (FIRST, 1), (SECOND, 1)]
    trace = with_times(recorded(), times)
    runs = runs_of_rank(trace)
    assert runs is not None and (runs.in_collectives, runs.overlapped) == (9.0, 4.5)
    assert [one.later for one in runs.exchanges] == [False, False, False, True, True]
    whole = runs_of_rank(with_times(recorded(), times_on_a_gpu(recorded())))
    assert whole is not None and whole.in_collectives == 15.0


def test_the_table_has_the_measured_times() -> None:
    """The median of the runs that no compile delayed, and what no other kernel ran beside; the text names each by its line."""
    exchanges = tuple(
        ExchangeTime(artifact="-:eager_collective", node="", operator="", run=run, seconds=seconds, overlapped=1.0, line=FIRST)
        for run, seconds in enumerate((9.0, 2.0, 4.0))
    )
    trace = with_times(recorded(), RunTimes(source="a profile", calls=(), exchanges=exchanges))
    first, second, _ = priced_rows(trace)
    assert (first["seconds"], first["exposed"]) == (3.0, 2.0) and first["seconds_known"].startswith("measured")
    assert (second["seconds"], second["exposed"]) == (None, None)
    assert f"line {FIRST} of -:eager_collective" in trace.find("run_times")[0].text


def with_times(trace: TraceData, times: RunTimes) -> TraceData:
    return extended(trace, list(rendered(trace, [Event(kind="run_times", time=0.0, data=times)])))
