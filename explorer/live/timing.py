"""Time calls of compiled functions in turn, so that a slow moment of the machine falls on each of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

from explorer.live.other_threads import once_nothing_traces


def median_seconds(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Make the calls in turn, `repeats` times each, and return the median seconds of each.

    BusyError where another thread traces with torch.fx for too long. The wait for it is in no time: a call that torch refuses
    is timed anew, from its start.
    """
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, times in zip(calls, seconds, strict=True):
            times.append(once_nothing_traces(partial(_seconds, call)))
    return [statistics.median(times) for times in seconds]


def _seconds(call: Callable[[], object]) -> float:
    """The seconds of one call, the GPU's work included."""
    _synchronize()
    start = time.perf_counter()
    call()
    _synchronize()
    return time.perf_counter() - start


def _synchronize() -> None:
    """Wait for the GPU, where one is attached and in use."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
