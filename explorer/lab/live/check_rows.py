"""The rows of a check: compare what compiled code returns and changes with eager.

Each value is judged by what the same function gives in float64, and by how far rounding moves it: see `float64_reference.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from explorer.capture.observe.tensors import has_fractions, strided_parts
from explorer.lab.live.call import Call
from explorer.lab.live.draws import MIN_CALLS, compare_draws
from explorer.lab.live.float64_reference import AFTER, IMPOSSIBLE, Float64Reference, as_tensor, fits, value_of
from explorer.lab.live.judge import NEAR, Evidence, Judgement, beside, exactly, gaps, judged, near, zeros_of_other_sign
from explorer.lab.live.outcome import Outcome, Part
from explorer.model.values import Plain

#: How many ways to round are tried before a value is called unequal. A value that is right mostly needs the first few.
TRIALS = (3, 8, 18)
#: Calls of eager, and of compiled code, by which random values are judged.
DRAWS = 8

Redo = Callable[[int], Outcome]


@dataclass(frozen=True)
class CheckRow:
    """A row of a check: one output, gradient or changed tensor.

    `equal` is None where the values were not compared, or only their distribution.
    `error` and `eager_error` are the largest distances from float64. `bound` names the bound on the values, and `compared`
    lists the compared properties. `random` says that a different seed changes the value.
    """

    output: str
    equal: bool | None
    max_abs: float | None = None
    max_rel: float | None = None
    error: float | None = None
    eager_error: float | None = None
    bound: str = ""
    compared: str = ""
    note: str = ""
    random: bool = False

    def mapping(self) -> dict[str, Plain]:
        """The row as `Trace.check` gives it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


#: Why there is nothing to compare, for a function without results.
NOTHING = "the function returns nothing and changes nothing that explorer sees"
#: What was compared of a value that only one side gives.
PRESENCE = "whether it is there"
#: How the names of gradients begin, and why their strides are not compared. "Note: Gradient Layout Contract" of torch's
#: `accumulate_grad.h` is about `.grad` alone: autograd copies a gradient to its input's layout where an operator gave another.
GRADIENT, GRADIENT_STRIDES = "gradient of ", "autograd lays out .grad itself"
#: How the note of a value begins that another seed changes.
RANDOM = "random: depends on numbers that compiled code draws otherwise"
#: The note of a value that depends on what was in memory.
UNWRITTEN = "not compared: depends on memory that the function never wrote, such as that of torch.empty"
#: The most bytes of random values that are kept at once. For more, the calls are made again.
MAX_BYTES = 2**30


def nothing_compared(why: str) -> CheckRow:
    """The only row of a check that compared nothing."""
    return CheckRow("nothing", None, note=f"nothing was compared: {why}")


def compared(
    call: Call,
    expected: Outcome,
    given: Outcome,
    *,
    redo: tuple[Redo, Redo] | None = None,
    draws: int = DRAWS,
    strides: str = "",
    truth: Float64Reference | None = None,
) -> list[CheckRow]:
    """Compare two outcomes: one row for each output, gradient and changed tensor; one with `equal` None if there is nothing.

    `redo` has two functions that call eager, and the function compared with it, with a different seed. They tell which values
    depend on random numbers; these values are judged by `draws` calls of each. `strides` says why strides are not compared,
    "" if they are.
    """
    truth = truth or Float64Reference(call)
    pairs = {name: (one, other) for name, one, other in _pairs(expected, given)}
    rows = {name: _row(name, one, other, truth, strides) for name, (one, other) in pairs.items()}
    if redo is not None:
        random = _random_names({name: pairs[name] for name, row in rows.items() if _may_be_random(row)}, truth, redo[0])
        rows |= _random_rows({name: rows[name] for name in random}, expected, redo, draws)
    listed = list(rows.values())
    if not listed:
        return [nothing_compared(NOTHING)]
    if not (expected.whole and given.whole):
        first, *others = listed
        note = "; ".join(filter(None, [first.note, "the function holds state that explorer did not check for changes"]))
        return [replace(first, note=note), *others]
    return listed


