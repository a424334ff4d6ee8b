"""What each call of a compiled frame took in a profile, and each collective that it ran. Pure.

On the CPU a call waits for a collective in `_c10d_functional::wait_tensor`, whose span has the time. On a GPU NCCL's kernel has
it: it runs until all ranks have come to it. For a collective outside of the graphs, gloo's own span on the CPU has the time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.analysis.questions.collectives import (
    CollectiveRow,
    collective_rows,
    eager_rows,
    is_collective,
    is_wait,
    short_name,
    starts_of_waits,
)
from explorer.analysis.timing.launch_names import launches_of
from explorer.analysis.timing.runs import Run, regions_of, runs_of
from explorer.analysis.timing.timeline import NONE, Span, Timeline
from explorer.model.records import typed
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.wording import quantity
from explorer.stages.torch_compile.eager_collective import EagerCollectives, line_of
from explorer.stages.torch_compile.run_times import CallTime, ExchangeTime, RunTimes

#: How the kernels of NCCL are named: ncclDevKernel_AllReduce_Sum_f32_RING_LL.
NCCL = "nccl"
#: How gloo names its spans in torch's ProcessGroupGloo, which sends an all_reduce for a reduce_scatter, by the operators of c10d.
GLOO: Mapping[str, str] = {
    "c10d::allreduce_": "gloo:all_reduce",
    "c10d::_reduce_scatter_base_": "gloo:all_reduce",
    "c10d::_allgather_base_": "gloo:all_gather",
    "c10d::allgather_": "gloo:all_gather",
    "c10d::alltoall_base_": "gloo:all_to_all",
    "c10d::broadcast_": "gloo:broadcast",
    "c10d::reduce_": "gloo:reduce",
    "c10d::gather_": "gloo:gather",
    "c10d::scatter_": "gloo:scatter",
}
#: How the spans of torch's compiler end: "compile_fx_inner (dynamo_timed)".
COMPILES = " (dynamo_timed)"
#: The frame of a run, and whether it is its backward.
Key = tuple[str, bool]
Interval = tuple[float, float]


def run_times(trace: TraceData, timeline: Timeline) -> RunTimes:
    """The calls of compiled frames in a profile, and their collectives; none where the profile has no times of each call."""
    if not timeline.timed:
        return RunTimes(source=timeline.source, calls=(), exchanges=())
    runs = sorted((run for run in runs_of(timeline, launches_of(trace)) if run.region != NONE), key=lambda run: run.region)
    exchanged = _exchanged(timeline)
    by_key = _rows_by_key(trace)
    counts: Counter[Key] = Counter()
    calls: list[CallTime] = []
    exchanges: list[tuple[float, ExchangeTime]] = []
    kernels = _Kernels(timeline)
    for run in runs:
        own = exchanged.get(run.region, _Exchanged())
        rows, key = _rows_of(run, own, by_key, trace)
        calls.append(_call(run, key, timeline))
        exchanges += _exchanges(trace, own, rows, counts[key], kernels)
        counts[key] += 1
    outside = _Outside(trace, kernels)
    exchanges += outside.exchanges()
    in_order = tuple(one for _, one in sorted(exchanges, key=lambda pair: pair[0]))
    return RunTimes(source=timeline.source, calls=tuple(calls), exchanges=in_order, unmatched=tuple(outside.unmatched))


# Calls -------------------------------------------------------------------------------------------------------------------


def _call(run: Run, key: Key, timeline: Timeline) -> CallTime:
    regions = regions_of(timeline)
    parent = timeline.parents[run.region]
    spans = [*(span for one in run.launched for span in one.spans), *(span for span, _ in run.others)]
    return CallTime(
        frame=key[0],
        backward=key[1],
        outer=parent == NONE or regions[parent] == NONE,
        seconds=timeline.cpu[run.region].seconds,
        device=_length(_union(map(_interval, spans))) if timeline.gpu else None,
    )


def _rows_by_key(trace: TraceData) -> Mapping[Key, list[CollectiveRow]]:
    """Return the collectives of each frame's forward and backward, in the order of their start."""
    found: dict[Key, list[CollectiveRow]] = {}
    for row in collective_rows(trace):
        found.setdefault((row["frame"], row["graph"] == "backward"), []).append(row)
    return found


