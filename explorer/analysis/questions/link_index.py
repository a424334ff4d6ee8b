"""Index the links of a trace by place, once, so that any line is followed in a few milliseconds. Pure.

A set of an artifact's lines is one integer with a bit for each line: a walk joins and subtracts sets of thousands of lines in
less than a microsecond each. In a long text one such integer for each line would take the square of its lines in memory. There
the index keeps only the pieces of each set that have lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import chain, compress
from operator import itemgetter, or_
from typing import Any, NamedTuple

from explorer.analysis.questions.joined_sets import joined
from explorer.model.trace_data import TraceData
from explorer.model.values import CALLED_FROM, WHOLES, Link, once

#: A set of an artifact's lines as one integer; see `Lines`.
Bits = int
#: A set in pieces: the place at which each begins, and its bits from there on.
Pieces = tuple[tuple[int, Bits], ...]
#: Translates the digits "0" and "1" into the numbers 0 and 1.
_DIGITS = bytes.maketrans(b"01", b"\x00\x01")
#: The most places that are looked at one by one; more are handled all at once.
_FEW = 8
#: The sets of an artifact with more lines than these are kept in pieces.
_LONG = 4096
#: A piece ends where this many places have no line.
_GAP = 256
#: Pieces are first joined within parts of two to the power of this many places.
_PART = 11


class Lines:
    """The lines of an artifact that links name, in order: bit n of a set is the n-th of them."""

    def __init__(self, lines: Iterable[int]) -> None:
        self._lines = tuple(sorted(lines))
        self.place = {line: n for n, line in enumerate(self._lines)}

    def __len__(self) -> int:
        return len(self._lines)

    def bits(self, lines: Iterable[int]) -> Bits:
        """The set of these lines, without those that no link names."""
        return _bits_at([self.place[line] for line in lines if line in self.place])

    def of(self, bits: Bits) -> tuple[int, ...]:
        """The lines of a set, in order."""
        first, end = (bits & -bits).bit_length() - 1, bits.bit_length()
        lines = self._lines[first:end] if bits else ()
        if bits.bit_count() == len(lines):
            return lines
        bits >>= first
        stretches = (bits & ~(bits << 1)).bit_count()
        return tuple(_stretches(lines, bits) if stretches * 64 < len(lines) else compress(lines, _digits(bits)))


def _stretches(lines: tuple[int, ...], bits: Bits) -> list[int]:
    """Return the lines of a set in few runs of neighbours."""
    digits = _digits(bits)
    found: list[int] = []
    begin = 0
    while begin >= 0:
        end = digits.find(0, begin)
        found += lines[begin : end if end >= 0 else len(lines)]
        begin = digits.find(1, end) if end >= 0 else -1
    return found


class Chosen:
    """Some lines of an artifact, from which a walk continues; their places are found once for all of their links."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits

    @cached_property
    def pick(self) -> Callable[[Sequence[Any]], Iterable[Any]]:
        """Return a function that picks a sequence's items at the places of several lines."""
        return itemgetter(*compress(range(self.bits.bit_length()), _digits(self.bits)))


class Form(NamedTuple):
    """A form in which the other ends of a line are kept: `of` makes it of their places, `union` makes one set of several."""

    of: Callable[[Sequence[int]], Any]
    union: Callable[[Iterable[Any]], Bits]


def _bits_at(places: Sequence[int]) -> Bits:
    """Return the set of the lines at some places."""
    if len(places) <= _FEW:
        return reduce(or_, [1 << place for place in places], 0)
    digits = bytearray(b"0") * (max(places) + 1)
    for place in places:
        digits[-1 - place] = 49
    return int(digits, 2)


def _pieces(places: Iterable[int]) -> Pieces:
    """Return the set of the lines at some places, cut into pieces at long gaps."""
    pieces: list[list[int]] = []
    for place in sorted(places):
        if pieces and place - pieces[-1][-1] <= _GAP:
            pieces[-1].append(place)
        else:
            pieces.append([place])
    return tuple((piece[0], _bits_at([place - piece[0] for place in piece])) for piece in pieces)


def _one_piece(places: Sequence[int]) -> Pieces:
    first = min(places)
    return ((first, _bits_at([place - first for place in places])),)


def _joined(sets: Iterable[Pieces]) -> Bits:
    """Unite sets in pieces, part by part first, so that each step works on few places."""
    parts: dict[int, Bits] = {}
    for first, bits in chain.from_iterable(sets):
        part = first >> _PART
        parts[part] = parts.get(part, 0) | bits << (first & ((1 << _PART) - 1))
    return reduce(or_, [bits << (part << _PART) for part, bits in parts.items()], 0)


