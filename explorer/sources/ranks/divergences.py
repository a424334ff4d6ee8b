"""Where ranks compute something else: the first difference of each part of each compile, against most ranks. Pure.

Numbers that follow the rank, n × rank on every rank, such as where a rank's part of an embedding begins, are no divergence:
`by_rank` lists them. Of two ranks, whose numbers always fit some n where the first is 0, n has to be the length of a dimension.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypedDict

from explorer.model.values import Plain
from explorer.sources.ranks.parts import Compile, Item, Part, Place, RankParts

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
Ranks = tuple[int, ...]
PlaceOf = Callable[[int, Item], Place]


class DivergenceRow(TypedDict):
    """A divergence: `ranks` compute something differently than `others`, the larger group, or the one with the lowest rank.

    `kind` is "function", "number of compiles", "failed compile", "graph", "guards", "kernels", "collective order", "collective
    size", "number of collectives" or "order of graphs"; `frame` names the compile, `stage` and `graph` the text. For collectives,
    `graph` is their process group. `here` is what `ranks` have and `there` what `others` have, "" for nothing. `file`, `line` and
    `code` are the user's.
    """

    kind: str
    frame: str
    stage: str
    graph: str
    ranks: Ranks
    here: str
    others: Ranks
    there: str
    file: str
    line: int
    code: str


class MissingRow(TypedDict):
    """A part of a rank that was not compared, because its trace lacks it and the traces of `others` have it.

    `stage` is "" for a rank that has no graph at all, also where none of the others has one.
    """

    rank: int
    frame: str
    stage: str
    graph: str
    others: Ranks


@dataclass(frozen=True)
class Compared:
    """Ranks compared: groups of equal ones, the largest first, where they differ, what was missing, what follows the rank."""

    groups: tuple[Ranks, ...]
    divergences: tuple[DivergenceRow, ...]
    missing: tuple[MissingRow, ...]
    by_rank: tuple[Mapping[str, Plain], ...]


def compared(parts: Mapping[int, RankParts], place_of: PlaceOf) -> Compared:
    """Compare what ranks compute; `place_of` gives the place of a rank's item, and is asked only for those that differ."""
    compiles = {rank: own.compiles for rank, own in parts.items()}
    compiled = {rank: any(map(_says_something, own)) for rank, own in compiles.items()}
    walk = _Walk(compiles, place_of, [], [], [])
    if compiles:
        walk.compare(tuple(rank for rank, own in compiles.items() if own))
    rows, missing = walk.rows, walk.missing
    rows += _stopped({rank: own.stopped for rank, own in parts.items()})
    rows += _of_collectives({rank: own for rank, own in parts.items() if own.compiles})
    missing += [
        {"rank": rank, "frame": "", "stage": "", "graph": "", "others": tuple(r for r in compiles if compiled[r])}
        for rank in compiles
        if not compiled[rank]
    ]
    return Compared(
        _groups([rank for rank in compiles if compiled[rank]], rows, missing), tuple(rows), tuple(missing), tuple(walk.by_rank)
    )


def _says_something(compile: Compile) -> bool:
    """Whether there is more of a compile than guards, which a function that Dynamo leaves to Python has too."""
    readable = any(not part.unread for part in compile.parts)
    return bool(compile.failed) or (readable and any(part.kind != "guards" for part in compile.parts))


@dataclass(frozen=True)
class _Walk:
    """The compiles of all ranks, gone through in order, and what was found so far."""

    compiles: Mapping[int, Sequence[Compile]]
    place_of: PlaceOf
    rows: list[DivergenceRow]
    missing: list[MissingRow]
    by_rank: list[Mapping[str, Plain]]

    def compare(self, ranks: Ranks) -> None:
        """Compare ranks compile by compile; those that compile another function are then compared among themselves."""
        waiting = deque([(ranks, 0)])
        while waiting:
            alike, number = waiting.popleft()
            waiting.extend((same, number + 1) for same in self._at(alike, number))

    def _at(self, ranks: Ranks, number: int) -> Iterator[Ranks]:
        """Compare one compile of some ranks, and give those that go on together."""
        having = {rank: self.compiles[rank][number] for rank in ranks if len(self.compiles[rank]) > number}
        lacking = tuple(rank for rank in ranks if rank not in having)
        if not having:
            return
        if lacking:
            self.rows.append(_fewer(having, lacking))
        self.rows.extend(_functions(having, _majority({rank: compile.function for rank, compile in having.items()})))
        for function in dict.fromkeys(compile.function for compile in having.values()):
            alike = {rank: compile for rank, compile in having.items() if compile.function == function}
            self.rows.extend(_failed(alike))
            self.rows.extend(_of_parts(alike, self.place_of, self.missing, self.by_rank))
            yield tuple(alike)