def _rows_of(
    run: Run, own: _Exchanged, by_key: Mapping[Key, list[CollectiveRow]], trace: TraceData
) -> tuple[Sequence[CollectiveRow], Key]:
    """The collectives of a graph that a run is of, by the order of their operators, and its frame; none where it is not clear."""
    frame = run.graph.frame if run.graph else run.label if not run.backward and run.label in trace.compile_ids else ""
    operators = [operator for _, operator in own.starts]
    fitting = [key for key, rows in by_key.items() if key[1] == run.backward and [row["operator"] for row in rows] == operators]
    keys = [key for key in fitting if key[0] == frame] or ([] if frame else fitting)
    return (by_key[keys[0]], keys[0]) if len(keys) == 1 else ((), (frame, run.backward))


# Collectives ---------------------------------------------------------------------------------------------------------------


@dataclass
class _Exchanged:
    """The collectives of one run: the spans that start them, with the operators, and those that wait, in order."""

    starts: list[tuple[int, str]] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)


def _exchanged(timeline: Timeline) -> Mapping[int, _Exchanged]:
    """The collectives of each run, by the number of its span."""
    regions = regions_of(timeline)
    found: dict[int, _Exchanged] = {}
    for number, span in enumerate(timeline.cpu):
        target = span.name.replace("::", ".")
        if regions[number] == NONE or not (is_collective(target) or is_wait(target)) or _inside(timeline, number):
            continue
        own = found.setdefault(regions[number], _Exchanged())
        if is_wait(target):
            own.waits.append(number)
        else:
            own.starts.append((number, short_name(target)))
    return found


def _inside(timeline: Timeline, number: int) -> bool:
    """Whether an operator was called inside another one that exchanges, as in the first run, where torch calls it twice."""
    around = timeline.above(timeline.parents[number])
    return any(timeline.cpu[above].name.startswith("_c10d_functional") for above in around)


def _exchanges(
    trace: TraceData, own: _Exchanged, rows: Sequence[CollectiveRow], run: int, kernels: _Kernels
) -> Iterator[tuple[float, ExchangeTime]]:
    """The collectives of one run with the time at which each starts."""
    waited = _waited(trace, rows, [kernels.timeline.cpu[number].seconds for number in own.waits])
    for place, (number, operator) in enumerate(own.starts):
        row = rows[place] if rows else None
        spans = kernels.launched_in.get(number, ())
        exchange = ExchangeTime(
            artifact=row["artifact"] if row else "",
            node=row["node"] if row else "",
            operator=operator,
            run=run,
            seconds=sum(span.seconds for span in spans) if spans else waited.get(place),
            overlapped=sum(map(kernels.overlapped, spans)) if spans else None,
        )
        yield kernels.timeline.cpu[number].start, exchange


def _waited(trace: TraceData, rows: Sequence[CollectiveRow], waits: Sequence[float]) -> Mapping[int, float]:
    """The seconds that a run waited for each of its collectives, by the places of these; {} where it is not clear."""
    expected: list[int] = []
    for text in dict.fromkeys(row["wrapper"] or row["artifact"] for row in rows):
        own = {row["started"]: place for place, row in enumerate(rows) if (row["wrapper"] or row["artifact"]) == text}
        if any(row["wrapper"] == text for row in rows):
            expected += [own.get(line, NONE) for line in starts_of_waits(artifact_of(trace, text))]
        else:
            waiting = sorted((row["waited"], place) for place, row in enumerate(rows) if place in own.values() and row["waited"])
            expected += [place for _, place in waiting]
    if len(expected) != len(waits):
        return {}
    found: dict[int, float] = {}
    for place, seconds in zip(expected, waits, strict=True):
        found[place] = found.get(place, 0.0) + seconds
    return found


# Collectives outside the graphs ------------------------------------------------------------------------------------------


