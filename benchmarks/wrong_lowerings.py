"""Programs with a fault planted in the compiler: one operator is lowered to something else than it computes.

Of each fault a check must say that the compiled code is wrong. Of the programs in `RIGHT`, which are lowered as they should
be, it must not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch._inductor import lowering
from torch._inductor.virtualized import ops
from torch.nn import functional as F

aten, prims = torch.ops.aten, torch.ops.prims
#: A function and its arguments.
Built = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Fault:
    """A program, and the operators of it that are lowered to something else."""

    build: Callable[[], Built]
    wrong: Mapping[Any, Callable[..., Any]]
    train: bool = False


@contextmanager
def planted(fault: Fault) -> Iterator[list[Any]]:
    """Lower the fault's operators wrongly; gives a list that has each of them when it was lowered so."""
    reached: list[Any] = []
    with ExitStack() as stack:
        for operator, wrong in fault.wrong.items():
            original = lowering.lowerings[operator]

            def lower(*args: Any, operator: Any = operator, wrong: Any = wrong, **kwargs: Any) -> Any:
                reached.append(operator)
                return wrong(*args, **kwargs)

            stack.callback(lowering.lowerings.__setitem__, operator, original)
            lowering.lowerings[operator] = lower
        yield reached


def pointwise(body: Callable[..., Any], dtype: Any = None) -> Callable[..., Any]:
    """A lowering that computes each element so."""
    return lowering.make_pointwise(body, override_return_dtype=dtype)


def _number(value: float, dtype: Any = torch.float32) -> Any:
    return ops.constant(value, dtype)


def _plus_one_more(x: Any, other: Any, alpha: int = 1) -> Any:
    return pointwise(lambda a: ops.add(a, _number(other + 1, torch.int64)))(x)


def _first(body: Callable[[Any], Any], dtype: Any = None) -> Callable[..., Any]:
    """A lowering that looks at its first argument only."""
    return lambda first, *others: pointwise(body, dtype)(first)


def _sine_in_float32(x: Any) -> Any:
    return ops.to_dtype(ops.sin(ops.to_dtype(x, torch.float32)), torch.float64)


def _log_without_nan(x: Any) -> Any:
    return ops.where(ops.lt(x, _number(0.0)), _number(0.0), ops.log(x))


def _relu_to_four(x: Any) -> Any:
    return ops.where(ops.gt(x, _number(4.0)), _number(0.0), ops.relu(x))


#: The sine as cosine, which most of the programs have as their fault, and the same in a backward.
COSINE = {aten.sin.default: pointwise(lambda x: ops.cos(x))}
SINE = {aten.cos.default: pointwise(lambda x: ops.sin(x))}


def scaled_sine(factor: float, dtype: Any) -> Mapping[Any, Callable[..., Any]]:
    """The sine off by a factor."""
    return {aten.sin.default: pointwise(lambda x: ops.mul(ops.sin(x), _number(factor, dtype)))}


# Programs ----------------------------------------------------------------------------------------------------------------


def on(function: Callable[..., Any], *arguments: Callable[[], Any]) -> Callable[[], Built]:
    """A function on tensors that are made when it is built."""
    return lambda: (function, tuple(make() for make in arguments))


def normal(*shape: int, dtype: Any = None, grad: bool = False) -> Callable[[], Any]:
    """Normally distributed numbers."""
    return lambda: torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def zeros(*shape: int) -> Callable[[], Any]:
    """Zeros."""
    return lambda: torch.zeros(*shape)


def whole(start: int, end: int, dtype: Any = torch.int64) -> Callable[[], Any]:
    """The whole numbers from start to before end."""
    return lambda: torch.arange(start, end, dtype=dtype)


class WritesBuffer(nn.Module):
    """Writes its buffer, which nothing that it returns depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(100))

    def forward(self, x: Any) -> Any:
        self.last.copy_(torch.sin(x))
        return x + 1


class Counts(nn.Module):
    """Counts its calls in a buffer that its result depends on."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        return self.function(x) * self.calls


@dataclasses.dataclass
class Pair:
    """Outputs in a dataclass."""

    one: Any
    others: dict[str, Any]