def _groups(ranks: Sequence[int], rows: Sequence[DivergenceRow], missing: Sequence[MissingRow]) -> tuple[Ranks, ...]:
    """The ranks that no divergence and nothing that is missing tells apart; a rank that compiled nothing is in none."""
    told: dict[int, list[tuple[object, ...]]] = {rank: [] for rank in ranks}
    for number, row in enumerate(rows):
        for rank in row["ranks"]:
            if rank in told:
                told[rank].append((number,))
    for lack in missing:
        if lack["rank"] in told:
            told[lack["rank"]].append((lack["frame"], lack["stage"], lack["graph"]))
    groups: dict[tuple[tuple[object, ...], ...], list[int]] = {}
    for rank, differences in told.items():
        groups.setdefault(tuple(differences), []).append(rank)
    return tuple(sorted((tuple(group) for group in groups.values()), key=lambda group: (-len(group), group)))


def _majority(keys: Mapping[int, object]) -> Ranks:
    """Return the ranks with the most common key; among equally common keys, the one of the lowest rank."""
    if not keys:
        return ()
    counts = Counter(keys.values())
    most = max(keys, key=lambda rank: (counts[keys[rank]], -rank))
    return tuple(rank for rank in keys if keys[rank] == keys[most])


def _row(
    kind: str, compile: str, part: tuple[str, str], ranks: Ranks, here: Item | None, others: Ranks, there: Item | None
) -> DivergenceRow:
    place = next((item.place for item in (here, there) if item is not None and item.place.file), Place())
    return {
        "kind": kind,
        "frame": compile,
        "stage": part[0],
        "graph": part[1],
        "ranks": ranks,
        "here": here.label if here else "",
        "others": others,
        "there": there.label if there else "",
        "file": place.file,
        "line": place.line,
        "code": place.code,
    }


# Compiles ----------------------------------------------------------------------------------------------------------------


def _fewer(having: Mapping[int, Compile], lacking: Ranks) -> DivergenceRow:
    """Some ranks compiled less often than others."""
    one = next(iter(having.values()))
    item = Item("", f"{one.function or 'a function'} compiled as {one.frame}", one.place)
    return _row("number of compiles", one.frame, ("", ""), lacking, None, tuple(having), item)


def _functions(having: Mapping[int, Compile], first: Ranks) -> Iterator[DivergenceRow]:
    """The ranks that compiled another function at the same turn."""
    reference = having[first[0]]
    for function in dict.fromkeys(compile.function for compile in having.values()):
        ranks = tuple(rank for rank, compile in having.items() if compile.function == function)
        if ranks[0] not in first:
            own = having[ranks[0]]
            here, there = (Item("", c.function, c.place) for c in (own, reference))
            yield _row("function", own.frame, ("source", ""), ranks, here, first, there)


def _failed(alike: Mapping[int, Compile]) -> Iterator[DivergenceRow]:
    """Yield a row for the ranks on which a compile failed differently than on most."""
    most = _majority({rank: compile.failed for rank, compile in alike.items()})
    for why in dict.fromkeys(compile.failed for compile in alike.values()):
        ranks = tuple(rank for rank, compile in alike.items() if compile.failed == why)
        if ranks[0] not in most:
            own, reference = alike[ranks[0]], alike[most[0]]
            here, there = (Item("", c.failed or "compiled", c.failed_at if c.failed else Place()) for c in (own, reference))
            yield _row("failed compile", own.frame, ("", ""), ranks, here, most, there)


def _stopped(failed: Mapping[int, str]) -> Iterator[DivergenceRow]:
    """Yield a row for the ranks whose compiles an error stopped differently than on most."""
    most = _majority(failed)
    for why in dict.fromkeys(failed.values()):
        ranks = tuple(rank for rank in failed if failed[rank] == why)
        if ranks[0] not in most:
            here, there = (Item("", text or "compiled") for text in (why, failed[most[0]]))
            yield _row("failed compile", "", ("", ""), ranks, here, most, there)


