"""The difference of two texts by lines, in bounded time, for the passes of a compiler.

`difflib` alone takes 16 s for a pass that changes all of 11,200 lines: it goes through the lines again for each equal stretch
that it finds. So its steps are counted beforehand. The lines that both texts begin and end with are set aside. difflib aligns
the rest if it cannot take more steps than there are. Else the lines that each text has once divide the rest into smaller parts,
or the lines that each has equally often. A part without such lines, or one that no steps are left for, counts as replaced as a
whole, even where some of its lines are equal. So a large difference may be longer than it need be. It is still right: applied
to the old text it gives the new one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from difflib import Match, SequenceMatcher
from itertools import takewhile

#: The most steps for one difference. difflib takes about ten million in a second.
STEPS = 20_000_000
#: How often a part is divided again.
DEEPEST = 50


class LineMatcher(SequenceMatcher[str]):
    """A SequenceMatcher of the lines of two texts that takes at most so many steps."""

    def __init__(self, old: Sequence[str], new: Sequence[str], steps: int = STEPS) -> None:
        super().__init__()
        self.a, self.b = old, new
        self._left = steps
        self._blocks: list[Match] = []

    def get_matching_blocks(self) -> list[Match]:
        """List the equal stretches of both texts, in order. The last one is empty, at the end of both texts."""
        if not self._blocks:
            joined: list[Match] = []
            for block in filter(lambda block: block.size, self._equal(0, len(self.a), 0, len(self.b), 0)):
                before = joined[-1] if joined else Match(-1, -1, 0)
                if (before.a + before.size, before.b + before.size) == (block.a, block.b):
                    joined[-1] = before._replace(size=before.size + block.size)
                else:
                    joined.append(block)
            self._blocks = [*joined, Match(len(self.a), len(self.b), 0)]
        return self._blocks

    def _equal(self, begin: int, end: int, new_begin: int, new_end: int, depth: int) -> Iterator[Match]:
        """Yield the equal stretches in a part of both texts: at its beginning, inside it, and at its end."""
        old, new = self.a[begin:end], self.b[new_begin:new_end]
        first = _common(old, new)
        last = _common(old[first:][::-1], new[first:][::-1])
        yield Match(begin, new_begin, first)
        yield from self._inside(begin + first, end - last, new_begin + first, new_end - last, depth)
        yield Match(end - last, new_end - last, last)

    def _inside(self, begin: int, end: int, new_begin: int, new_end: int, depth: int) -> Iterator[Match]:
        """Yield the equal stretches in a part of both texts: found by difflib, or between lines that divide the part."""
        old, new = self.a[begin:end], self.b[new_begin:new_end]
        steps = most_steps(old, new)
        if steps <= self._left:
            self._left -= steps
            found = SequenceMatcher(None, old, new).get_matching_blocks()
            yield from (Match(begin + i, new_begin + j, size) for i, j, size in found)
            return
        self._left -= len(old) + len(new)
        anchors = anchors_of(old, new) if depth < DEEPEST and self._left > 0 else []
        at, new_at = begin, new_begin
        for i, j in anchors:
            yield from self._equal(at, begin + i, new_at, new_begin + j, depth + 1)
            yield Match(begin + i, new_begin + j, 1)
            at, new_at = begin + i + 1, new_begin + j + 1
        if anchors:
            yield from self._equal(at, end, new_at, new_end, depth + 1)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def most_steps(old: Sequence[str], new: Sequence[str]) -> int:
    """The most steps that difflib takes: each time that it looks for an equal stretch, all lines and all pairs of equal ones.

    Of 200 lines or more it leaves aside those that are more than a hundredth of them.
    """
    ours, theirs = Counter(old), Counter(new)
    popular = len(new) // 100 + 1 if len(new) >= 200 else len(new)
    shared = {line: count for line, count in ours.items() if 0 < theirs[line] <= popular}
    pairs = sum(count * theirs[line] for line, count in shared.items())
    stretches = sum(min(count, theirs[line]) for line, count in shared.items())
    return (len(old) + pairs) * (2 * stretches + 1)


def anchors_of(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Find the places (old, new) of lines that each text has once: the longest series in the same order in both.

    If there are no such lines, lines that both texts have equally often are paired: the first with the first, and so on.
    """
    ours, theirs = Counter(old), Counter(new)
    even = {line for line, count in ours.items() if count == theirs[line]}
    wanted_lines = {line for line in even if ours[line] == 1} or even
    places = {key: n for n, key in _numbered(new, wanted_lines)}
    pairs = [(n, places[key]) for n, key in _numbered(old, wanted_lines)]
    # the longest increasing row: `ends` has the smallest last place of a row of each length
    ends: list[int] = []
    lengths = []
    for _, place in pairs:
        length = bisect_left(ends, place)
        ends[length : length + 1] = [place]
        lengths.append(length)
    wanted = len(ends) - 1
    row: list[tuple[int, int]] = []
    for pair, length in zip(reversed(pairs), reversed(lengths), strict=True):
        if length == wanted and (not row or pair[1] < row[-1][1]):
            row.append(pair)
            wanted -= 1
    return row[::-1]


def _numbered(lines: Sequence[str], wanted: Set[str]) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the places of some lines of a text, each with the line and how often it stood above."""
    seen: Counter[str] = Counter()
    for n, line in enumerate(lines):
        if line in wanted:
            yield n, (line, seen[line])
            seen[line] += 1


def unified(old: Sequence[str], new: Sequence[str], old_name: str, new_name: str, around: int = 3) -> Iterator[str]:
    """Yield the lines of a difference in the unified format, as `difflib.unified_diff` does; none for equal texts."""
    hunks = [hunk for hunk in LineMatcher(old, new).get_grouped_opcodes(around) if any(tag != "equal" for tag, *_ in hunk)]
    if hunks:
        yield from (f"--- {old_name}", f"+++ {new_name}")
    for hunk in hunks:
        yield f"@@ -{_range(hunk[0][1], hunk[-1][2])} +{_range(hunk[0][3], hunk[-1][4])} @@"
        for tag, i, i_end, j, j_end in hunk:
            if tag == "equal":
                yield from (f" {line}" for line in old[i:i_end])
                continue
            yield from (f"-{line}" for line in old[i:i_end])
            yield from (f"+{line}" for line in new[j:j_end])


def _range(begin: int, end: int) -> str:
    """The lines of a hunk in one text: the first, from 1, and how many; an empty range names the line before it."""
    count = end - begin
    return str(begin + 1) if count == 1 else f"{begin + 1 if count else begin},{count}"


__all__ = ["STEPS", "LineMatcher", "anchors_of", "most_steps", "unified"]