def _places(bits: Bits) -> Iterator[int]:
    """Yield the places of the bits, the highest first; for few bits."""
    while bits:
        place = bits.bit_length() - 1
        yield place
        bits ^= 1 << place


def _digits(bits: Bits) -> bytes:
    """A number, 0 or 1, for each bit, the lowest first."""
    return f"{bits:b}".encode()[::-1].translate(_DIGITS)


#: One integer, where that is short.
WHOLE = Form(_bits_at, lambda sets: reduce(or_, sets, 0))
#: The place of the one line that there is, () for none.
SINGLE = Form(tuple, lambda sets: _bits_at(list(chain.from_iterable(sets))))
#: Pieces of a set of several lines of a long text.
IN_PIECES = Form(_pieces, _joined)


class Ends(dict[int, tuple[int, ...]]):
    """Map each line to the lines at the other end of its links, of one kind and to one artifact.

    `begin` has the lines that have links, `all` their other ends. Call `ready` once all links are in it, and in its `back`.
    What a walk needs is made when one comes by: of the links of a compile it takes few.
    """

    def __init__(self, there: str, how: str, lines: Lines, others: Lines) -> None:
        super().__init__()
        self.there, self.how, self.whole = there, how, how in WHOLES
        self._lines, self._others = lines, others
        self._more: dict[int, list[tuple[int, ...]]] = {}
        self._back = self

    def add(self, lines: tuple[int, ...], others: tuple[int, ...]) -> None:
        """Take in a link: each of `lines` leads to all of `others`."""
        for line in lines:
            if line in self:
                self._more.setdefault(line, []).append(others)
            else:
                self[line] = others

    def ready(self, back: Ends) -> None:
        """Join the links of each line; `back` has the same links in the other direction."""
        self._back = back
        for line, more in self._more.items():
            self[line] = tuple(chain(self[line], *more))
        self._more = {}

    @cached_property
    def begin(self) -> Bits:
        """The lines that have links."""
        places = self._lines.place
        return _bits_at([places[line] for line in self])

    @cached_property
    def all(self) -> Bits:
        """The other ends of all links."""
        places = self._others.place
        return _bits_at([places[other] for other in set(chain.from_iterable(self.values()))])

    @cached_property
    def _form(self) -> Form:
        return self._fitting_form()

    @cached_property
    def _sets(self) -> tuple[Any, ...]:
        """The other ends of the line at each place; those of equal links are one object."""
        places, ends = self._lines.place, self._others.place
        sets = {others: self._form.of([ends[other] for other in others]) for others in set(self.values())}
        row = [self._form.of(())] * len(places)
        for line, others in self.items():
            row[places[line]] = sets[others]
        return tuple(row)

    @cached_property
    def _shifts(self) -> tuple[tuple[int, int, Bits], ...]:
        return self._few_shifts()

    def _fitting_form(self) -> Form:
        """Choose the form for the sets of other ends."""
        if len(self._others) <= _LONG:
            return WHOLE
        return SINGLE if all(len(others) == 1 for others in self.values()) else IN_PIECES

    def _few_shifts(self) -> tuple[tuple[int, int, Bits], ...]:
        """The distances between the ends of links, each with a piece of the lines that have such a link; () where there are many.

        A pass moves the nodes of a graph down by as many places as it adds nodes before them, which are few distances.
        """
        by_distance: dict[int, list[int]] = {}
        lines, others = self._lines.place, self._others.place
        for line, ends in self.items():
            place = lines[line]
            for end in ends:
                by_distance.setdefault(others[end] - place, []).append(place)
        count = sum(map(len, by_distance.values()))
        if len(by_distance) * 4 > count:
            return ()
        cut = _pieces if len(lines) > _LONG else _one_piece
        shifts = tuple((distance, *piece) for distance, places in by_distance.items() for piece in cut(places))
        return shifts if len(shifts) * 4 <= count else ()

    def of(self, chosen: Chosen, wanted: Bits) -> Bits:
        """Return those of `wanted`, a part of `all`, to which the chosen lines are linked; in the quickest of six ways."""
        here = chosen.bits & self.begin
        if here == self.begin:
            return wanted
        number = here.bit_count()
        if number <= _FEW or number * _FEW < chosen.bits.bit_count():
            return self._form.union([self._sets[place] for place in _places(here)]) & wanted
        if self._shifts and len(self._shifts) < number:
            return self._moved(here) & wanted
        if wanted.bit_count() <= _FEW:
            return _bits_at([place for place in _places(wanted) if self._back.leads_to(place, here)])
        return self._form.union(chosen.pick(self._sets)) & wanted

    def leads_to(self, place: int, ends: Bits) -> bool:
        """Whether the line at a place has one of these other ends."""
        return bool(self._form.union((self._sets[place],)) & ends)

    def _moved(self, here: Bits) -> Bits:
        """The other ends of some lines, by distance."""
        found = 0
        for distance, first, places in self._shifts:
            if moved := here >> first & places:
                found |= moved << first + distance
        return found


