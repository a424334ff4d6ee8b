"""Programs of one operator each, with the operator lowered to something else, and the same programs as they should be.

`wrong_lowerings.py` has programs that are hard to judge. These are many kinds of fault: another function, a factor, a constant,
swapped or ignored arguments, a reduction by another operation, an index that is one off, a value that is dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._inductor import lowering
from torch._inductor.virtualized import ops
from torch.nn import functional as F
from wrong_lowerings import Built, Fault, on, pointwise

aten, prims = torch.ops.aten, torch.ops.prims
WHOLE = torch.int64


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, its arguments, the operator that is lowered wrongly, and the wrong lowering."""

    function: Callable[..., Any]
    arguments: tuple[Callable[[], Any], ...]
    operator: Any
    wrong: Callable[..., Any]


def numbers(*shape: int, low: float | None = None) -> Callable[[], Any]:
    """Normally distributed numbers, or uniform ones from `low` to `low` + 3."""
    return lambda: torch.randn(*shape) if low is None else torch.rand(*shape) * 3 + low


def integers(*shape: int, low: int = 0, high: int = 8) -> Callable[[], Any]:
    """Whole numbers from low to before high."""
    return lambda: torch.randint(low, high, shape)


def constant(value: float, dtype: Any = torch.float32) -> Any:
    """A number inside of a kernel."""
    return ops.constant(value, dtype)


def lowered(operator: Any) -> Callable[..., Any]:
    """The right lowering of an operator."""
    return lowering.lowerings[operator]  # type: ignore[no-any-return]


def times(operator: Any, factor: float) -> Callable[..., Any]:
    """A lowering whose result is off by a factor."""
    right, scaled = lowered(operator), pointwise(lambda a: ops.mul(a, constant(factor)))
    return lambda *args, **kwargs: scaled(right(*args, **kwargs))


def instead(operator: Any) -> Callable[..., Any]:
    """The lowering of another operator, with the same arguments."""
    return lambda *args, **kwargs: lowered(operator)(*args, **kwargs)


def swapped(operator: Any) -> Callable[..., Any]:
    """A lowering that takes its first two arguments the other way round."""
    right = lowered(operator)
    return lambda one, two, *rest, **kwargs: right(two, one, *rest, **kwargs)


def without(operator: Any, **ignored: Any) -> Callable[..., Any]:
    """A lowering that takes these for some arguments, whatever they are."""
    right = lowered(operator)
    return lambda *args, **kwargs: right(*args, **kwargs | ignored)


