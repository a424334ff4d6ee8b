"""The spans of a profile: what ran on the CPU, nested, and what ran on a device, with the call that launched it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

#: No span.
NONE = -1


@dataclass(frozen=True, slots=True)
class Span:
    """Something that ran from `start` for `seconds`, on a thread of the CPU or a stream of a device.

    `correlation` is the number that a device's kernel and the call that launched it have in common, else None. `launches` is
    more than 1 where a profile has only the sum of several.
    """

    name: str
    start: float
    seconds: float
    track: object
    correlation: int | None = None
    launches: int = 1


@dataclass(frozen=True)
class Timeline:
    """The spans of one profile; `device` names where the kernels ran, "" where that is not stated.

    `parents` has the number of the span around each span of `cpu`, `launched_by` the number of the call that launched each span
    of `gpu`; NONE if there is none. Without `timed` the spans have no order.
    """

    source: str
    device: str
    cpu: tuple[Span, ...]
    gpu: tuple[Span, ...]
    timed: bool = True
    parents: tuple[int, ...] = field(init=False)
    launched_by: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cpu", tuple(sorted(self.cpu, key=lambda span: (span.start, -span.seconds))))
        object.__setattr__(self, "gpu", tuple(sorted(self.gpu, key=lambda span: span.start)))
        object.__setattr__(self, "parents", tuple(_parents(self.cpu)))
        calls = {span.correlation: n for n, span in enumerate(self.cpu) if span.correlation is not None}
        found = (calls.get(span.correlation, NONE) if span.correlation is not None else NONE for span in self.gpu)
        object.__setattr__(self, "launched_by", tuple(found))

    def above(self, number: int) -> Iterator[int]:
        """A span of the CPU and those around it, the innermost first; none for NONE."""
        while number != NONE:
            yield number
            number = self.parents[number]

    def own_seconds(self) -> list[float]:
        """The seconds of each span of the CPU that are in none of the spans inside it."""
        own = [span.seconds for span in self.cpu]
        for number, parent in enumerate(self.parents):
            if parent != NONE:
                own[parent] -= self.cpu[number].seconds
        return own


def _parents(spans: Sequence[Span]) -> Iterable[int]:
    """The innermost span around each on its own thread; what begins before it and ends in it is inside it."""
    around: dict[object, list[int]] = {}
    for number, span in enumerate(spans):
        stack = around.setdefault(span.track, [])
        middle = span.start + span.seconds / 2
        while stack and spans[stack[-1]].start + spans[stack[-1]].seconds <= middle:
            stack.pop()
        yield stack[-1] if stack else NONE
        stack.append(number)


def own_by_name(timeline: Timeline) -> Mapping[str, float]:
    """Return the total seconds of each name in a profile: the device's kernels, or the CPU's operators if it has no device."""
    pairs: Iterable[tuple[Span, float]] = ((span, span.seconds) for span in timeline.gpu)
    if not timeline.gpu:
        pairs = zip(timeline.cpu, timeline.own_seconds(), strict=True)
    sums: dict[str, float] = {}
    for span, seconds in pairs:
        sums[span.name] = sums.get(span.name, 0.0) + seconds
    return sums


__all__ = ["NONE", "Span", "Timeline", "own_by_name"]
