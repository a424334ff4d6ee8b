"""What a function gives in float64, and with its rounding varied: the evidence by which a check judges compiled code.

Eager rounds after every operator, compiled code where a kernel ends. So they can differ much without either being wrong. How far
rounding moves each number of the function itself says what is much.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.capture.interpret.rounding import not_compiled_in_modes, random_numbers, varied, widened
from explorer.capture.interpret.unwritten import filled
from explorer.capture.observe.tensors import copier, map_tensors
from explorer.errors import ExplorerError
from explorer.lab.live.call import Call
from explorer.lab.live.judge import Evidence, Varied
from explorer.lab.live.outcome import Outcome, bytes_of, outcome_of, same_outcome
from explorer.process.under_way import step

#: What a function can raise in float64 or with its rounding varied: its constants, types or operators may not allow that.
IMPOSSIBLE = (
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
#: What follows the path of a tensor that the call changed.
AFTER = " after the call"


@dataclass
class Float64Reference:
    """What the same function gives in float64, and with its rounding varied.

    Each call is made when its outcome is first needed, and kept.
    """

    call: Call
    _exact: list[Outcome | None] = field(default_factory=list)
    _samples: list[tuple[Outcome, Outcome, bool]] = field(default_factory=list)
    _around: dict[bool, Outcome | None] = field(default_factory=dict)
    _filled: list[Outcome] | None = None
    _tried: int = 0

    def exact(self) -> Outcome | None:
        """The outcome in float64; None for a function that does not work in float64."""
        if not self._exact:
            # a generator draws other numbers for another type, so eager's are noted and used again
            drawn: list[Any] = []
            step("calling it eagerly in float64")
            self._outcome(self.call, lambda: random_numbers(drawn))
            self._exact.append(self._outcome(wide_call(self.call), lambda: widened(drawn)))
        return self._exact[0]

    def samples(self, count: int) -> Sequence[tuple[Outcome, Outcome, bool]]:
        """Vary the rounding in `count` ways. Return (outcome, unvaried outcome, whether its operators are eager's own) rows."""
        while self._tried < count:
            step("calling it eagerly with other roundings", self._tried, count)
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
        """Return the outcome to vary: eager's own, or the outcome of Inductor's decompositions of eager's operators."""
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

    def unwritten(self, name: str) -> bool:
        """Whether a value depends on the contents of memory that the function reads before writing it."""
        if self._filled is None:
            self._filled = self._both_filled()
        if not self._filled:
            return False
        one, other = (value_of(outcome, name) for outcome in self._filled)
        if one is None or not fits(other, one):
            return False
        numbers = (one == one) | (other == other)
        return bool(((one != other) & numbers).any())

    def _both_filled(self) -> list[Outcome]:
        """Eager's outcomes with a 1 and with a 2 in the memory that the function reads unwritten; none where it reads none."""
        outcomes = []
        for number in (1, 2):
            sizes: list[int] = []
            outcome = self._outcome(self.call, lambda number=number, sizes=sizes: filled(number, sizes))  # type: ignore[misc]
            if outcome is None or not any(sizes):
                return []
            outcomes.append(outcome)
        return outcomes

    def _outcome(self, call: Call | None, within: Callable[[], AbstractContextManager[Any]]) -> Outcome | None:
        """The outcome of a call; None where it cannot be made so."""
        if call is None:
            return None
        try:
            with not_compiled_in_modes():
                return outcome_of(call.function, call, within=within)
        except IMPOSSIBLE:
            return None

    @property
    def bytes(self) -> int:
        """The bytes of all outcomes that are kept."""
        varied = (outcome for outcome, _, _ in self._samples)
        outcomes = (*self._exact, *varied, *self._around.values(), *(self._filled or ()))
        return sum(bytes_of(outcome) for outcome in outcomes if outcome is not None)

    def of(self, name: str, like: Any, count: int) -> Evidence:
        """The evidence for one value, from `count` ways to round. Values of another shape than `like` are left out."""
        exact = value_of(self.exact(), name)
        evidence = Evidence(exact if fits(exact, like) else None)
        for outcome, unvaried, native in self.samples(count):
            value, around = value_of(outcome, name), value_of(unvaried, name)
            if fits(value, like) and fits(around, like):
                evidence.varied.append(Varied(value, around, native))
        return evidence


@dataclass
class KeptReference:
    """The reference of the last check, which the next one needs too: eager does the same for each edit of a kernel."""

    max_bytes: int = 2**30
    _expected: Outcome | None = None
    _reference: Float64Reference | None = None

    @contextmanager
    def of(self, call: Call, expected: Outcome) -> Iterator[Float64Reference]:
        """Give the reference of a call; eager has just returned `expected`. It is kept if it takes no more than `max_bytes`.

        A new one is made if eager returns other numbers than before, as after a step of training.
        """
        if self._reference is None or self._expected is None or not same_outcome(self._expected, expected):
            self._reference = Float64Reference(call)
        reference, self._expected, self._reference = self._reference, None, None
        yield reference
        if reference.bytes + bytes_of(expected) <= self.max_bytes:
            self._expected, self._reference = expected, reference


def value_of(outcome: Outcome | None, name: str) -> Any:
    """Return a value of an outcome as a tensor; None if the outcome has no value of that name."""
    if outcome is None:
        return None
    part = outcome.returned.get(name) or outcome.state.get(name.removesuffix(AFTER))
    return None if part is None else as_tensor(part.value)


def fits(value: Any, like: Any) -> bool:
    """Tell whether a value is a tensor of the same shape, and complex where the other is."""
    import torch

    return isinstance(value, torch.Tensor) and value.shape == like.shape and value.is_complex() == like.is_complex()


def as_tensor(value: Any) -> Any:
    """Make a number a tensor of 64 bits without dimensions. A tensor stays as it is; everything else is None."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, bool) or type(value) not in (int, float, complex):
        return torch.tensor(value) if isinstance(value, bool) else None
    if isinstance(value, int):
        return torch.tensor(value) if abs(value) < 2**63 else None
    return torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)


# The same call in float64, and nudged ------------------------------------------------------------------------------------


def wide_call(call: Call) -> Call | None:
    """The call with a copy of its module and its arguments in float64; None where the module cannot be copied."""
    try:
        function = _copied(call.function, lambda module: module.double())
    except IMPOSSIBLE:
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
    except IMPOSSIBLE:
        return None
    return replace(call, function=function, args=args, kwargs=kwargs)
