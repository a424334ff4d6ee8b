"""Find the lowering, the pass or the decomposition that makes a result wrong: trace again with fewer of them, by halves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from explorer.analysis.questions.tables import table
from explorer.capture.observe.switches import applied_at_most
from explorer.errors import CompileError, InterpretError
from explorer.model.trace_data import TraceData
from explorer.process.under_way import step

#: More applications than any program has.
ALL = 10**9
#: The most names that are left out one by one.
MAX_NAMES = 40
#: The most compiles of one search that may fail: each is a place at which nothing can be told.
MAX_FAILED = 12
#: How torch writes an operator: "<OpOverload(op='aten.gelu', overload='default')>".
_OPERATOR = re.compile(r"<OpOverload\(op='([^']*)', overload='([^']*)'\)>")
#: What each of torch's switches switches, in words.
WORDS = {
    "pre_grad_passes": "pass on the graph before autograd",
    "decomposition": "decomposition",
    "joint_graph_passes": "pass on the joint graph",
    "post_grad_passes": "pass on the graph after autograd",
    "lowerings": "lowering",
    "patterns": "pattern",
}


@dataclass(frozen=True)
class Cause:
    """The cause of a wrong result: with it the result is wrong, and without it right.

    `kind` is torch's name of the switch that turned it off ("lowerings", "post_grad_passes", "decomposition"), or "patterns".
    `name` is the FX node, pass, operator or pattern, and `number` is its number among all applications, from 1. The search
    took `tried` compiles; `untold` of them failed or gave no result to judge. If compiles with only some applications could
    not be judged, the cause is one of `candidates`, and `name` is the last of them. An empty `kind` says that none of these is
    the cause, and `note` says what follows.
    """

    kind: str
    name: str = ""
    number: int = 0
    tried: int = 0
    note: str = ""
    candidates: tuple[str, ...] = ()
    untold: int = 0

    def __str__(self) -> str:
        """Say it in a sentence."""
        if not self.kind:
            return self.note
        note = f"; {self.note}" if self.note else ""
        if self.candidates:
            names = ", ".join(dict.fromkeys(self.candidates))
            why = "without all of them the result is correct; some of the compiles in between could not be judged"
            return f"one of the {len(self.candidates)} {WORDS[self.kind]} applications {names} causes the fault: {why}{note}"
        which = f"the {WORDS[self.kind]} {self.name}"
        if self.kind == "lowerings":  # without it the operator is called as in eager, and no code is generated for it
            which = f"the lowering of {self.name}, or the code that is generated from it,"
        return f"{which} causes the fault: without it the result is correct{note}"


#: Trace again inside the block of a switch, and tell whether the result is right; None where that cannot be told.
Attempt = Callable[[], bool | None]


def cause_among(switches: Sequence[str], attempt: Attempt, among: Collection[str] | None = None) -> Cause:
    """Search the switches in order for the first application that makes the result wrong."""
    search = _Search(attempt, among)
    for switch in switches:
        if (cause := search.of(switch)) is not None:
            return cause
    note = f"none of {', '.join(WORDS[s] for s in switches)} alone causes the fault"
    if search.untold:
        note = f"{note}, as far as can be told: {search.untold} of {search.tried} compiles could not be judged"
    return Cause("", tried=search.tried, note=note, untold=search.untold)


class _Search:
    """A search by halves. It counts its compiles, and those whose result could not be judged."""

    def __init__(self, attempt: Attempt, among: Collection[str] | None) -> None:
        self._attempt, self._among, self.tried, self.untold = attempt, among, 0, 0

    def of(self, switch: str) -> Cause | None:
        """The application of a switch that makes the result wrong; None where it is wrong without any of them."""
        without, _ = self._right(switch, 0)
        if without is False:
            return None
        wrong, names = self._right(switch, ALL)
        if wrong is not False or not names:
            return None
        if without is None:  # such as without all decompositions: Inductor has no lowering of some operators
            return self._one_by_one(switch, names)
        low, high = self._narrowed(switch, len(names))
        several = tuple(map(_operator, names[low:high])) if high - low > 1 else ()
        return Cause(switch, _operator(names[high - 1]), high, self.tried, candidates=several)

    def _narrowed(self, switch: str, count: int) -> tuple[int, int]:
        """How many applications still give the right result, and how few the wrong one: neighbours, where all could be judged.

        It is right with none of `count` and wrong with all. Where a compile fails its neighbours are asked instead.
        """
        low, high, failed = 0, count, set[int]()
        while len(failed) < MAX_FAILED and (left := [n for n in range(low + 1, high) if n not in failed]):
            middle = min(left, key=lambda n: abs(n - (low + high) // 2))
            right, _ = self._right(switch, middle)
            if right is None:
                failed.add(middle)
            else:
                low, high = (middle, high) if right else (low, middle)
        return low, high

    def _one_by_one(self, switch: str, names: Sequence[str]) -> Cause | None:
        """Leave out all applications of one name at a time."""
        for name in list(dict.fromkeys(names))[:MAX_NAMES]:
            if self._right(switch, 0, (name,))[0] is True:
                return Cause(switch, _operator(name), names.index(name) + 1, self.tried)
        return None

    def _right(self, switch: str, most: int, among: Collection[str] | None = None) -> tuple[bool | None, list[str]]:
        """Whether the result is right with this many applications, and the names of all there were."""
        self.tried += 1
        step(f"compiling with {'all' if most == ALL else most} of {switch}")
        with applied_at_most(switch, most, among or self._among) as applied:
            try:
                right = self._attempt()
            except (CompileError, InterpretError):
                right = None
        self.untold += right is None
        return right, applied


def _operator(name: str) -> str:
    """An operator as "aten.gelu.default"; another name as it is."""
    match = _OPERATOR.match(name)
    return f"{match[1]}.{match[2]}" if match else name


def pattern_among(trace: TraceData, attempt: Callable[[str], bool | None]) -> Cause | None:
    """Find the matched pattern without which the result is right; None if there is none."""
    names = dict.fromkeys(str(row["pattern"]) for row in table(trace, "pattern_match"))
    for tried, name in enumerate(names, 1):
        step(f"compiling without {name}")
        try:
            if attempt(name) is True:
                return Cause("patterns", name, tried, tried)
        except (CompileError, InterpretError):
            continue
    return None


__all__ = ["Cause", "cause_among", "pattern_among"]
