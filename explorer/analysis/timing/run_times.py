"""What each call of a compiled frame took in a profile, and each collective that it ran. Pure.

On the CPU a call waits for a collective in `_c10d_functional::wait_tensor`, whose span has the time. On a GPU NCCL's kernel has
it: it runs until all ranks have come to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.analysis.questions.collectives import (
    CollectiveRow,
    collective_rows,
    is_collective,
    is_wait,
    short_name,
    starts_of_waits,
)
from explorer.analysis.timing.launch_names import launches_of
from explorer.analysis.timing.runs import Run, regions_of, runs_of
from explorer.analysis.timing.timeline import NONE, Span, Timeline
from explorer.model.trace_data import TraceData, artifact_of
from explorer.stages.torch_compile.run_times import CallTime, ExchangeTime, RunTimes

#: How the kernels of NCCL are named: ncclDevKernel_AllReduce_Sum_f32_RING_LL.
NCCL = "nccl"
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
    in_order = (one for _, one in sorted(exchanges, key=lambda pair: pair[0]))
    return RunTimes(source=timeline.source, calls=tuple(calls), exchanges=tuple(in_order))


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
