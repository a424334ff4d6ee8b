"""The rows of a check: compare what compiled code returns and changes with eager.

Eager rounds after every operator, compiled code where a kernel ends. So they can differ much without either being wrong.
The judge decides by the same function in float64, and by how far rounding moves each number of the function.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.errors import ExplorerError
from explorer.interpret.rounding import not_compiled_in_modes, random_numbers, varied, widened
from explorer.interpret.unwritten import filled
from explorer.live.call import Call
from explorer.live.judge import NEAR, Evidence, Judgement, Varied, beside, draws_alike, exactly, gaps, judged, near
from explorer.live.outcome import Outcome, Part, outcome_of
from explorer.observe.tensors import copier, map_tensors, strided_parts

#: How many ways to round are tried before a value is called unequal. A value that is right mostly needs the first few.
TRIALS = (3, 8, 18)
#: Calls of eager, and of compiled code, by which random values are judged.
DRAWS = 8
#: What a function can raise in float64 or with its rounding varied: its constants, types or operators may not allow that.
_IMPOSSIBLE = (
    RuntimeError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    AssertionError,
    ArithmeticError,
    MemoryError,
    ExplorerError,
)

Redo = Callable[[int], Outcome]


@dataclass
class Truth:
    """What the same function gives in float64, and with its rounding varied.

    Each call is made when its outcome is first needed, and kept.
    """

    call: Call
    _exact: list[Outcome | None] = field(default_factory=list)
    _samples: list[tuple[Outcome, Outcome, bool]] = field(default_factory=list)
    _around: dict[bool, Outcome | None] = field(default_factory=dict)
    _tried: int = 0

    def exact(self) -> Outcome | None:
        """The outcome in float64; None for a function that does not work in float64."""
        if not self._exact:
            # a generator draws other numbers for another type, so eager's are noted and used again
            drawn: list[Any] = []
            self._outcome(self.call, lambda: random_numbers(drawn))
            self._exact.append(self._outcome(wide_call(self.call), lambda: widened(drawn)))
        return self._exact[0]

    def samples(self, count: int) -> Sequence[tuple[Outcome, Outcome, bool]]:
        """Outcomes with the rounding varied in `count` ways, each with what it varies, and whether operators are eager's own."""
        while self._tried < count:
            number, self._tried = self._tried, self._tried + 1
            native = number % 3 != 2
            around = self._unvaried(native)
            mode = varied(number + 1, decomposed=not native)
            outcome = self._outcome(self.call, lambda mode=mode: mode) if around is not None else None  # type: ignore[misc]
            if outcome is not None and around is not None:
                self._samples.append((outcome, around, native))
            elif native:
                self._nudged(number)
        return self._samples

    def _unvaried(self, native: bool) -> Outcome | None:
        """The outcome that is varied: eager's own, or that of the operators that Inductor decomposes eager's into."""
        if native not in self._around:
            mode: Callable[[], AbstractContextManager[Any]] = nullcontext
            if not native:
                mode = lambda: varied(None, decomposed=True)  # noqa: E731
            self._around[native] = self._outcome(self.call, mode)
        return self._around[native]

    def _nudged(self, number: int) -> None:
        """Vary inputs and parameters by a unit in the last place, where operators cannot be varied."""
        around = self._unvaried(True)
        outcome = self._outcome(nudged_call(self.call, number), nullcontext)
        if outcome is not None and around is not None:
            self._samples.append((outcome, around, True))

    def filled(self, number: int) -> Outcome | None:
        """Eager's outcome with a number in the memory that the function reads unwritten; None where there is none."""
        made: list[int] = []
        outcome = self._outcome(self.call, lambda: filled(number, made))
        return outcome if any(made) else None

    def _outcome(self, call: Call | None, within: Callable[[], AbstractContextManager[Any]]) -> Outcome | None:
        """The outcome of a call; None where it cannot be made so."""
        if call is None:
            return None
        try:
            with not_compiled_in_modes():
                return outcome_of(call.function, call, within=within)
        except _IMPOSSIBLE:
            return None

    def of(self, name: str, like: Any, count: int) -> Evidence:
        """The evidence for one value, from `count` ways to round. Values of another shape than `like` are left out."""
        exact = _value(self.exact(), name)
        evidence = Evidence(exact if _fits(exact, like) else None)
        for outcome, unvaried, native in self.samples(count):
            value, around = _value(outcome, name), _value(unvaried, name)
            if _fits(value, like) and _fits(around, like):
                evidence.varied.append(Varied(value, around, native))
        return evidence


