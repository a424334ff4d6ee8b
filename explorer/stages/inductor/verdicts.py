"""The scheduler's verdicts on one graph, read from their compact form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from explorer.model.records import FieldError, Record, record
from explorer.model.shared import Lookup, Names, OperatorCall, Setting
from explorer.model.values import Call
from explorer.model.wording import readable_bytes
from explorer.stages.inductor.reasons import MadeBuffer, Rule, asked_by, sentence, why_made, words


@record
class Group(Record):
    """Two fused nodes, by number, and in which round, counted from 0; -1 for nodes that were grouped from the start."""

    kind: str
    of: tuple[int, ...]
    round: int


@record
class Round(Record):
    """One round of fusion: how many nodes there were before and after it, and whether the scheduler reordered loops in it."""

    before: int
    after: int
    reorder: bool


class VerdictRow(NamedTuple):
    """What the scheduler answered for a node and several partners: "possible", "fused" or "refused".

    Nodes are numbers, `partners` ranges of them such as "3-66,70". `rule` and `arguments` are places in `rules` and `args`.
    `shared_bytes` is what both access, None where the scheduler did not ask; `rounds` has a bit for each round, the lowest
    for the first.
    """

    first: int
    verdict: str
    rule: int
    arguments: int
    shared_bytes: int | None
    rounds: int
    partners: str


@record
class FinalNode(Record):
    """A node that is left after fusion: a kernel, a part of one, or a call.

    `number` is its number in the verdicts, `ir` the class of its IR node, `call` what the wrapper calls. `read` and
    `written` are bytes of memory, `unsized` names what has no known size. Of its elementwise operations, by dtype,
    `elementwise` are those where a reduction loops over a row, `one_block` those where a block holds the row; `rows` is the
    number of rows that a reduction reduces, `run` the shortest run of adjacent elements it reads, `reread` the bytes that a
    later pass over the rows reads again, `strided` tells that a row's elements lie apart. `template`, `prologue`
    and `epilogue` are nodes by number; `combo` says that a foreach node is a combo kernel.
    """

    number: int
    kind: str
    read: int
    written: int
    ir: str | None = None
    call: str | None = None
    combo: bool | None = None
    template: int | None = None
    prologue: tuple[int, ...] | None = None
    epilogue: tuple[int, ...] | None = None
    unsized: Names | None = None
    calls: tuple[OperatorCall, ...] | None = None
    elementwise: Mapping[str, int] | None = None
    one_block: Mapping[str, int] | None = None
    rows: int | None = None
    run: int | None = None
    lookups: tuple[Lookup, ...] | None = None
    reread: int | None = None
    strided: bool | None = None


#: The scheduler's reason against a pair where a node must run between one of the pair and a node fused with it.
CYCLE = "will create cycle"
#: Numbers as (first, last) of those that follow each other.
Spans = tuple[tuple[int, int], ...]


def spans(text: str) -> Spans:
    """((3, 5), (7, 7)) for "3-5,7"; FieldError for another text."""
    pairs = (part.partition("-") for part in text.split(","))
    return tuple((whole(first), whole(last if dash else first)) for first, dash, last in pairs)


def whole(text: str) -> int:
    """The whole number of a text; FieldError for any other name, and for more digits than a node's number has."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FieldError(f"the number of a node expected, not {text[:20]!r}")
    return int(text)


def _check_places(numbers: Iterable[int], count: int, field: str) -> None:
    """FieldError for a number that is no place among `count`."""
    for number in numbers:
        if not 0 <= number < count:
            raise FieldError(f"a number from 0 to {count - 1} expected, not {str(number)[:20]}", field)