# Parts -------------------------------------------------------------------------------------------------------------------


def _of_parts(
    alike: Mapping[int, Compile], place_of: PlaceOf, missing: list[MissingRow], by_rank: list[Mapping[str, Plain]]
) -> Iterator[DivergenceRow]:
    """The first difference of each part of one compile; what some ranks lack is added to `missing`."""
    parts = {rank: {(part.stage, part.graph): part for part in compile.parts} for rank, compile in alike.items()}
    lengths = frozenset[int].intersection(*(_lengths(compile) for compile in alike.values()))
    for key in dict.fromkeys(key for own in parts.values() for key in own):
        having = {rank: own[key] for rank, own in parts.items() if key in own and not own[key].unread}
        frame = next(iter(alike.values())).frame
        for rank in alike:
            if rank not in having:
                missing.append({"rank": rank, "frame": frame, "stage": key[0], "graph": key[1], "others": tuple(having)})
        neutral, found = without_rank_numbers({rank: part.items for rank, part in having.items()}, place_of, lengths)
        by_rank += [{"frame": frame, "stage": key[0], "graph": key[1], **row} for row in found]
        yield from _of_part(having, neutral, frame, place_of)


def _lengths(compile: Compile) -> frozenset[int]:
    return frozenset[int]().union(*(part.lengths for part in compile.parts))


def _of_part(
    having: Mapping[int, Part], keys: Mapping[int, tuple[object, ...]], frame: str, place_of: PlaceOf
) -> Iterator[DivergenceRow]:
    """A row for each group of ranks that has another part than most."""
    most = _majority(keys)
    for own_keys in dict.fromkeys(keys.values()):
        ranks = tuple(rank for rank in keys if keys[rank] == own_keys)
        if ranks[0] in most:
            continue
        part, reference = having[ranks[0]], having[most[0]]
        here, there = _first_difference(part, own_keys, reference, keys[most[0]])
        here = here and replace(here, place=place_of(ranks[0], here))
        if there and not (here and here.place.file):
            there = replace(there, place=place_of(most[0], there))
        yield _row(part.kind, frame, (part.stage, part.graph), ranks, here, most, there)


def _first_difference(
    part: Part, keys: Sequence[object], reference: Part, other_keys: Sequence[object]
) -> tuple[Item | None, Item | None]:
    """The first items that differ; guards, whose order says nothing, by those that only one side has."""
    if part.kind == "guards":
        here = next((item for item, key in zip(part.items, keys, strict=True) if key not in other_keys), None)
        there = next((item for item, key in zip(reference.items, other_keys, strict=True) if key not in keys), None)
        return here, there
    pairs = zip_longest(keys, other_keys)
    at = next(number for number, (one, other) in enumerate(pairs) if one != other)
    return _at(part.items, at), _at(reference.items, at)


def _at(items: Sequence[Item], number: int) -> Item | None:
    return items[number] if number < len(items) else None


def without_rank_numbers(
    items: Mapping[int, Sequence[Item]],
    place_of: PlaceOf,
    lengths: Set[int] = frozenset(),
) -> tuple[dict[int, tuple[object, ...]], list[Mapping[str, Plain]]]:
    """The keys of each rank's items, with numbers that are n × rank on every rank replaced, and what was replaced.

    Sizes are never replaced: a rank that is given another shape computes something else. For fewer than three ranks, n must be
    one of `lengths`, the lengths of dimensions that all ranks have, and not 1: any two numbers, the first of them 0, are n × rank
    for some n.
    """
    keys: dict[int, list[object]] = {rank: [(item.key, item.size) for item in own] for rank, own in items.items()}
    replaced: list[Mapping[str, Plain]] = []
    if len({len(own) for own in keys.values()}) != 1 or len({tuple(own) for own in keys.values()}) == 1:
        return {rank: tuple(own) for rank, own in keys.items()}, replaced
    columns = [{rank: own[number] for rank, own in items.items()} for number in range(len(next(iter(keys.values()))))]
    texts = [{rank: item.key for rank, item in here.items()} for here in columns]
    steps = {step for column in texts for step in _steps(column)}
    if len(items) < 3:
        steps &= lengths - {1}
    for number, here in enumerate(columns):
        common = _common_key(texts[number], steps)
        if common is not None and len({item.size for item in here.values()}) == 1:
            place = place_of(*next(iter(here.items())))
            labels = {str(rank): item.label for rank, item in here.items()}
            replaced.append({"here": labels, "file": place.file, "line": place.line, "code": place.code})
            for own in keys.values():
                own[number] = common
    return {rank: tuple(own) for rank, own in keys.items()}, replaced


