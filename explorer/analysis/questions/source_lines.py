"""Match the lines of the program in several traces of it. Pure.

A line of a later trace is the same as one of an earlier trace where the two functions have the same text, or where a diff of
the two functions has the line on both sides. After an edit of a function the lines that stand at the same place in the diff are
one edited line. Only lines that a text of one of the two traces comes from are matched.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import Artifact, once

#: How two lines of two traces are known to be one line of the program.
SAME, EDITED = "same line of the program", "edited line of the program"
#: Lines that functions may have in common without anything else; a function of one line has its code in it.
_HEAD = re.compile(r"((async )?def |class ).*[:(,]$|@|\)")


@dataclass(frozen=True)
class SourceLine:
    """A line of a source of one of several traces: the trace by its number, the source's id, the line from 1."""

    trace: int
    source: str
    line: int


class FirstLine(NamedTuple):
    """A user line as the first trace that has it numbers it, and which trace that is."""

    line: UserLine
    trace: int


@dataclass(frozen=True)
class LineMatch:
    """A line of a later trace that is a line of an earlier one, and how that is known."""

    later: SourceLine
    earlier: SourceLine
    how: str


def matched_lines(traces: Sequence[TraceData]) -> list[LineMatch]:
    """Match each line of the second and later traces with a line of the first trace that has it."""
    found: dict[SourceLine, LineMatch] = {}
    for number, later in enumerate(traces):
        for before in range(number):
            for match in _between(traces[before], later, before, number):
                found.setdefault(match.later, match)
    return list(found.values())


def unrelated(traces: Sequence[TraceData]) -> tuple[int, int] | None:
    """Find two traces that have no line of the program in common with each other or by a third; None if there are none.

    A trace without a source that something was made of, as of a kernel that was handed to triton, is held to be related.
    """
    pairs = {
        (match.earlier.trace, match.later.trace)
        for match in matched_lines(traces)
        if not _HEAD.match(_user_line(traces[match.later.trace], match.later).code)
    }
    first, *others = [number for number, trace in enumerate(traces) if computing_lines(trace)] or [0]
    related = {first}
    for _ in others:
        related |= {number for pair in pairs if related.intersection(pair) for number in pair}
    return next(((first, number) for number in others if number not in related), None)


def first_numbering(traces: Sequence[TraceData]) -> list[dict[UserLine, FirstLine]]:
    """Map the user lines of each trace to the first trace that has them; what is not there is no other's.

    A line that an edit put in may have the number and the code of another line before the edit, so the trace is part of it.
    """
    found: list[dict[UserLine, FirstLine]] = [{} for _ in traces]
    for match in matched_lines(traces):
        later, earlier = (_user_line(traces[at.trace], at) for at in (match.later, match.earlier))
        found[match.later.trace][later] = FirstLine(earlier, match.earlier.trace)
    return found


def _user_line(trace: TraceData, at: SourceLine) -> UserLine:
    artifact = artifact_of(trace, at.source)
    data = typed(Source, artifact.data)
    return UserLine(data.file, data.first_line + at.line - 1, artifact.lines[at.line - 1].strip())


@once
def computing_lines(trace: TraceData) -> frozenset[tuple[str, int]]:
    """The lines of the sources that a text of the trace comes from, as (source, line)."""
    sources = {a.id for a in trace.find("source")}
    return frozenset((link.target, line) for link in trace.links if link.target in sources for line in link.target_lines)


def _between(one: TraceData, other: TraceData, before: int, number: int) -> Iterator[LineMatch]:
    """The matches of two traces."""
    ours, theirs = computing_lines(one), computing_lines(other)
    for early, late in _paired(one.find("source"), other.find("source")):
        for line, at, how in _lines(early, late):
            if (early.id, line) in ours or (late.id, at) in theirs:
                yield LineMatch(SourceLine(number, late.id, at), SourceLine(before, early.id, line), how)


def _paired(one: Sequence[Artifact], other: Sequence[Artifact]) -> list[tuple[Artifact, Artifact]]:
    """Pair the sources of two traces: by the same text, then by the same name, then as the compiled functions.

    A function that was compiled or inlined several times is paired in this order.
    """
    keys: tuple[Callable[[Artifact], Hashable], ...] = (
        lambda a: (_qualname(a), a.text),
        lambda a: a.text,
        _qualname,
        lambda a: typed(Source, a.data).compiled and not typed(Source, a.data).inlined,
    )
    pairs: list[tuple[Artifact, Artifact]] = []
    ours, theirs = list(one), list(other)
    for key in keys:
        waiting: dict[Hashable, deque[Artifact]] = {}
        for a in theirs:
            waiting.setdefault(key(a), deque()).append(a)
        unpaired = []
        for a in ours:
            if (name := key(a)) and waiting.get(name):
                pairs.append((a, waiting[name].popleft()))
            else:
                unpaired.append(a)
        left = {a.id for sources in waiting.values() for a in sources}
        ours, theirs = unpaired, [a for a in theirs if a.id in left]
    return pairs


def _qualname(source: Artifact) -> str:
    return typed(Source, source.data).qualname


def _lines(early: Artifact, late: Artifact) -> Iterator[tuple[int, int, str]]:
    """The lines of two functions that are one line, as (line, line, how)."""
    if early.text == late.text:
        yield from ((line, line, SAME) for line in range(1, len(early.lines) + 1))
        return
    a, b = ([line.strip() for line in source.lines] for source in (early, late))
    for kind, i, end, j, last in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from ((i + k + 1, j + k + 1, SAME) for k in range(end - i) if a[i + k])
        elif kind == "replace" and end - i == last - j and _qualname(early) == _qualname(late):
            yield from ((i + k + 1, j + k + 1, EDITED) for k in range(end - i))


__all__ = [
    "EDITED",
    "SAME",
    "FirstLine",
    "LineMatch",
    "SourceLine",
    "computing_lines",
    "first_numbering",
    "matched_lines",
    "unrelated",
]