class Box:
    """An output that is an object of the program's."""

    def __init__(self, value: Any) -> None:
        self.value = value


def in_place(x: Any) -> None:
    """Changes its input and returns nothing."""
    x.sin_()


def in_place_beside(x: Any, y: Any) -> Any:
    """Changes its input and returns something else."""
    x.sin_()
    return y + 1


def with_closure(function: Callable[[Any], Any], size: int) -> Callable[[], Built]:
    """A function that changes a tensor of its closure and multiplies with it."""

    def build() -> Built:
        state = torch.zeros(size)

        def call(x: Any) -> Any:
            state.add_(1)
            return function(x) * state

        return call, (torch.randn(size),)

    return build


def one_overflow() -> Built:
    """A function of float16, one of whose numbers overflows in eager mode."""
    x = torch.randn(1000).half()
    x[0] = 300
    return lambda x: x * x * 0.001 + torch.sin(x), (x,)


def average(x: Any, buffer: Any) -> Any:
    """A moving average that is kept in an argument, and a result that depends on it."""
    buffer.mul_(0.9).add_(torch.sin(x), alpha=0.1)
    return (x * buffer).sum()


def step(weight: Any, gradient: Any, momentum: Any) -> None:
    """What an optimizer does."""
    momentum.mul_(0.9).add_(gradient)
    weight.sub_(torch.sin(momentum) * 0.1)


def into(x: Any, out: Any) -> None:
    """Writes to `out`."""
    torch.sin(x, out=out)


def feed_forward() -> Built:
    """A layer with a dropout."""
    return nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.1)), (torch.randn(64, 16),)


def rare() -> Built:
    """A few of many numbers are larger than four."""
    torch.manual_seed(1)
    return torch.relu, (torch.randn(200_000),)


_MASKED = _first(lambda x: ops.bitwise_and(x, _number(0xFFFFF000, torch.int64)))
_HALF_EXP = {aten.exp.default: pointwise(lambda x: ops.exp(ops.mul(x, _number(0.5))))}

#: What is copied to a buffer is what the buffer had.
NOT_WRITTEN = {aten.copy_.default: lambda to, source, *others: to}
MORE_DROPPED = {aten.gt.Scalar: lambda x, share: pointwise(lambda a: ops.gt(a, _number(share + 0.05)), torch.bool)(x)}


def norm(make: Callable[[int], nn.Module], channels: int, *shape: int) -> Callable[[], Built]:
    """A normalisation in training."""
    return lambda: (make(channels), (torch.randn(*shape) + 1,))


def instance_norm(channels: int) -> nn.Module:
    """One that keeps running statistics."""
    return nn.InstanceNorm1d(channels, track_running_stats=True)


def drawn(factor: float) -> Mapping[Any, Callable[..., Any]]:
    """Random numbers that are a factor of what they should be."""
    draw = lowering.lowerings[prims.inductor_random.default]
    times = pointwise(lambda a: ops.mul(a, _number(factor)))
    return {prims.inductor_random.default: lambda *args, **kwargs: times(draw(*args, **kwargs))}


def _one_less(low: int, high: int, *others: Any, **kwargs: Any) -> Any:
    return _RANDINT(low, high - 1, *others, **kwargs)


_RANDINT = lowering.lowerings[prims.inductor_randint.default]
ONE_LESS = {prims.inductor_randint.default: _one_less}