def _pairs(expected: Outcome, given: Outcome) -> Iterator[tuple[str, Part | None, Part | None]]:
    """Yield the parts of both outcomes by name: all returned values except None, and state that either side changed."""
    for name in dict.fromkeys([*expected.returned, *given.returned]):
        one, other = expected.returned.get(name), given.returned.get(name)
        if any(part is not None and part.value is not None for part in (one, other)):
            yield name, one, other
    changed = expected.changed | given.changed
    for name in dict.fromkeys([*expected.state, *given.state]):
        if name in changed:
            yield f"{name}{AFTER}", expected.state.get(name), given.state.get(name)


def _row(name: str, one: Part | None, other: Part | None, truth: Float64Reference, strides: str) -> CheckRow:
    """Compare two parts: the row of a check."""
    import torch

    if one is None or other is None:
        side = "eager" if one is None else "compiled"
        return CheckRow(name, False, compared=PRESENCE, note=f"{side} does not give it")
    if any(part.why_not for part in (one, other)):
        return CheckRow(name, None, note=f"not compared: {one.why_not or other.why_not}")
    if name.startswith(GRADIENT) and (one.value is None) != (other.value is None):
        one, other = _no_gradient(one, other)
    values = one.value, other.value
    if all(isinstance(v, torch.Tensor) for v in values):
        return _tensors(name, one, other, truth, strides or (GRADIENT_STRIDES if name.startswith(GRADIENT) else ""))
    if any(isinstance(v, torch.Tensor) for v in values):
        kinds = [type(v).__name__ for v in values]
        return CheckRow(name, False, compared="type", note=f"eager gives a {kinds[0]}, compiled a {kinds[1]}")
    return _plain(name, one.value, other.value, truth)


def _no_gradient(one: Part, other: Part) -> tuple[Part, Part]:
    """Take an absent gradient for one of zeros: a leaf on which nothing depends may get either."""
    import torch

    if one.value is None:
        one = replace(other, value=torch.zeros_like(other.value))
    else:
        other = replace(one, value=torch.zeros_like(one.value))
    return one, other


def _plain(name: str, one: Any, other: Any, truth: Float64Reference) -> CheckRow:
    """Compare two values that are no tensors: numbers as tensors without dimensions, others by ==."""
    if type(one) is not type(other):
        return CheckRow(
            name, False, compared="type", note=f"eager gives a {type(one).__name__}, compiled a {type(other).__name__}"
        )
    tensors = [as_tensor(v) for v in (one, other)]
    if all(t is not None for t in tensors):
        return _with_parts(_values(name, tensors[0], tensors[1], truth), "value", "type")
    try:
        same = bool(one == other)
    except IMPOSSIBLE:
        same = False
    if not same and "__eq__" not in {n for c in type(one).__mro__[:-1] for n in vars(c)}:
        return CheckRow(name, None, note=f"not compared: explorer cannot tell two objects of class {type(one).__name__} apart")
    return CheckRow(name, same, compared="value, type", bound="exact", note="" if same else f"{one!r:.60} is not {other!r:.60}")


def _tensors(name: str, one: Part, other: Part, truth: Float64Reference, strides: str) -> CheckRow:
    """Compare two tensors: type, shape and layout, then values, strides, and the tensors that they share memory with."""
    a, b = one.value, other.value
    for what, mine, theirs in (
        ("type", a.dtype, b.dtype),
        ("shape", tuple(a.shape), tuple(b.shape)),
        ("layout", a.layout, b.layout),
    ):
        if mine != theirs:
            nan = float("nan")
            note = f"the {what} is {theirs}, of eager {mine}"
            return CheckRow(name, False, max_abs=nan, max_rel=nan, compared=what, note=note)
    parts = "type, shape, what it is a view of" + (f"; not strides: {strides}" if strides else ", strides")
    row = _with_parts(_values(name, a, b, truth), "values", parts)
    wrong = []
    if not strides and _steps(one) != _steps(other):
        wrong.append(f"the strides are {other.strides}, of eager {one.strides}")
    if set(one.shares) != set(other.shares):
        mine, theirs = (" and ".join(part.shares) or "nothing" for part in (one, other))
        wrong.append(f"it is a view of {theirs}, of eager of {mine}")
    return replace(row, equal=False, note="; ".join(filter(None, [*wrong, row.note]))) if wrong else row