@record
class Fusion(Record):
    """The pairs that the scheduler considered in one graph, its fusions and refusals: see `capture/observe/scheduler_log.py`.

    Scheduler nodes are numbers: places in `names`, and after these in `groups`. `scores` has round, both nodes and the parts
    named in `score_parts`; `kernels` each kernel's name and nodes; `paths` calls in Inductor, innermost first. `about` has the
    nodes that a line of the text is about, which the stage adds.
    """

    of: str
    names: Names
    groups: tuple[Group, ...]
    rounds: tuple[Round, ...]
    rules: tuple[Rule, ...]
    args: tuple[Names, ...]
    pairs: tuple[VerdictRow, ...]
    score_parts: Names
    scores: tuple[tuple[Setting, ...], ...]
    kernels: tuple[tuple[str, tuple[int, ...]], ...]
    final: tuple[FinalNode, ...]
    settings: Mapping[str, Setting]
    made: tuple[MadeBuffer, ...]
    paths: tuple[tuple[Call, ...], ...]
    about: tuple[tuple[int, tuple[int, ...]], ...] | None = None

    def _check(self) -> None:
        """Hold each number of a node, and each place in a table of the record, to what there is."""
        nodes = len(self.names) + len(self.groups)
        for number, group in enumerate(self.groups, len(self.names)):
            _check_places(group.of, number, "groups")
        for row in self.pairs:
            _check_places((row.first,), nodes, "pairs")
            _check_places((row.rule,), len(self.rules), "pairs")
            _check_places((row.arguments,), len(self.args), "pairs")
            _check_places((row.rounds.bit_length(),), len(self.rounds) + 1, "pairs")
            for low, high in spans(row.partners):
                _check_places((low, high), nodes, "pairs")
            if self.rules[row.rule].said == CYCLE and self.args[row.arguments]:
                _check_places((whole(text) for text in self.args[row.arguments][0].split()), nodes, "args")
        for _, members in (*self.kernels, *(self.about or ())):
            _check_places(members, nodes, "kernels")
        for final in self.final:
            template = () if final.template is None else (final.template,)
            _check_places((final.number, *template, *(final.prologue or ()), *(final.epilogue or ())), nodes, "final")
        _check_places((row.path for row in self.made), len(self.paths), "made")
        if any(len(row) < 3 for row in self.scores):
            raise FieldError("a round and two nodes expected", "scores")


#: A group of more nodes is named by its first and last in a sentence.
MAX_NAMED = 6


@dataclass(frozen=True)
class Verdict:
    """What the scheduler decided of two nodes, by their numbers: "fused", "refused", or "possible" (not done that round)."""

    first: int
    second: int
    verdict: str
    rule: Rule
    args: Names
    shared: int | None
    rounds: tuple[int, ...]


def saving(shared: int | None) -> str:
    """Say what one kernel saves for two nodes that share some bytes; "" for none."""
    return f"they share {readable_bytes(shared)}, which one kernel moves once instead of twice" if shared else ""


