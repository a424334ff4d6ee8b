"""The rows of a check: compiled code against eager, both against what the function gives in float64.

Eager rounds after every operator, compiled code where a kernel ends, so of float16 and bfloat16 and of long sums both are
far from each other without either being wrong. What decides is how far each is from the same call in float64.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.hooks.tensors import map_tensors
from explorer.live.call import Call, difference, run_call, tensors_of, weighted

#: The largest error and the root mean square of all errors may be so many times eager's: two orders of rounding differ.
#: Right code was seen at 1.5 and 1.1 times for transformers, a GELU with a constant 6 % off at 4.4 and 4.6 times.
ONE = (4.0, 2.0)
#: The same against the worst of several eager calls: right code was seen at 1.0 and 0.9 times, that GELU at 1.9 and 1.8.
WORST = (1.5, 1.25)
#: Errors of so many units in the last place of the largest number are one rounding, however exact eager happened to be.
UNITS = 0.5
#: Calls of eager that are tried before a tensor is unequal: one as it is, the others from inputs a rounding away.
TRIALS = 5
#: What calling a function in float64 can raise where it has constants or operators that are not for float64.
_IMPOSSIBLE = (
    RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, ArithmeticError, MemoryError,
)  # fmt: skip

Outcome = tuple[Any, Mapping[str, Any] | None]


def compared(call: Call, expected: Outcome, given: Outcome) -> list[dict[str, Any]]:
    """One row a tensor: `difference`, with `equal` decided by the float64 reference where there is one.

    `error` and `eager_error` are the largest distances from the reference; None where it was not needed, as numbers of
    at least 32 bits were close to eager's, or could not be had. Where only one side of a threshold decides, as for the
    gradient of a ReLU, eager's error is chance: before a row is unequal it is that of the worst of several eager calls.
    """
    ones, others = tensors_of(expected), tensors_of(given)
    rows = [difference(name, one, other) for (name, one), (_, other) in zip(ones, others, strict=True)]
    wanted = [_judged(row, one, other) for row, (_, one), (_, other) in zip(rows, ones, others, strict=True)]
    exact = _called(call, in_float64, _wide, ones) if any(wanted) else None
    rows = [{**row, "error": None, "eager_error": None} for row in rows]
    if exact is None:
        return rows
    eager = [[one] for _, one in ones]
    for trial in range(TRIALS):
        for n in (n for n, want in enumerate(wanted) if want and (not trial or not rows[n]["equal"])):
            rows[n] |= errors(exact[n][1], eager[n], others[n][1])
        more = _called(call, *_nudges(trial), ones) if not all(row["equal"] for row in rows) else None
        if more is None:
            break
        for tried, (_, one) in zip(eager, more, strict=True):
            tried.append(one)
    return rows


def _judged(row: Mapping[str, Any], one: Any, other: Any) -> bool:
    """True where a reference decides: floats that are of 16 bits or are not close."""
    comparable = one.shape == other.shape and one.dtype == other.dtype and one.is_floating_point() and bool(one.numel())
    return comparable and (one.dtype.itemsize < 4 or not row["equal"])


def errors(exact: Any, eager: Sequence[Any], given: Any) -> dict[str, Any]:
    """Whether `given` is about as near to the reference as the worst of eager's, and the largest distance of each."""
    import torch

    ones, other = [_distance(exact, one) for one in eager], _distance(exact, given)
    finite = exact.detach().double().nan_to_num(posinf=0, neginf=0)
    unit, worst = UNITS * torch.finfo(given.dtype).eps, max(float(one.max()) for one in ones)
    times, times_mean = ONE if len(ones) == 1 else WORST
    largest = float(other.max()) <= times * worst + unit * float(finite.abs().max())
    mean = _rms(other) <= times_mean * max(map(_rms, ones)) + unit * _rms(finite)
    return {"equal": largest and mean, "error": float(other.max()), "eager_error": worst}


def _distance(exact: Any, tensor: Any) -> Any:
    """How far each element is from the reference; 0 where both are the same infinity or NaN, or overflow where it rounds to."""
    import torch

    exact, rounded, tensor = exact.detach().double(), exact.detach().to(tensor.dtype).double(), tensor.detach().double()
    same = (tensor == rounded) & rounded.isinf() | tensor.isnan() & exact.isnan()
    return torch.where(same, 0.0, (tensor - exact).abs()).nan_to_num(nan=float("inf"))


def _rms(tensor: Any) -> float:
    return float(tensor.square().mean().sqrt())


def reference(call: Call) -> Sequence[tuple[str, Any]] | None:
    """The tensors that the call gives in float64, by name; None for a function that cannot be called so."""
    return _called(call, in_float64, _wide)


def _called(
    call: Call, change: Callable[[Any], Any], value: Callable[[Any], Any], like: Sequence[tuple[str, Any]] | None = None
) -> Sequence[tuple[str, Any]] | None:
    """The tensors of the call with its function and its tensors changed; None where it fails or gives others than `like`.

    The user's module and tensors are copied: nothing of theirs is changed.
    """
    import torch

    try:
        function = change(call.function)
        other = replace(call, function=function, args=map_tensors(value, call.args), kwargs=map_tensors(value, call.kwargs))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            made = tensors_of(run_call(function, other, weighted))
    except _IMPOSSIBLE:
        return None
    same = like is None or [(n, t.shape) for n, t in made] == [(n, t.shape) for n, t in like]
    return made if same else None


def _copied(function: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """A changed copy of a module, or of the module that a method is of; any other function as it is."""
    import torch

    if isinstance(function, torch.nn.Module):
        made: Callable[..., Any] = change(copy.deepcopy(function))
        return made
    if isinstance(function, types.MethodType) and isinstance(function.__self__, torch.nn.Module):
        return types.MethodType(function.__func__, _copied(function.__self__, change))
    return function


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a module, or of the module that a method is of, in float64; any other function as it is."""
    return _copied(function, lambda module: module.double())


def _wide(tensor: Any) -> Any:
    """A copy of a tensor; real floats are float64."""
    made = tensor.detach().double() if tensor.is_floating_point() else tensor.detach().clone()
    return made.requires_grad_(tensor.requires_grad)


def _nudges(seed: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How to copy a function and a tensor with its floats moved by up to one unit in the last place."""
    import torch

    numbers = torch.Generator().manual_seed(seed)

    def nudged(tensor: Any) -> Any:
        made = tensor.detach().clone()
        if tensor.is_floating_point():
            noise = 2 * torch.rand(tensor.shape, generator=numbers, dtype=torch.float64).to(tensor.device) - 1
            made.copy_(made.double() * (1 + torch.finfo(tensor.dtype).eps * noise))
        return made.requires_grad_(tensor.requires_grad)

    def moved(module: Any) -> Any:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(nudged(parameter))
        return module

    return lambda function: _copied(function, moved), nudged


__all__ = ["compared", "errors", "in_float64", "reference"]