def _value(outcome: Outcome | None, name: str) -> Any:
    """A value of an outcome as a tensor; None where it has none of that name."""
    if outcome is None:
        return None
    part = outcome.returned.get(name) or outcome.state.get(name.removesuffix(AFTER))
    return None if part is None else _as_tensor(part.value)


def _fits(value: Any, like: Any) -> bool:
    """Tell whether a value is a tensor of the same shape, and complex where the other is."""
    import torch

    return isinstance(value, torch.Tensor) and value.shape == like.shape and value.is_complex() == like.is_complex()


#: The note of the only row where there is nothing to compare.
NOTHING = "the function returns nothing and changes nothing that explorer sees: nothing was compared"
#: What follows the path of a tensor that the call changed.
AFTER = " after the call"
#: What was compared of a value that only one side gives.
PRESENCE = "whether it is there"
#: How the note of a value begins that another seed changes.
RANDOM = "random: depends on numbers that compiled code draws otherwise"
#: The note of a value that depends on what was in memory.
UNWRITTEN = "not compared: depends on memory that the function never wrote, such as that of torch.empty"
#: Of fewer calls a permutation test says nothing.
LEAST_DRAWS = 6
#: The most bytes of random values that are kept at once. For more, the calls are made again.
MOST_BYTES = 2**30


def compared(
    call: Call,
    expected: Outcome,
    given: Outcome,
    *,
    redo: tuple[Redo, Redo] | None = None,
    draws: int = DRAWS,
    strides: str = "",
    truth: Truth | None = None,
) -> list[dict[str, Any]]:
    """Compare two outcomes: one row for each output, gradient and changed tensor; one with `equal` None if there is nothing.

    `redo` calls eager, and what is compared with it, with another seed. It tells which values depend on random numbers; these
    are judged by `draws` calls of each. `strides` says why strides are not compared, "" where they are.
    """
    truth = truth or Truth(call)
    pairs = {name: (one, other) for name, one, other in _pairs(expected, given)}
    unwritten = set(_unwritten_names(pairs, truth))
    rows = {
        name: _blank(name, None, note=UNWRITTEN) if name in unwritten else _row(name, one, other, truth, strides)
        for name, (one, other) in pairs.items()
    }
    if redo is not None:
        random = _random_names({name: pairs[name] for name, row in rows.items() if _may_be_random(row)}, truth, redo[0])
        rows |= _random_rows({name: rows[name] for name in random}, expected, redo, draws)
    listed = list(rows.values())
    if not listed:
        return [_blank("nothing", None, note=NOTHING)]
    if not (expected.whole and given.whole):
        listed[0]["note"] = "; ".join(filter(None, [listed[0]["note"], "the function holds more than was looked at for changes"]))
    return listed


def _pairs(expected: Outcome, given: Outcome) -> Iterator[tuple[str, Part | None, Part | None]]:
    """The parts of both outcomes by name: everything returned except None, and the state that either changed."""
    for name in dict.fromkeys([*expected.returned, *given.returned]):
        one, other = expected.returned.get(name), given.returned.get(name)
        if any(part is not None and part.value is not None for part in (one, other)):
            yield name, one, other
    changed = expected.changed | given.changed
    for name in dict.fromkeys([*expected.state, *given.state]):
        if name in changed:
            yield f"{name}{AFTER}", expected.state.get(name), given.state.get(name)


def _blank(name: str, equal: bool | None, **more: Any) -> dict[str, Any]:
    """A row with every column, `more` of which are filled in."""
    row = {"output": name, "equal": equal, "max_abs": None, "max_rel": None, "error": None, "eager_error": None}
    return {**row, "bound": "", "compared": "", "note": "", "random": False, **more}