@dataclass(frozen=True)
class Verdicts:
    """All verdicts on one graph. Nodes are numbers; `members` says which of the scheduler's nodes each one is."""

    data: Fusion = field(repr=False)

    @property
    def names(self) -> Names:
        """The scheduler's nodes before fusion, in its order."""
        return self.data.names

    @cached_property
    def _members(self) -> list[tuple[int, ...]]:
        members: list[tuple[int, ...]] = [(number,) for number in range(len(self.names))]
        for group in self.data.groups:
            members.append(tuple(sorted(n for part in group.of for n in members[part])))
        return members

    def members(self, number: int) -> tuple[int, ...]:
        """The numbers of the single nodes in a node."""
        return self._members[number]

    def names_in(self, number: int) -> tuple[str, ...]:
        """The names of the single nodes in a node."""
        return tuple(self.names[n] for n in self.members(number))

    def name(self, number: int) -> str:
        """A node's name for people: the scheduler's, long ones by their first and last."""
        names = self.names_in(number)
        if len(names) > MAX_NAMED:
            return f"{names[0]}_…_{names[-1]} ({len(names)} nodes)"
        return "_".join(names)

    @cached_property
    def containing(self) -> dict[int, list[int]]:
        """For each single node the nodes that it was part of, in the order of their fusion, itself first."""
        groups_by_node: dict[int, list[int]] = {n: [n] for n in range(len(self.names))}
        for number in range(len(self.names), len(self._members)):
            for member in self._members[number]:
                groups_by_node[member].append(number)
        return groups_by_node

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings that the verdicts depend on."""
        return self.data.settings

    @cached_property
    def _recorded(self) -> list[tuple[Verdict, Spans]]:
        """Each row as recorded: the verdict on its first partner, and the spans of its partners' numbers."""
        recorded = []
        for row in self.data.pairs:
            rounds = tuple(n for n in range(row.rounds.bit_length()) if row.rounds >> n & 1)
            partners = spans(row.partners)
            rule, args = self.data.rules[row.rule], self.data.args[row.arguments]
            recorded.append((Verdict(row.first, partners[0][0], row.verdict, rule, args, row.shared_bytes, rounds), partners))
        return recorded

    @cached_property
    def _by_first(self) -> dict[int, list[tuple[Verdict, Spans]]]:
        by_first: dict[int, list[tuple[Verdict, Spans]]] = {}
        for verdict, partners in self._recorded:
            by_first.setdefault(verdict.first, []).append((verdict, partners))
        return by_first

    def rows(self) -> Iterator[tuple[Verdict, tuple[int, ...]]]:
        """Each recorded row: the verdict on a node's first partner, and all partners that it holds for."""
        for verdict, partners in self._recorded:
            yield verdict, tuple(n for low, high in partners for n in range(low, high + 1))

    def each(self) -> Iterator[Verdict]:
        """Each verdict on each pair of nodes."""
        for verdict, others in self.rows():
            yield from (replace(verdict, second=second) for second in others)

    def about(self, first: int, second: int) -> list[Verdict]:
        """Every verdict on two nodes in this order of them."""
        rows = self._by_first.get(first, ())
        return [replace(v, second=second) for v, partners in rows if any(low <= second <= high for low, high in partners)]

    @cached_property
    def scores(self) -> dict[tuple[int, int], dict[str, Setting]]:
        """The score of each pair that the scheduler ranked, by its parts."""
        parts = self.data.score_parts or ("score",)
        return {
            (int(first or 0), int(second or 0)): dict(zip(parts, values, strict=False))
            for _, first, second, *values in self.data.scores
        }

    def sentence(self, verdict: Verdict) -> str:
        """A verdict as one plain sentence."""
        a, b = self.name(verdict.first), self.name(verdict.second)
        if verdict.verdict == "fused":
            saved = saving(verdict.shared)
            return f"{a} and {b} are fused{f': {saved}' if saved else ''}."
        if verdict.verdict == "possible":
            one, other = self.members(verdict.first), self.members(verdict.second)
            numbers = (final.number for final in self.data.final)
            group = next((number for number in numbers if {*one, *other} <= {*self.members(number)}), None)
            if group is not None:
                kernels = self.kernels(self.members(group))
                which = "one kernel" if len(kernels) < 2 else f"one group, for which {len(kernels)} kernels were written"
                return f"{a} and {b} are {which}: {', '.join(kernels) or self.name(group)}."
            kernel, is_one_launch = self.shared_kernels(one, other)
            loops = f"; Inductor wrote their loops into one kernel, {kernel}" if is_one_launch else ""
            return f"{a} and {b} may be fused, but were not in this round{loops}."
        why = sentence(verdict.rule, verdict.args, a=a, b=b, shared=verdict.shared or 0, **self.settings)
        if verdict.rule.said == CYCLE and verdict.args and verdict.args[0]:
            through = ", ".join(self.name(int(n)) for n in verdict.args[0].split())
            return f"{why} It is {through}."
        return why

    def words(self, verdict: Verdict) -> str:
        """The rule that refused in the scheduler's own words; "" for what was not refused."""
        if verdict.verdict != "refused":
            return ""
        return CYCLE if verdict.rule.said == CYCLE else words(verdict.rule, verdict.args)

    def earlier(self, verdict: Verdict) -> tuple[int, ...]:
        """Return the earlier fusions that made this one impossible: the ones in between, or the ones that took the two nodes."""
        if verdict.rule.said == CYCLE and verdict.args:
            return tuple(int(n) for n in verdict.args[0].split())
        return tuple(n for n in (verdict.first, verdict.second) if n >= len(self.names))

    def kernels(self, members: Sequence[int]) -> tuple[str, ...]:
        """The generated kernels that compute any of these nodes."""
        wanted = set(members)
        return tuple(dict.fromkeys(name for name, of in self.data.kernels if wanted & set(of)))

    def shared_kernels(self, one: Sequence[int], other: Sequence[int]) -> tuple[str, bool]:
        """Name the kernels that compute nodes of both, "" for none, and tell whether a single launch does.

        `kernels` of the record has an entry per launch: Inductor writes equal code once, and calls it again by the same name.
        """
        launches = [name for name, of in self.data.kernels if set(one) & set(of) and set(other) & set(of)]
        names = launches or set(self.kernels(one)) & set(self.kernels(other))
        return ", ".join(sorted(set(names))), bool(launches)

    def made(self) -> Iterator[dict[str, str]]:
        """List the buffers that lowering put in memory: name, FX node under way, and why."""
        for row in self.data.made:
            path = self.data.paths[row.path]
            file, line, function = asked_by(path)
            why = why_made(row, path, self.settings)
            yield {"buffer": row.buffer, "lowering": row.lowering, "why": why, "where": f"{file}:{line} {function}"}