#: For each artifact its links, by the artifact at their other end and by kind.
Table = dict[str, dict[tuple[str, str], Ends]]
#: For each artifact the links that a walk may take.
Steps = dict[str, tuple[Ends, ...]]


class Ways(NamedTuple):
    """The links that a walk may take: from its start, after it took a link between a whole and its parts, and after another."""

    start: Steps
    after_whole: Steps
    after_other: Steps


class Index:
    """The links by place: `down` leads from a text to the text it came from, `up` the other way."""

    def __init__(self, links: Iterable[Link]) -> None:
        links = tuple(links)
        named: dict[str, set[int]] = {}
        for link in links:
            named.setdefault(link.source, set()).update(link.source_lines)
            named.setdefault(link.target, set()).update(link.target_lines)
        self.lines = {artifact: Lines(lines) for artifact, lines in named.items()}
        self.down: Table = {}
        self.up: Table = {}
        for link in links:
            self._ends(self.down, link.source, link.target, link.how).add(link.source_lines, link.target_lines)
            self._ends(self.up, link.target, link.source, link.how).add(link.target_lines, link.source_lines)
        for here, kinds in self.down.items():
            for (there, how), ends in kinds.items():
                back = self.up[there][here, how]
                ends.ready(back)
                back.ready(ends)
        self._choose()

    def _ends(self, table: Table, here: str, there: str, how: str) -> Ends:
        kinds = table.setdefault(here, {})
        if (there, how) not in kinds:
            kinds[there, how] = Ends(there, how, self.lines[here], self.lines[there])
        return kinds[there, how]

    def _choose(self) -> None:
        """Choose the links for each walk.

        `origins` and `results` take only links between the lines themselves, not between wholes. On the way down, `from_wholes`
        takes wholes first: launch, kernel, scheduler node, then the nodes in it. On the way up, `to_wholes` takes wholes last:
        node, its scheduler node, its kernel, its launch.
        """
        down, up = (_steps(table, lambda how: True) for table in (self.down, self.up))
        self.origins, self.results = (Ways(steps, steps, steps) for steps in (_steps(self.down, _close), _steps(self.up, _close)))
        self.from_wholes = Ways(down, down, _steps(self.down, lambda how: how not in WHOLES))
        self.to_wholes = Ways(up, _steps(self.up, lambda how: how in WHOLES), up)


def _close(how: str) -> bool:
    return how not in WHOLES and how != CALLED_FROM


def _steps(table: Table, takes: Callable[[str], bool]) -> Steps:
    """Return the links of the kinds that a walk takes, without artifacts that have none."""
    steps = {here: tuple(ends for (_, how), ends in kinds.items() if takes(how)) for here, kinds in table.items()}
    return {here: ends for here, ends in steps.items() if ends}


@once
def index(trace: TraceData) -> Index:
    """Index the links of a trace by place, once."""
    return Index(trace.links)


class _Groups:
    """The links of a trace in groups that share no artifact, and the index of each group that was asked for.

    A program of a thousand compiles has a thousand such groups: a line leads to nothing that another compile made.
    """

    def __init__(self, links: Iterable[Link]) -> None:
        links = tuple(links)
        groups = joined(dict.fromkeys((link.source, link.target) for link in links))
        self._group_of = {artifact: number for number, group in enumerate(groups) for artifact in group}
        self._links: dict[int | None, list[Link]] = {}
        for link in links:
            self._links.setdefault(self._group_of[link.source], []).append(link)
        self._indexes: dict[int | None, Index] = {}

    def index(self, artifact: str) -> Index:
        """The index of the group that has an artifact; of one without links an empty one."""
        group = self._group_of.get(artifact)
        if group not in self._indexes:
            self._indexes[group] = Index(self._links.get(group, ()))
        return self._indexes[group]


@once
def _groups(trace: TraceData) -> _Groups:
    return _Groups(trace.links)


def index_around(trace: TraceData, artifact: str) -> Index:
    """Index the links of an artifact and of all that they lead to, directly or by others; the whole where that is there."""
    return index(trace) if index.answered(trace) else _groups(trace).index(artifact)
