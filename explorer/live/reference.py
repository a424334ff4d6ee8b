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
from explorer.live.call import Call, clone, difference, run_call, tensors_of, weighted

#: The largest error and the root mean square of all errors may be so many times eager's: two orders of rounding differ.
LARGEST, MEAN = 4.0, 2.0
#: Errors of so many units in the last place of the largest number are rounding, however exact eager happened to be.
UNITS = 1.0
#: What calling a function in float64 can raise that does not work in float64.
_NO_FLOAT64 = (
    RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, ArithmeticError, MemoryError,
)  # fmt: skip

Outcome = tuple[Any, Mapping[str, Any] | None]


def compared(call: Call, expected: Outcome, given: Outcome) -> list[dict[str, Any]]:
    """One row a tensor: `difference`, with `equal` decided by the float64 reference where there is one.

    `error` and `eager_error` are the largest distances from the reference; None where it was not needed, as numbers of
    at least 32 bits were close to eager's, or could not be had.
    """
    pairs = list(zip(tensors_of(expected), tensors_of(given), strict=True))
    rows = [difference(name, one, other) for (name, one), (_, other) in pairs]
    wanted = [_judged(row, one, other) for row, ((_, one), (_, other)) in zip(rows, pairs, strict=True)]
    found = reference(call) if any(wanted) else None
    if found is None or [n for n, _ in found] != [n for (n, _), _ in pairs]:
        found, wanted = [("", None)] * len(pairs), [False] * len(pairs)
    return [
        {**row, **(errors(exact, one, other) if want else {"error": None, "eager_error": None})}
        for row, ((_, one), (_, other)), (_, exact), want in zip(rows, pairs, found, wanted, strict=True)
    ]


def _judged(row: Mapping[str, Any], one: Any, other: Any) -> bool:
    """True where a reference decides: floats that are of 16 bits or are not close."""
    comparable = one.shape == other.shape and one.dtype == other.dtype and one.is_floating_point() and bool(one.numel())
    return comparable and (one.dtype.itemsize < 4 or not row["equal"])


def errors(exact: Any, eager: Any, given: Any) -> dict[str, Any]:
    """Whether `given` is about as near to the reference as eager, and the largest distance of each."""
    import torch

    one, other = _distance(exact, eager), _distance(exact, given)
    finite = exact.detach().double().nan_to_num(posinf=0, neginf=0)
    unit = UNITS * torch.finfo(eager.dtype).eps
    largest = other.max() <= LARGEST * one.max() + unit * finite.abs().max()
    mean = _rms(other) <= MEAN * _rms(one) + unit * _rms(finite)
    return {"equal": bool(largest & mean), "error": float(other.max()), "eager_error": float(one.max())}


def _distance(exact: Any, tensor: Any) -> Any:
    """How far each element is from the reference; 0 where both are the same infinity or NaN, or overflow where it rounds to."""
    import torch

    exact, rounded, tensor = exact.detach().double(), exact.detach().to(tensor.dtype).double(), tensor.detach().double()
    same = (tensor == rounded) & rounded.isinf() | tensor.isnan() & exact.isnan()
    return torch.where(same, 0.0, (tensor - exact).abs()).nan_to_num(nan=float("inf"))


def _rms(tensor: Any) -> Any:
    return tensor.square().mean().sqrt()


def reference(call: Call) -> Sequence[tuple[str, Any]] | None:
    """The tensors that the call gives in float64, by name; None for a function that cannot be called so.

    The user's module and tensors are copied: nothing of theirs is changed.
    """
    import torch

    try:
        function = in_float64(call.function)
        wide = replace(call, function=function, args=_wide(call.args), kwargs=_wide(call.kwargs))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return tensors_of(run_call(function, wide, weighted))
    except _NO_FLOAT64:
        return None


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a module, or of the module that a method is of, in float64; any other function as it is."""
    import torch

    if isinstance(function, torch.nn.Module):
        made: Callable[..., Any] = copy.deepcopy(function).double()
        return made
    if isinstance(function, types.MethodType) and isinstance(function.__self__, torch.nn.Module):
        return types.MethodType(function.__func__, in_float64(function.__self__))
    return function


def _wide(value: Any) -> Any:
    """A copy of a nest of arguments whose real floats are float64."""

    def widened(tensor: Any) -> Any:
        made = tensor.detach().double() if tensor.is_floating_point() else tensor.detach().clone()
        return made.requires_grad_(tensor.requires_grad)

    return map_tensors(widened, clone(value))


__all__ = ["compared", "errors", "in_float64", "reference"]