FAULTS: dict[str, Fault] = {
    "sine as cosine": Fault(on(torch.sin, normal(1000)), COSINE),
    "small numbers": Fault(on(lambda x: torch.sin(x) * 1e-5, normal(1000)), COSINE),
    "softmax over 50,000, exp of the half": Fault(on(lambda x: torch.softmax(x * 1.0, -1), normal(2, 50_000)), _HALF_EXP),
    "whole numbers at a million, off by one": Fault(
        on(lambda x: x + 7, whole(10**6, 10**6 + 1000)), {aten.add.Tensor: _plus_one_more}
    ),
    "indices off by one": Fault(
        on(lambda x: x.bitwise_not().bitwise_not(), whole(5000, 6000)),
        {aten.bitwise_not.default: pointwise(lambda x: ops.add(x, _number(1, torch.int64)))},
    ),
    "an input that is changed, nothing returned": Fault(on(in_place, normal(1000)), COSINE),
    "an input that is changed beside an output": Fault(on(in_place_beside, normal(1000), normal(10)), COSINE),
    "a buffer that is written": Fault(lambda: (WritesBuffer(), (torch.randn(100),)), COSINE),
    "float64 computed in float32": Fault(
        on(torch.sin, normal(1000, dtype=torch.float64)), {aten.sin.default: pointwise(_sine_in_float32)}
    ),
    "float64 off by 0.0009": Fault(on(torch.sin, normal(1000, dtype=torch.float64)), scaled_sine(1.0009, torch.float64)),
    "float32 off by 0.0009": Fault(on(torch.sin, normal(1000)), scaled_sine(1.0009, torch.float32)),
    "greater as less": Fault(
        on(lambda x: x > 0, normal(1000)), {aten.gt.Scalar: _first(lambda x: ops.lt(x, _number(0.0)), torch.bool)}
    ),
    "a logarithm without NaN": Fault(
        on(torch.log, lambda: torch.tensor([-1.0, 0.0, 1.0, float("inf"), float("nan")])),
        {aten.log.default: pointwise(_log_without_nan)},
    ),
    "bfloat16, sine as cosine": Fault(on(torch.sin, normal(1000, dtype=torch.bfloat16)), COSINE),
    "bfloat16 off by 0.02": Fault(on(torch.sin, normal(1000, dtype=torch.bfloat16)), scaled_sine(1.02, torch.float32)),
    "a gradient, cosine as sine": Fault(on(torch.sin, normal(1000, grad=True)), SINE, train=True),
    "a small gradient": Fault(on(lambda x: torch.sin(x) * 1e-5, normal(1000, grad=True)), SINE, train=True),
    "below a dropout": Fault(on(lambda x: F.dropout(torch.sin(x), 0.5), normal(1000)), COSINE),
    "beside random numbers": Fault(on(lambda x: (torch.rand_like(x), torch.sin(x)), normal(1000)), COSINE),
    "the real part": Fault(on(lambda x: torch.complex(torch.sin(x), x), normal(100)), COSINE),
    "an output that is expanded": Fault(on(lambda x: torch.sin(x).expand(5, 10), normal(10)), COSINE),
    "outputs in a dict": Fault(on(lambda x: {"a": torch.sin(x), "b": (x + 1, [x * 2])}, normal(100)), COSINE),
    "outputs in a dataclass": Fault(on(lambda x: Pair(torch.sin(x), {"k": x + 1}), normal(100)), COSINE),
    "an output in an object": Fault(on(lambda x: Box(torch.sin(x)), normal(100)), COSINE),
    "a number": Fault(on(lambda x: torch.sin(x).sum().item(), normal(100)), COSINE),
    "few of many elements": Fault(rare, {aten.relu.default: pointwise(_relu_to_four)}),
    "float16, zeros for small numbers": Fault(
        on(lambda x: torch.sin(x * 1e-4), normal(1000, dtype=torch.float16)),
        {aten.sin.default: pointwise(lambda x: _number(0.0, torch.float16))},
    ),
    "a tensor of a closure": Fault(with_closure(torch.sin, 1000), COSINE),
    "beside an overflow of eager's": Fault(one_overflow, COSINE),
    "a buffer that counts": Fault(lambda: (Counts(torch.sin), (torch.randn(1000),)), COSINE),
    "a gradient through a dropout": Fault(on(lambda x: F.dropout(torch.sin(x), 0.1), normal(1000, grad=True)), SINE, train=True),
    "erf of the wrong sign below a dropout": Fault(feed_forward, {aten.erf.default: pointwise(lambda x: ops.neg(ops.erf(x)))}),
    "a hash without its low digits": Fault(
        on(lambda x: (x * 2654435761) & 0xFFFFFFFF, whole(1, 1000)),
        {aten.bitwise_and.Scalar: _MASKED, aten.bitwise_and.Tensor: _MASKED},
    ),
    "one of two token ids": Fault(
        on(lambda x: torch.where(x > 0, 30000, 30001), normal(100)),
        {aten.where.self: _first(lambda c: _number(30000, torch.int64), torch.int64)},
    ),
    "the gradient of a mean loss": Fault(
        on(lambda x, y: F.mse_loss(torch.sin(x), y), normal(200_000, grad=True), normal(200_000)), SINE, train=True
    ),
    "softmax over 20,000, exp as one": Fault(
        on(lambda x: torch.softmax(x, -1), lambda: torch.randn(4, 20_000) * 0.5),
        {aten.exp.default: pointwise(lambda x: ops.exp(ops.mul(x, _number(0.0))))},
    ),
    "expm1 as exp less one": Fault(
        on(lambda x: torch.expm1(x * 1e-6), normal(1000)),
        {aten.expm1.default: pointwise(lambda x: ops.sub(ops.exp(x), _number(1.0)))},
    ),
    "small complex numbers": Fault(on(lambda x: torch.complex(torch.sin(x) * 1e-5, x * 1e-5), normal(100)), COSINE),
    "a moving average in an argument": Fault(on(average, normal(1000), zeros(1000)), COSINE),
    "a step of an optimizer": Fault(on(step, normal(100), normal(100), zeros(100)), COSINE),
    "an out= argument": Fault(on(into, normal(100), zeros(100)), COSINE),
    "running statistics of a batch norm, not written": Fault(norm(nn.BatchNorm1d, 4, 32, 4), NOT_WRITTEN),
    "running statistics of a batch norm, in training": Fault(norm(nn.BatchNorm2d, 3, 4, 3, 5, 5), NOT_WRITTEN, train=True),
    "running statistics of an instance norm": Fault(norm(instance_norm, 3, 4, 3, 50), NOT_WRITTEN),
    "whole numbers, never the largest": Fault(on(lambda x: torch.randint_like(x, 0, 5), normal(1000)), ONE_LESS),
    "normal numbers, half as wide again": Fault(on(lambda x: torch.randn_like(x), normal(1000)), drawn(1.5)),
    "normal numbers under a sum": Fault(on(lambda x: x + torch.randn_like(x), normal(1000)), drawn(1.5)),
    "uniform numbers that are zero": Fault(on(lambda x: torch.rand_like(x) - torch.rand_like(x), normal(1000)), drawn(0.0)),
    "a dropout of 35 percent for 30": Fault(on(lambda x: F.dropout(x, 0.3), normal(1000)), MORE_DROPPED),
    "a dropout in training": Fault(on(lambda x: F.dropout(x * x, 0.3), normal(1000, grad=True)), MORE_DROPPED, train=True),
}