def _with_parts(row: CheckRow, values: str, parts: str) -> CheckRow:
    """Return the row with its compared properties: the other parts, and the values if they could be compared."""
    return replace(row, compared=parts if row.equal is None else f"{values}, {parts}")


def _steps(part: Part) -> list[int]:
    """The strides of the dimensions of more than one element: the others have any stride."""
    if not part.value.numel():
        return []
    return [step for step, size in zip(part.strides, part.value.shape, strict=False) if size > 1]


def _values(name: str, one: Any, other: Any, truth: Float64Reference) -> CheckRow:
    """Compare the values of two tensors of one shape and type: a row with the judge's verdict."""
    import torch

    try:
        ones, others = strided_parts(one), strided_parts(other)
    except (RuntimeError, NotImplementedError) as error:
        return CheckRow(name, None, note=f"not compared: {type(error).__name__}: {error}")
    if any(a.shape != b.shape for a, b in zip(ones, others, strict=True)):
        return CheckRow(name, False, note="compiled stores a different number of elements than eager")
    alike = [_alike_at_once(a, b) for a, b in zip(ones, others, strict=True)]
    if not all(alike) and one.layout == torch.strided and truth.unwritten(name):
        return CheckRow(name, None, note=UNWRITTEN)
    verdicts = [
        Judgement(True, NEAR if has_fractions(a) else "exact") if same else _verdict(name, a, b, truth, is_whole=len(ones) == 1)
        for a, b, same in zip(ones, others, alike, strict=True)
    ]
    verdict = next((v for v in verdicts if not v.equal), max(verdicts, key=lambda v: v.share or 0.0))
    differences = [gaps(a, b) for a, b in zip(ones, others, strict=True)]
    # NaN is larger than any number here
    max_abs, max_rel = (max((pair[n] for pair in differences), key=lambda v: (v != v, v)) for n in (0, 1))
    return CheckRow(
        name,
        verdict.equal,
        max_abs=max_abs,
        max_rel=max_rel,
        error=verdict.error,
        eager_error=verdict.eager_error,
        bound=verdict.bound,
        note=_with_signs(verdict.note, zip(ones, others, strict=True)),
    )


def _with_signs(note: str, pairs: Iterable[tuple[Any, Any]]) -> str:
    """Add to a note how many zeros of the pairs differ in their signs."""
    signs = sum(zeros_of_other_sign(one, other) for one, other in pairs)
    return "; ".join(filter(None, [note, f"{signs} zeros have the other sign, which is not judged" if signs else ""]))


def _alike_at_once(one: Any, other: Any) -> bool:
    """Whether two tensors of one shape and type are so near that nothing has to be computed to judge them."""
    return near(one, other) if has_fractions(one) else bool((one == other).all())


def _verdict(name: str, one: Any, other: Any, truth: Float64Reference, *, is_whole: bool) -> Judgement:
    """Ask the judge about values that are not alike at once, with as many ways to round as it takes.

    `is_whole` is False for one of several stored parts of a sparse tensor: there is no evidence for these.
    """
    judge = judged if has_fractions(one) else exactly
    verdict = Judgement(False, "")
    for count in TRIALS:
        verdict = judge(one, other, truth.of(name, one, count) if is_whole else Evidence())
        if verdict.equal:
            break
    return verdict


# Random numbers ----------------------------------------------------------------------------------------------------------


def _may_be_random(row: CheckRow) -> bool:
    """Whether a row is unequal in its values, which another seed could explain."""
    return row.equal is False and row.compared not in ("type", "layout", PRESENCE)