def _row(name: str, one: Part | None, other: Part | None, truth: Truth, strides: str) -> dict[str, Any]:
    """Compare two parts: the row of a check."""
    import torch

    if one is None or other is None:
        side = "eager" if one is None else "compiled"
        return _blank(name, False, compared=PRESENCE, note=f"{side} does not give it")
    if any(part.why_not for part in (one, other)):
        return _blank(name, None, note=f"not compared: {one.why_not or other.why_not}")
    if name.startswith("gradient of ") and (one.value is None) != (other.value is None):
        one, other = _no_gradient(one, other)
    values = one.value, other.value
    if all(isinstance(v, torch.Tensor) for v in values):
        return _tensors(name, one, other, truth, strides)
    if any(isinstance(v, torch.Tensor) for v in values):
        kinds = [type(v).__name__ for v in values]
        return _blank(name, False, compared="type", note=f"eager gives a {kinds[0]}, compiled a {kinds[1]}")
    return _plain(name, one.value, other.value, truth)


def _no_gradient(one: Part, other: Part) -> tuple[Part, Part]:
    """Take an absent gradient for one of zeros: a leaf on which nothing depends may get either."""
    import torch

    if one.value is None:
        one = replace(other, value=torch.zeros_like(other.value))
    else:
        other = replace(one, value=torch.zeros_like(one.value))
    return one, other


def _plain(name: str, one: Any, other: Any, truth: Truth) -> dict[str, Any]:
    """Compare two values that are no tensors: numbers as tensors without dimensions, others by ==."""
    if type(one) is not type(other):
        return _blank(name, False, compared="type", note=f"eager gives a {type(one).__name__}, compiled a {type(other).__name__}")
    tensors = [_as_tensor(v) for v in (one, other)]
    if all(t is not None for t in tensors):
        return {**_values(name, tensors[0], tensors[1], truth), "compared": "value, type"}
    try:
        same = bool(one == other)
    except _IMPOSSIBLE:
        same = False
    if not same and "__eq__" not in {n for c in type(one).__mro__[:-1] for n in vars(c)}:
        return _blank(name, None, note=f"not compared: explorer cannot tell two objects of class {type(one).__name__} apart")
    return _blank(name, same, compared="value, type", bound="exact", note="" if same else f"{one!r:.60} is not {other!r:.60}")


def _as_tensor(value: Any) -> Any:
    """Make a number a tensor of 64 bits without dimensions. A tensor stays as it is; everything else is None."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, bool) or type(value) not in (int, float, complex):
        return torch.tensor(value) if isinstance(value, bool) else None
    if isinstance(value, int):
        return torch.tensor(value) if abs(value) < 2**63 else None
    return torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)


def _tensors(name: str, one: Part, other: Part, truth: Truth, strides: str) -> dict[str, Any]:
    """Compare two tensors: type, shape and layout, then values, strides, and what they are views of."""
    a, b = one.value, other.value
    for what, mine, theirs in (
        ("type", a.dtype, b.dtype),
        ("shape", tuple(a.shape), tuple(b.shape)),
        ("layout", a.layout, b.layout),
    ):
        if mine != theirs:
            nan = float("nan")
            note = f"the {what} is {theirs}, of eager {mine}"
            return _blank(name, False, max_abs=nan, max_rel=nan, compared=what, note=note)
    row = _values(name, a, b, truth)
    row["compared"] = "values, type, shape, what it is a view of" + (f"; not strides: {strides}" if strides else ", strides")
    wrong = []
    if not strides and _steps(one) != _steps(other):
        wrong.append(f"the strides are {other.strides}, of eager {one.strides}")
    if set(one.shares) != set(other.shares):
        mine, theirs = (" and ".join(part.shares) or "nothing" for part in (one, other))
        wrong.append(f"it is a view of {theirs}, of eager of {mine}")
    return {**row, "equal": False, "note": "; ".join(filter(None, [*wrong, row["note"]]))} if wrong else row


def _steps(part: Part) -> list[int]:
    """The strides of the dimensions of more than one element: the others have any stride."""
    if not part.value.numel():
        return []
    return [step for step, size in zip(part.strides, part.value.shape, strict=False) if size > 1]


def _values(name: str, one: Any, other: Any, truth: Truth) -> dict[str, Any]:
    """Compare the values of two tensors of one shape and type: a row with the judge's verdict."""
    import torch

    try:
        ones, others = strided_parts(one), strided_parts(other)
    except (RuntimeError, NotImplementedError) as error:
        return _blank(name, None, note=f"not compared: {type(error).__name__}: {error}")
    if any(a.shape != b.shape for a, b in zip(ones, others, strict=True)):
        return _blank(name, False, note="another number of elements is stored than eager stores")
    verdicts = [_verdict(name, a, b, truth, is_whole=len(ones) == 1) for a, b in zip(ones, others, strict=True)]
    verdict = next((v for v in verdicts if not v.equal), max(verdicts, key=lambda v: v.share or 0.0))
    differences = [gaps(a, b) for a, b in zip(ones, others, strict=True)]
    # NaN is larger than any number here
    max_abs, max_rel = (max((pair[n] for pair in differences), key=lambda v: (v != v, v)) for n in (0, 1))
    row = _blank(name, verdict.equal, max_abs=max_abs, max_rel=max_rel, bound=verdict.bound, note=verdict.note)
    assert isinstance(one, torch.Tensor)
    return {**row, "error": verdict.error, "eager_error": verdict.eager_error}