#: Programs without a fault, each with something that could be taken for one.
RIGHT: dict[str, Fault] = {
    "logarithm of what has none": Fault(on(torch.log, lambda: torch.tensor([-1.0, 0.0, 1.0, float("inf"), float("nan")])), {}),
    "gelu in bfloat16": Fault(on(F.gelu, normal(1000, dtype=torch.bfloat16)), {}),
    "dropout": Fault(on(lambda x: F.dropout(x, 0.5), normal(1000)), {}),
    "complex numbers": Fault(on(lambda x: x * x + 1j, normal(100, dtype=torch.complex64)), {}),
    "views": Fault(on(lambda x: (x[1:], x.t(), x), normal(10, 10)), {}),
    "a view of the input": Fault(on(lambda x: x.view(-1), normal(4, 4)), {}),
    "batch norm": Fault(lambda: (nn.BatchNorm1d(4), (torch.randn(32, 4),)), {}),
    "a buffer that counts": Fault(lambda: (Counts(torch.relu), (torch.randn(10),)), {}),
    "a tensor of a closure": Fault(with_closure(torch.relu, 10), {}),
    "int8": Fault(on(lambda x: x * 2, whole(0, 100, torch.int8)), {}),
    "uint8 that wraps": Fault(on(lambda x: x * 200 + 77, whole(0, 100, torch.uint8)), {}),
    "an image of uint8": Fault(on(lambda x: (torch.sigmoid(x) * 255).to(torch.uint8), normal(1000)), {}),
    "a mean of many": Fault(on(lambda x: x.mean(), lambda: torch.rand(100_000)), {}),
}