def _random_names(pairs: Mapping[str, tuple[Part | None, Part | None]], truth: Float64Reference, eager: Redo) -> Iterator[str]:
    """The names of the values that eager computes otherwise with another seed."""
    if not pairs:
        return
    outcome = eager(1)
    for name, (one, _) in pairs.items():
        second = outcome.returned.get(name) or outcome.state.get(name.removesuffix(AFTER))
        if second is not None and _row(name, one, second, truth, "of no interest").equal is False:
            yield name


def _random_rows(rows: Mapping[str, CheckRow], expected: Outcome, redo: tuple[Redo, Redo], draws: int) -> dict[str, CheckRow]:
    """Judge values that depend on random numbers by several calls of each side; each call serves a group of values."""
    unjudged = {name: _unjudged(row) for name, row in rows.items()}
    if draws < MIN_CALLS:
        return unjudged
    judged_rows = {}
    for names in _groups({name: value_of(expected, name) for name in rows}, draws):
        values: dict[str, list[list[Any]]] = {name: [[], []] for name in names}
        for side, call in enumerate(redo):
            for n in range(draws):
                outcome = call(100 + n)
                for name in names:
                    values[name][side].append(value_of(outcome, name))
        for name in names:
            judged_rows[name] = _by_distribution(rows[name], values[name], draws)
    return judged_rows


def _unjudged(row: CheckRow) -> CheckRow:
    """The row of a random value that nothing was compared of but its type and the like."""
    parts = ", ".join(part for part in row.compared.split(", ") if part not in ("value", "values"))
    note = f"{RANDOM}; not compared"
    return replace(row, equal=None, random=True, error=None, eager_error=None, bound="", compared=parts, note=note)


def _by_distribution(row: CheckRow, values: Sequence[Sequence[Any]], draws: int) -> CheckRow:
    """Judge a row by the values of eager's calls and of the others."""
    comparable = all(fits(value, values[0][0]) for side in values for value in side)
    compared_values = compare_draws(values[0], values[1]) if comparable else None
    unjudged = _unjudged(row)
    if compared_values is None:
        return unjudged
    bound = f"the distributions over {draws} calls of each, by permutation"
    if compared_values.alike:
        found = f"; {compared_values.smallest} would have been found" if compared_values.smallest else ""
        return replace(unjudged, bound=bound, compared=row.compared, note=f"{RANDOM}; distributed as eager's{found}")
    note = f"random, and not distributed as eager's: {compared_values.differs} differ"
    return replace(unjudged, equal=False, bound=bound, compared=row.compared, note=note)


def _groups(values: Mapping[str, Any], draws: int) -> Iterator[list[str]]:
    """The names in groups whose values of all calls take no more than `MAX_BYTES` together; a large value is alone."""
    group: list[str] = []
    size = 0
    for name, value in values.items():
        needed = 2 * draws * value.numel() * value.element_size() if value is not None else 0
        if group and size + needed > MAX_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += needed
    if group:
        yield group


# What a kernel wrote -----------------------------------------------------------------------------------------------------


def written_rows(pairs: Sequence[tuple[str, Any, Any]]) -> list[CheckRow]:
    """Compare the tensors that a kernel wrote with expected ones: a row each.

    A kernel has no function whose rounding could be varied, so they are judged by a tolerance.
    """
    return [_written_row(name, expected, written) for name, expected, written in pairs]


def _written_row(name: str, expected: Any, written: Any) -> CheckRow:
    """Compare a tensor that a kernel wrote with the expected one."""
    if expected.shape != written.shape or expected.dtype != written.dtype:
        nan = float("nan")
        kinds = [f"{t.dtype} of shape {tuple(t.shape)}" for t in (written, expected)]
        note = f"it is {kinds[0]}, expected {kinds[1]}"
        return CheckRow(name, False, max_abs=nan, max_rel=nan, compared="type, shape", note=note)
    verdict = beside(expected, written)
    max_abs, max_rel = gaps(expected, written)
    return CheckRow(
        name,
        verdict.equal,
        max_abs=max_abs,
        max_rel=max_rel,
        bound=verdict.bound,
        compared="values, type, shape",
        note=_with_signs(verdict.note, [(expected, written)]),
    )