def _judgeable(one: Any, other: Any) -> bool:
    """Whether two values are strided tensors of one shape and type."""
    import torch

    if not isinstance(one, torch.Tensor) or not _fits(other, one):
        return False
    return bool(one.dtype == other.dtype and one.layout == other.layout == torch.strided)


def _alike_at_once(one: Any, other: Any) -> bool:
    """Whether two tensors of one shape and type are so near that nothing has to be computed to judge them."""
    floats = one.is_floating_point() or one.is_complex()
    return near(one, other) if floats else bool((one == other).all())


def _verdict(name: str, one: Any, other: Any, truth: Truth, *, is_whole: bool) -> Judgement:
    """Ask the judge: at once if both are next to each other, else with as many ways to round as it takes.

    `is_whole` is False for one of several stored parts of a sparse tensor: there is no evidence for these.
    """
    floats = one.is_floating_point() or one.is_complex()
    if _alike_at_once(one, other):
        return Judgement(True, NEAR if floats else "exact")
    verdict = Judgement(False, "")
    for count in TRIALS:
        evidence = truth.of(name, one, count) if is_whole else Evidence()
        verdict = (judged if floats else exactly)(one, other, evidence)
        if verdict.equal:
            break
    return verdict


def _unwritten_names(pairs: Mapping[str, tuple[Part | None, Part | None]], truth: Truth) -> Iterator[str]:
    """The names of the values that change with what is in memory that the function reads unwritten."""
    apart = [
        name
        for name, (one, other) in pairs.items()
        if one and other and _judgeable(one.value, other.value) and not _alike_at_once(one.value, other.value)
    ]
    first = truth.filled(1) if apart else None
    second = truth.filled(2) if first else None
    for name in apart:
        one, other = _value(first, name), _value(second, name)
        if one is not None and _fits(other, one) and bool(((one != other) & ((one == one) | (other == other))).any()):
            yield name


# Random numbers ----------------------------------------------------------------------------------------------------------


def _may_be_random(row: Mapping[str, Any]) -> bool:
    """Whether a row is unequal in its values, which another seed could explain."""
    return row["equal"] is False and row["compared"] not in ("type", "layout", PRESENCE)


def _random_names(pairs: Mapping[str, tuple[Part | None, Part | None]], truth: Truth, eager: Redo) -> Iterator[str]:
    """The names of the values that eager computes otherwise with another seed."""
    if not pairs:
        return
    outcome = eager(1)
    for name, (one, _) in pairs.items():
        second = outcome.returned.get(name) or outcome.state.get(name.removesuffix(AFTER))
        if second is not None and _row(name, one, second, truth, "of no interest")["equal"] is False:
            yield name


def _random_rows(
    rows: Mapping[str, dict[str, Any]], expected: Outcome, redo: tuple[Redo, Redo], draws: int
) -> dict[str, dict[str, Any]]:
    """Judge values that depend on random numbers by several calls of each side; each call serves a group of values."""
    blank: dict[str, Any] = {"equal": None, "random": True, "error": None, "eager_error": None, "bound": ""}
    if draws < LEAST_DRAWS:
        return {name: {**row, **blank, "note": f"{RANDOM}; not compared"} for name, row in rows.items()}
    judged_rows = {}
    for names in _groups({name: _value(expected, name) for name in rows}, draws):
        values: dict[str, list[list[Any]]] = {name: [[], []] for name in names}
        for side, call in enumerate(redo):
            for n in range(draws):
                outcome = call(100 + n)
                for name in names:
                    values[name][side].append(_value(outcome, name))
        for name in names:
            judged_rows[name] = {**rows[name], **blank, **_alike_on_average(values[name], draws)}
    return judged_rows


