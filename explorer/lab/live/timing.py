"""Time calls of compiled functions in turn, so that a slow moment of the machine falls on each of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from explorer.lab.live.other_threads import once_nothing_traces
from explorer.process.under_way import step


class Seconds(NamedTuple):
    """How long a call takes by the clock, and by the processor: the time of all threads of this process together.

    `spread` is between the first and the third quartile of several calls by the clock, 0 for one call.
    """

    clock: float
    processor: float
    spread: float = 0.0


def median_seconds(calls: Sequence[Callable[[], object]], repeats: int) -> list[Seconds]:
    """Make the calls in turn, `repeats` times each, and return the median seconds of each, and their spread.

    BusyError where another thread traces with torch.fx for too long. The wait for it is in no time: a call that torch refuses
    is timed anew, from its start.
    """
    seconds: list[list[Seconds]] = [[] for _ in calls]
    for done in range(repeats):
        step("timing", done, repeats)
        in_turn = list(zip(calls, seconds, strict=True))
        for call, times in in_turn if done % 2 == 0 else reversed(in_turn):  # what runs before a call leaves its threads awake
            times.append(once_nothing_traces(partial(_seconds, call)))
    return [_median(times) for times in seconds]


def _median(times: Sequence[Seconds]) -> Seconds:
    """The median of several calls, and how far apart the middle half of them is."""
    clocks = [each.clock for each in times]
    first, _, third = statistics.quantiles(clocks, n=4, method="inclusive") if len(clocks) > 1 else (0.0, 0.0, 0.0)
    return Seconds(statistics.median(clocks), statistics.median(each.processor for each in times), third - first)


def _seconds(call: Callable[[], object]) -> Seconds:
    """The seconds of one call, the GPU's work included."""
    _synchronize()
    processor, clock = time.process_time(), time.perf_counter()
    call()
    _synchronize()
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def _synchronize() -> None:
    """Wait for the GPU, where one is attached and in use."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