class _Outside:
    """The collectives of a profile that hooks and Python sent; `unmatched` says which have times but no row, and why."""

    def __init__(self, trace: TraceData, kernels: _Kernels) -> None:
        artifacts = trace.find("eager_collective")
        self._artifact = artifacts[0] if len(artifacts) == 1 else None
        self._kernels, self._timeline = kernels, kernels.timeline
        self._sent = [number for number, span in enumerate(self._timeline.cpu) if span.name.startswith("c10d::")]
        self._spans: Mapping[int, Sequence[Span]] = {**_spans_of_gloo(trace, self._timeline, self._sent), **kernels.launched_in}
        self.unmatched: list[str] = []

    def exchanges(self) -> Iterator[tuple[float, ExchangeTime]]:
        """Each with the time at which it was sent."""
        if self._artifact is None:
            return
        data = typed(EagerCollectives, self._artifact.data)
        undelayed = self._undelayed()
        for call, operator in {row.call: row.operator for row in data.rows}.items():
            numbers = [number for number in self._sent if self._is_outside(number, call.replace(".", "::"))]
            runs: Counter[int | None] = Counter()
            for number, row in zip(numbers, self._rows(data, call, len(numbers)), strict=True):
                runs[row] += number in undelayed
                spans = self._spans.get(number, ())
                exchange = ExchangeTime(
                    artifact=self._artifact.id,
                    node="",
                    operator=operator,
                    run=runs[row] if number in undelayed else 0,
                    seconds=sum(span.seconds for span in spans) if spans else None,
                    overlapped=sum(map(self._kernels.overlapped, spans)) if spans and self._timeline.gpu else None,
                    line=line_of(row) if row is not None else None,
                )
                yield self._timeline.cpu[number].start, exchange

    def _is_outside(self, number: int, name: str) -> bool:
        by_a_graph = regions_of(self._timeline)[number] != NONE and _inside(self._timeline, number)
        return self._timeline.cpu[number].name == name and not by_a_graph

    def _rows(self, data: EagerCollectives, call: str, count: int) -> Sequence[int | None]:
        """The row of each call of an operator in the profile, by their order; None where the recording has other calls.

        Of a long job the recording has only the order of the last calls.
        """
        recorded = sum(row.runs for row in data.rows if row.call == call)
        if recorded != count:
            times = f"the profile has {quantity(count, 'call')} of {call}, the recording {recorded}"
            self.unmatched.append(f"which collective outside the graphs took how long is not known: {times}")
            return [None] * count
        order = [step for step in data.order if step >= 0 and data.rows[step].call == call]
        return [*[None] * (count - len(order)), *order]

    def _undelayed(self) -> set[int]:
        """The calls that no compile delays on this rank or another: since the last one, a collective has already ended.

        What is sent before the first compile is not among them, as a program begins with it.
        """
        compiles = sorted(_interval(span) for span in self._timeline.cpu if span.name.endswith(COMPILES))
        if not compiles:
            return set(self._sent)
        found: set[int] = set()
        compiled, first_end = 0.0, float("inf")
        for number in self._sent:
            start = self._timeline.cpu[number].start
            while compiles and compiles[0][0] < start:
                compiled, first_end = max(compiled, compiles.pop(0)[1]), float("inf")
            spans = self._spans.get(number, ())
            if compiled and first_end <= min((span.start for span in spans), default=start):
                found.add(number)
            if compiled and start >= compiled:
                first_end = min(first_end, max((_interval(span)[1] for span in spans), default=float("inf")))
        return found


def _spans_of_gloo(trace: TraceData, timeline: Timeline, sent: Sequence[int]) -> Mapping[int, Sequence[Span]]:
    """The span of gloo's thread for each call, by their order; {} with several groups, as each has threads of its own."""
    if len({row["group"] for row in (*collective_rows(trace), *eager_rows(trace))}) != 1:
        return {}
    found: dict[int, Sequence[Span]] = {}
    for title in dict.fromkeys(GLOO.values()):
        calls = [number for number in sent if GLOO.get(timeline.cpu[number].name) == title]
        spans = [span for span in timeline.cpu if span.name == title]
        if len(calls) == len(spans) and all(timeline.cpu[n].start <= span.start for n, span in zip(calls, spans, strict=True)):
            found.update((number, (span,)) for number, span in zip(calls, spans, strict=True))
    return found


# What ran on the GPU -----------------------------------------------------------------------------------------------------


class _Kernels:
    """The kernels of NCCL in a profile, by the operator that launched them, and what else ran on the GPU."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.launched_in: dict[int, list[Span]] = {}
        for span, call in zip(timeline.gpu, timeline.launched_by, strict=True):
            if span.name.startswith(NCCL):
                for above in timeline.above(call):
                    self.launched_in.setdefault(above, []).append(span)
        self._others = _union(_interval(span) for span in timeline.gpu if not span.name.startswith(NCCL))
        self._ends = [end for _, end in self._others]

    def overlapped(self, span: Span) -> float:
        """Return for how many seconds of a kernel another one ran."""
        begin, end = _interval(span)
        total = 0.0
        for number in range(bisect_left(self._ends, begin), len(self._others)):
            other = self._others[number]
            if other[0] >= end:
                break
            total += min(end, other[1]) - max(begin, other[0])
        return total


def _interval(span: Span) -> Interval:
    return span.start, span.start + span.seconds


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals that do not touch, which cover the same."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def _length(intervals: Sequence[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


__all__ = ["run_times"]