def _alike_on_average(values: Sequence[Sequence[Any]], draws: int) -> dict[str, Any]:
    """What a row says of the values of eager's calls and of the others."""
    comparable = all(_fits(value, values[0][0]) for side in values for value in side)
    alike = draws_alike(values[0], values[1]) if comparable else None
    bound = f"the means of {draws} calls of each, by permutation" if alike is not None else ""
    if alike is False:
        return {"equal": False, "bound": bound, "note": "random, and on average not what eager gives"}
    verdict = "on average as eager's" if alike else "not compared"
    return {"bound": bound, "note": f"{RANDOM}; {verdict}"}


def _groups(values: Mapping[str, Any], draws: int) -> Iterator[list[str]]:
    """The names in groups whose values of all calls take no more than `MOST_BYTES` together; a large value is alone."""
    group: list[str] = []
    size = 0
    for name, value in values.items():
        needed = 2 * draws * value.numel() * value.element_size() if value is not None else 0
        if group and size + needed > MOST_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += needed
    if group:
        yield group


# The same call in float64, and nudged -------------------------------------------------------------------------------


def wide_call(call: Call) -> Call | None:
    """The call with a copy of its module and its arguments in float64; None where the module cannot be copied."""
    try:
        function = _copied(call.function, lambda module: module.double())
    except _IMPOSSIBLE:
        return None
    args, kwargs = map_tensors(copier(wide=True), (call.args, dict(call.kwargs)))
    return replace(call, function=function, args=args, kwargs=kwargs)


def _copied(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Copy a module, or the module of a bound method, and change the copy. Any other function stays as it is."""
    import torch

    if isinstance(function, torch.nn.Module):
        changed: Callable[..., Any] = change(copy.deepcopy(function))
        return changed
    if isinstance(function, types.MethodType) and isinstance(function.__self__, torch.nn.Module):
        return types.MethodType(function.__func__, _copied(function.__self__, change))
    return function


def nudged_call(call: Call, seed: int) -> Call | None:
    """The call with the floats of its arguments and of a copy of its module moved by up to a unit in the last place."""
    import torch

    numbers = torch.Generator().manual_seed(seed)
    copied = copier()

    def moved(tensor: Any) -> Any:
        if tensor.is_floating_point() and tensor.layout == torch.strided:
            noise = 2 * torch.rand(tensor.shape, generator=numbers, dtype=torch.float64).to(tensor.device) - 1
            with torch.no_grad():
                tensor.copy_(tensor.double() * (1 + torch.finfo(tensor.dtype).eps * noise))
        return tensor

    def module(original: Any) -> Any:
        for parameter in original.parameters():
            moved(parameter)
        return original

    try:
        function = _copied(call.function, module)
        args, kwargs = map_tensors(lambda t: moved(copied(t)), (call.args, dict(call.kwargs)))
    except _IMPOSSIBLE:
        return None
    return replace(call, function=function, args=args, kwargs=kwargs)


def written_rows(pairs: Sequence[tuple[str, Any, Any]]) -> list[dict[str, Any]]:
    """Compare the tensors that a kernel wrote with expected ones: a row each.

    A kernel has no function whose rounding could be varied, so they are judged by a tolerance.
    """
    return [_written_row(name, expected, written) for name, expected, written in pairs]


def _written_row(name: str, expected: Any, written: Any) -> dict[str, Any]:
    """Compare a tensor that a kernel wrote with the expected one."""
    if expected.shape != written.shape or expected.dtype != written.dtype:
        nan = float("nan")
        kinds = [f"{t.dtype} of shape {tuple(t.shape)}" for t in (written, expected)]
        note = f"it is {kinds[0]}, expected {kinds[1]}"
        return _blank(name, False, max_abs=nan, max_rel=nan, compared="type, shape", note=note)
    verdict = beside(expected, written)
    max_abs, max_rel = gaps(expected, written)
    row = _blank(name, verdict.equal, max_abs=max_abs, max_rel=max_rel, bound=verdict.bound, note=verdict.note)
    return {**row, "compared": "values, type, shape"}


__all__ = ["Truth", "compared", "nudged_call", "wide_call", "written_rows"]