def shifted(operator: Any, place: int, by: int) -> Callable[..., Any]:
    """A lowering with a whole number more in one of its tensors of indices."""
    right, more = lowered(operator), pointwise(lambda i: ops.add(i, constant(by, WHOLE)))

    def wrong(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        given[place] = [more(each) for each in given[place]] if isinstance(given[place], (list, tuple)) else more(given[place])
        return right(*given, **kwargs)

    return wrong


def same(first: Any, *others: Any, **named: Any) -> Any:
    """Lower to the first argument as it is."""
    return lowered(aten.clone.default)(first)


def _reversed(operator: Any) -> Callable[..., Any]:
    right = lowered(operator)
    return lambda parts, *args, **kwargs: right(list(reversed(parts)), *args, **kwargs)


def _with_number(operator: Any, place: int, value: Any) -> Callable[..., Any]:
    right = lowered(operator)
    return lambda *args, **kwargs: right(*args[:place], value, *args[place + 1 :], **kwargs)


def _then(operator: Any, other: Any) -> Callable[..., Any]:
    """A lowering with another operator on its result."""
    right, after = lowered(operator), lowered(other)
    return lambda *args, **kwargs: after(right(*args, **kwargs))


def _shifted_result(operator: Any) -> Callable[..., Any]:
    """A lowering whose whole numbers are one more."""
    right, more = lowered(operator), pointwise(lambda a: ops.add(a, constant(1, WHOLE)))
    return lambda *args, **kwargs: more(right(*args, **kwargs))


_WHERE, _SLICE, _CONVERT = (lowered(each) for each in (aten.where.self, aten.slice.Tensor, prims.convert_element_type.default))


def _other_choice(condition: Any, one: Any, other: Any) -> Any:
    return _WHERE(condition, other, one)


def _one_row_on(x: Any, dim: int, start: int, end: int, *others: Any) -> Any:
    return _SLICE(x, dim, start + 1, end + 1, *others)


def _rounded(x: Any, dtype: Any) -> Any:
    return _CONVERT(lowered(aten.round.default)(x), dtype)


ROW, PLACE = numbers(1000), numbers(1000, low=0.25)
TABLE, SQUARES = numbers(24, 40), numbers(24, 40, low=0.1)

#: A function of one number: the program, its argument, the operator, and what is computed instead.
OF_ONE: Mapping[str, tuple[Callable[[Any], Any], Callable[[], Any], Any, Callable[[Any], Any]]] = {
    "cosine as sine": (torch.cos, ROW, aten.cos.default, ops.sin),
    "exp as expm1": (torch.exp, ROW, aten.exp.default, ops.expm1),
    "exp off by a thousandth": (torch.exp, ROW, aten.exp.default, lambda a: ops.mul(ops.exp(a), constant(1.001))),
    "log as log1p": (torch.log, PLACE, aten.log.default, ops.log1p),
    "log1p as log": (torch.log1p, PLACE, aten.log1p.default, ops.log),
    "log2 as log": (torch.log2, PLACE, aten.log2.default, ops.log),
    "tanh of a little less": (torch.tanh, ROW, aten.tanh.default, lambda a: ops.tanh(ops.mul(a, constant(0.99)))),
    "sigmoid off by a thousandth": (torch.sigmoid, ROW, aten.sigmoid.default, lambda a: ops.mul(ops.sigmoid(a), constant(0.999))),
    "square root as its inverse": (torch.sqrt, PLACE, aten.sqrt.default, ops.rsqrt),
    "inverse square root as square root": (torch.rsqrt, PLACE, aten.rsqrt.default, ops.sqrt),
    "absolute value, sign kept": (torch.abs, ROW, aten.abs.default, lambda a: a),
    "negative, sign kept": (torch.neg, ROW, aten.neg.default, lambda a: a),
    "floor as ceil": (torch.floor, ROW, aten.floor.default, ops.ceil),
    "ceil as floor": (torch.ceil, ROW, aten.ceil.default, ops.floor),
    "round as trunc": (torch.round, ROW, aten.round.default, ops.trunc),
    "trunc as floor": (torch.trunc, ROW, aten.trunc.default, ops.floor),
    "erf as tanh": (torch.erf, ROW, aten.erf.default, ops.tanh),
    "reciprocal as the number": (torch.reciprocal, PLACE, aten.reciprocal.default, lambda a: a),
    "tangent as sine": (torch.tan, ROW, aten.tan.default, ops.sin),
    "arc tangent as tanh": (torch.atan, ROW, aten.atan.default, ops.tanh),
    "relu that leaks": (torch.relu, ROW, aten.relu.default, lambda a: ops.maximum(a, ops.mul(a, constant(0.01)))),
}

_DIVIDED = aten.div.Tensor
#: Other operators, each with its wrong lowering.
CASES: dict[str, Case] = {
    "a sum without its alpha": Case(
        lambda x, y: torch.add(x, y, alpha=2), (ROW, ROW), aten.add.Tensor, without(aten.add.Tensor, alpha=1)
    ),
    "a difference, swapped": Case(lambda x, y: x - y, (ROW, ROW), aten.sub.Tensor, swapped(aten.sub.Tensor)),
    "a product as a sum": Case(lambda x, y: x * y, (ROW, ROW), aten.mul.Tensor, instead(aten.add.Tensor)),
    "a quotient, swapped": Case(lambda x, y: x / y, (PLACE, PLACE), _DIVIDED, swapped(_DIVIDED)),
    "a larger as a smaller": Case(torch.maximum, (ROW, ROW), aten.maximum.default, instead(aten.minimum.default)),
    "a smaller as a larger": Case(torch.minimum, (ROW, ROW), aten.minimum.default, instead(aten.maximum.default)),
    "an angle, swapped": Case(torch.atan2, (ROW, ROW), aten.atan2.default, swapped(aten.atan2.default)),
    "a power, swapped": Case(torch.pow, (PLACE, PLACE), aten.pow.Tensor_Tensor, swapped(aten.pow.Tensor_Tensor)),
    "a rest of the other sign": Case(torch.remainder, (ROW, PLACE), aten.remainder.Tensor, instead(aten.fmod.Tensor)),
    "a rest of C as Python's": Case(torch.fmod, (ROW, PLACE), aten.fmod.Tensor, instead(aten.remainder.Tensor)),
    "equal as unequal": Case(lambda x, y: x == y, (integers(500), integers(500)), aten.eq.Tensor, instead(aten.ne.Tensor)),
    "at most as less": Case(lambda x, y: x <= y, (integers(500), integers(500)), aten.le.Tensor, instead(aten.lt.Tensor)),
    "at least as more": Case(lambda x, y: x >= y, (integers(500), integers(500)), aten.ge.Tensor, instead(aten.gt.Tensor)),
    "both as one of both": Case(
        lambda x, y: (x > 3).logical_and(y > 3),
        (integers(500), integers(500)),
        aten.logical_and.default,
        instead(aten.logical_or.default),
    ),
    "bits, or for exclusive or": Case(
        lambda x, y: x ^ y, (integers(500), integers(500)), aten.bitwise_xor.Tensor, instead(aten.bitwise_or.Tensor)
    ),
    "bits, a shift the other way": Case(
        torch.bitwise_left_shift,
        (integers(500, low=1), integers(500, low=1)),
        aten.bitwise_left_shift.Tensor,
        instead(aten.bitwise_right_shift.Tensor),
    ),
    "a choice of the other": Case(lambda x, y: torch.where(x > 0, x, y), (ROW, ROW), aten.where.self, _other_choice),
    "a clamp without its lower bound": Case(lambda x: x.clamp(-0.5, 0.5), (ROW,), aten.clamp_min.default, same),
    "a clamp without its upper bound": Case(lambda x: x.clamp(-0.5, 0.5), (ROW,), aten.clamp_max.default, same),
    "a sum off by a thousandth": Case(lambda x: x.sum(-1), (SQUARES,), aten.sum.dim_IntList, times(aten.sum.dim_IntList, 1.001)),
    "a mean off by a thousandth": Case(lambda x: x.mean(-1), (SQUARES,), aten.mean.dim, times(aten.mean.dim, 1.001)),
    "a largest as smallest": Case(lambda x: x.amax(-1), (TABLE,), aten.amax.default, instead(aten.amin.default)),
    "a smallest as largest": Case(lambda x: x.amin(-1), (TABLE,), aten.amin.default, instead(aten.amax.default)),
    "a place of the largest as the smallest's": Case(
        lambda x: x.argmax(-1), (TABLE,), aten.argmax.default, instead(aten.argmin.default)
    ),
    "a place of the smallest as the largest's": Case(
        lambda x: x.argmin(-1), (TABLE,), aten.argmin.default, instead(aten.argmax.default)
    ),
    "a product over rows as a sum": Case(
        lambda x: x.prod(-1), (numbers(24, 6),), aten.prod.dim_int, lambda x, dim, *rest: lowered(aten.sum.dim_IntList)(x, [dim])
    ),
    "any as its opposite": Case(
        lambda x: (x > 1.5).any(-1), (TABLE,), aten.any.dim, _then(aten.any.dim, aten.logical_not.default)
    ),
    "a running sum off by a thousandth": Case(
        lambda x: x.cumsum(-1), (SQUARES,), aten.cumsum.default, times(aten.cumsum.default, 1.001)
    ),
    "a row of an embedding, the next": Case(
        lambda w, i: F.embedding(i, w),
        (numbers(10, 16), integers(20)),
        aten.embedding.default,
        shifted(aten.embedding.default, 1, 1),
    ),
    "elements by index, the next": Case(
        lambda x, i: x[i], (numbers(10, 16), integers(20)), aten.index.Tensor, shifted(aten.index.Tensor, 1, 1)
    ),
    "elements gathered, the next": Case(
        lambda x, i: x.gather(0, i), (numbers(10, 16), integers(5, 16)), aten.gather.default, shifted(aten.gather.default, 2, 1)
    ),
    "rows scattered, one on": Case(
        lambda x, i, y: x.scatter(0, i, y),
        (numbers(10, 16), integers(5, 16), numbers(5, 16)),
        aten.scatter.src,
        shifted(aten.scatter.src, 2, 1),
    ),
    "rows put by index, one on": Case(
        lambda x, i, y: x.index_put((i,), y, accumulate=True),
        (numbers(10, 16), integers(5), numbers(5, 16)),
        aten.index_put.default,
        shifted(aten.index_put.default, 1, 1),
    ),
    "rows that are not reversed": Case(lambda x: x.flip(0), (TABLE,), prims.rev.default, same),
    "parts joined in the other order": Case(
        lambda x, y: torch.cat([x, y]) * 2, (TABLE, TABLE), aten.cat.default, _reversed(aten.cat.default)
    ),
    "a row of a table, the next": Case(
        lambda x: x.select(0, 3) * 2, (TABLE,), aten.select.int, _with_number(aten.select.int, 2, 4)
    ),
    "rows of a table, one on": Case(lambda x: x[2:9] * 2, (TABLE,), aten.slice.Tensor, _one_row_on),
    "a margin of another number": Case(
        lambda x: F.pad(x, (1, 2), value=0.5) * 2,
        (TABLE,),
        aten.constant_pad_nd.default,
        _with_number(aten.constant_pad_nd.default, 2, 0.0),
    ),
    "numbers cut off that are rounded": Case(
        lambda x: (x * 10).to(torch.int32), (ROW,), prims.convert_element_type.default, _rounded
    ),
    "an average of a window off": Case(
        lambda x: F.avg_pool2d(x, 3), (numbers(2, 3, 12, 12),), aten.avg_pool2d.default, times(aten.avg_pool2d.default, 1.001)
    ),
    "a filled table of another number": Case(
        lambda x: torch.full_like(x, 1.25) + x, (TABLE,), aten.full.default, _with_number(aten.full.default, 1, 1.26)
    ),
    "whole numbers from one on": Case(
        lambda x: torch.arange(40, device=x.device) * x,
        (TABLE,),
        prims.iota.default,
        _shifted_result(prims.iota.default),
    ),
}


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (function, argument, operator, body) in OF_ONE.items():
        yield name, Case(function, (argument,), operator, pointwise(body))
    yield from CASES.items()


def _in(dtype: Any, case: Case, grad: bool = False) -> Callable[[], Built]:
    """The program of a case with floats of this dtype."""

    def build() -> Built:
        made = [make() for make in case.arguments]
        return case.function, tuple(x.to(dtype).requires_grad_(grad) if x.is_floating_point() else x for x in made)

    return build


#: Faults of many kinds.
OPERATORS: dict[str, Fault] = {
    name: Fault(on(case.function, *case.arguments), {case.operator: case.wrong}) for name, case in _cases()
}
#: The same programs without a fault, in two dtypes.
RIGHT_OPERATORS: dict[str, Fault] = {
    f"right: {name}, {str(dtype).removeprefix('torch.')}": Fault(_in(dtype, case), {})
    for name, case in _cases()
    for dtype in (torch.float32, torch.bfloat16)
    if dtype is torch.float32 or any(make().is_floating_point() for make in case.arguments)
}
