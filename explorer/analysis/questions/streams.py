"""Lay out what a wrapper starts on a GPU: on one stream what computes, on one for each process group what communicates. Pure.

Work of a stream runs one after the other, in the order in which the wrapper starts it; the host is never late. A collective
begins when what stands before it has run, and the wait for it holds the computing stream until it has ended, as torch's
`wait_tensor` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Work:
    """A statement of a wrapper: a kernel or library call, the start of a collective, or a wait for one.

    `seconds` is the time of the kernel, call or collective, None if unknown. `starts` or `waits` is the collective's number,
    `group` the name of its process group: NCCL has a stream for each. Groups are taken not to slow each other down.
    """

    seconds: float | None = 0.0
    starts: int | None = None
    waits: int | None = None
    group: str = ""


@dataclass(frozen=True)
class Laid:
    """When a work begins, in seconds from the first, None where that depends on what is not known.

    For a wait, `stalled` is how long it holds the computing stream, in seconds.
    """

    begins: float | None
    stalled: float | None = None


def laid_out(works: Iterable[Work]) -> list[Laid]:
    """Lay out works in the order in which they are started."""
    streams = _Streams()
    return [streams.put(work) for work in works]


@dataclass
class _Streams:
    """The ends of the streams so far. What is not known counts as nothing, and is known to be missing."""

    computing: float = 0.0
    communicating: dict[str, float] = field(default_factory=dict)  # by group
    under_way: dict[int, tuple[float, float]] = field(default_factory=dict)  # when a collective begins, and its seconds
    known: bool = True  # everything so far
    sure: bool = True  # how far one stream is ahead of another

    def put(self, work: Work) -> Laid:
        """Add one work at the end of its stream."""
        if work.waits is not None:
            return self._wait(work.waits)
        if work.starts is not None:
            return self._start(work.starts, work.group, work.seconds)
        begins = self._time(self.computing)
        self.computing += work.seconds or 0.0
        self._note(work.seconds, bool(self.under_way))
        return Laid(begins)

    def _start(self, number: int, group: str, seconds: float | None) -> Laid:
        begins = max(self.computing, self.communicating.get(group, 0.0))
        self.under_way[number] = begins, seconds or 0.0
        self.communicating[group] = begins + (seconds or 0.0)
        laid = Laid(self._time(begins))
        self._note(seconds, True)
        return laid

    def _wait(self, number: int) -> Laid:
        if number not in self.under_way:
            return Laid(self._time(self.computing), 0.0)
        (began, seconds), begins, sure = self.under_way.pop(number), self.computing, self.sure
        stalled = max(0.0, began - begins + seconds)  # in this order it is exactly `seconds` where nothing runs meanwhile
        self.computing = max(begins, began + seconds)
        if not self.under_way:  # all streams are at one point again
            self.sure = True
        return Laid(self._time(begins), stalled if sure else None)

    def _time(self, time: float) -> float | None:
        return time if self.known else None

    def _note(self, seconds: float | None, under_way: bool) -> None:
        if seconds is None:
            self.known = False
            self.sure = self.sure and not under_way


__all__ = ["Laid", "Work", "laid_out"]