def _common_key(keys: Mapping[int, str], steps: Set[int]) -> str | None:
    """Return the key that ranks have in common once numbers that follow the rank are replaced; None if there is none, or no need.

    Such a number is n × rank, or n × (rank + 1), the end of a rank's part, for one of the `steps` n by which parts begin.
    """
    if len(set(keys.values())) == 1 or not (rows := _numbers(keys)):
        return None
    after = tuple(rank + 1 for rank in keys)
    for row in rows:
        if len(set(row)) > 1 and not {_step(tuple(keys), row), _step(after, row)} & steps:
            return None
    return _NUMBER.sub("#", next(iter(keys.values())))


def _steps(keys: Mapping[int, str]) -> Iterator[int]:
    """The n for which some number in a key is n × rank on every rank."""
    for row in _numbers(keys):
        if len(set(row)) > 1 and (step := _step(tuple(keys), row)) is not None:
            yield step


def _numbers(keys: Mapping[int, str]) -> list[tuple[int, ...]]:
    """Each number of keys that are alike but for their numbers, as the ranks have it; [] for others."""
    if len({_NUMBER.sub("#", key) for key in keys.values()}) != 1 or len(keys) < 2:
        return []
    return list(zip(*([int(number) for number in _NUMBER.findall(key)] for key in keys.values()), strict=True))


def _step(ranks: Sequence[int], numbers: Sequence[int]) -> int | None:
    """The n for which every number is n × its rank; None where there is none."""
    steps = {number // rank for rank, number in zip(ranks, numbers, strict=True) if rank}
    step = steps.pop() if len(steps) == 1 else None
    fits = step is not None and all(number == step * rank for rank, number in zip(ranks, numbers, strict=True))
    return step if fits else None


# Collectives -------------------------------------------------------------------------------------------------------------


def _of_collectives(parts: Mapping[int, RankParts]) -> Iterator[DivergenceRow]:
    """Where members of a process group do not issue the same collectives in the same order.

    Of a group whose ranks were not recorded, as in a log, those are members that name it.
    """
    yield from _of_groups({rank: own.collectives for rank, own in parts.items()}, "collectives")
    yield from _of_groups({rank: own.sent for rank, own in parts.items()}, "eager_collective")
    executed = {rank: own.executed for rank, own in parts.items() if own.executed is not None}
    for row in _of_group(executed, "", "graph_execution"):
        yield {**row, "kind": "order of graphs"}
    schedules = {rank: own.schedule for rank, own in parts.items() if own.schedule is not None}
    yield from _of_group(schedules, "", "inductor_collective_schedule")


def _of_groups(parts: Mapping[int, Mapping[Ranks | str, Sequence[Item]]], stage: str) -> Iterator[DivergenceRow]:
    for group in dict.fromkeys(group for own in parts.values() for group in own):
        named = isinstance(group, str)
        members = {rank: own.get(group, ()) for rank, own in parts.items() if named or rank in group}
        own_group = {rank: items for rank, items in members.items() if items or not named}
        yield from _of_group(own_group, group if isinstance(group, str) else ", ".join(map(str, group)), stage)


def _of_group(members: Mapping[int, Sequence[Item]], group: str, stage: str) -> Iterator[DivergenceRow]:
    """Yield a row for each set of members whose collectives differ from most members'."""
    keys = {rank: tuple((item.key, item.size) for item in items) for rank, items in members.items()}
    most = _majority(keys)
    for own in dict.fromkeys(keys.values()):
        ranks = tuple(rank for rank in keys if keys[rank] == own)
        if ranks[0] in most:
            continue
        pairs = zip_longest(own, keys[most[0]])
        at = next(number for number, (one, other) in enumerate(pairs) if one != other)
        here, there = _at(members[ranks[0]], at), _at(members[most[0]], at)
        yield _row(_kind_of_collectives(here, there), "", (stage, group), ranks, here, most, there)


def _kind_of_collectives(here: Item | None, there: Item | None) -> str:
    """What the first difference between two sequences of collectives is called."""
    if here is None or there is None:
        return "number of collectives"
    return "collective order" if here.key != there.key else "collective size"
