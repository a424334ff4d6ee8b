"""Shadows: the float64 value beside each value of an eager run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch

from explorer.capture.interpret.shadows import Shadowed, relative_error, shadowed

#: A cast that loses most of the digits, and a sum of it.
NARROW = torch.bfloat16


@torch.library.custom_op("shadow_test::only_float32", mutates_args=())
def only_float32(x: torch.Tensor) -> torch.Tensor:
    """An operator without float64."""
    if x.dtype != torch.float32:
        raise RuntimeError("only float32")
    return x * 2


def run(function: Callable[..., Any], *args: Any, rounded: Collection[int] = ()) -> tuple[Any, Any, Shadowed]:
    """Call a function with shadows: its result, the float64 value of that, and the run."""
    with shadowed(__file__ + " beyond", {}, rounded) as noted:
        result = function(*args)
    return result, noted.value(result), noted


def test_views_and_writes_in_place_reach_the_float64_value() -> None:
    """A write through a view changes the shadow of the whole tensor, as it changes the tensor."""

    def program(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        out.t()[1:].copy_(x.t()[1:] / 3)
        out[0].add_(x[0] / 7)
        return out

    x = torch.randn(5, 4)
    result, exact, _ = run(program, x)
    assert exact.dtype == torch.float64
    assert torch.equal(exact, program(x.double()))
    assert not torch.equal(exact, result.double())


def test_a_cast_adds_the_rounding_of_its_type_at_its_line() -> None:
    """The operator that casts has the error, its operand has none to speak of, and the line is the program's."""

    def program(x: torch.Tensor) -> torch.Tensor:
        narrow = (x * 3).to(NARROW)
        return narrow.float()

    _, _, noted = run(program, torch.rand(1000))
    cast = max(noted.errors, key=lambda operator: operator.added)
    assert (cast.operator, cast.narrowed, cast.dtype) == ("aten._to_copy.default", True, "bfloat16")
    assert 2**-11 < cast.error < 2**-8 and cast.operand_error < 2**-23
    assert cast.place.code == "narrow = (x * 3).to(NARROW)"
    assert cast.place.file == __file__


def test_a_backward_operator_has_the_line_of_its_forward() -> None:
    """Autograd's operators are found by the number of the forward's operator, as rows of the backward."""

    def program(x: torch.Tensor) -> torch.Tensor:
        scaled = x.exp()
        root = scaled.sqrt()
        return torch.autograd.grad(root.sum(), x)[0]

    _, _, noted = run(program, torch.rand(100, requires_grad=True))
    codes = {operator.place.code for operator in noted.errors if operator.place.backward}
    assert {"scaled = x.exp()", "root = scaled.sqrt()"} <= codes


def test_gradients_are_those_of_float64() -> None:
    """Tensors that autograd saved have their float64 values in the backward."""
    x = torch.randn(64, requires_grad=True)

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((torch.sigmoid(x) * x.exp()).sum(), x)[0]

    _, exact, _ = run(program, x)
    assert torch.allclose(exact, program(x.detach().double().requires_grad_()), rtol=1e-14, atol=0)


def test_random_numbers_are_the_programs_own() -> None:
    """What is drawn has no other float64 value, and the run says that it was drawn."""
    result, exact, noted = run(lambda x: torch.dropout(x, 0.5, True), torch.rand(100))
    assert noted.drawn
    assert relative_error(result, exact) < 1e-7


def test_an_operator_without_float64_is_noted() -> None:
    """Its own value stands for the float64 value, and why is said; the program goes on."""
    result, exact, noted = run(lambda x: only_float32(x), torch.rand(10))
    assert [operator.note for operator in noted.errors] == ["RuntimeError: only float32"]
    assert torch.equal(exact, result.double())


def test_an_operator_that_is_rounded_alone_has_its_own_error() -> None:
    """The float64 value has the rounding of that operator, and of no other."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return (x * 3).to(NARROW).float() / 7

    x = torch.rand(1000)
    number = next(o.number for o in run(program, x)[2].errors if o.narrowed)
    _, exact, noted = run(program, x, rounded={number})
    assert torch.equal(exact, (x.double() * 3).float().to(NARROW).double() / 7)
    assert noted.local[number].itself == pytest.approx(noted.local[number].rounded_once, rel=0.01)


def test_infinity_is_an_infinite_error_only_where_float64_is_finite() -> None:
    """A mask of -inf is no error; an overflow is one."""
    mask = torch.tensor([0.0, float("-inf")])
    assert relative_error(mask, mask.double()) == 0
    assert relative_error(torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 2.0], dtype=torch.float64)) == float("inf")


def test_a_value_that_is_zero_in_float64_has_no_relative_error() -> None:
    """A gradient that is zero but for rounding would be an error of 10^8; a real cancellation stays one."""
    noise, exact = torch.full((4,), 1e-8), torch.full((4,), 1e-17, dtype=torch.float64)
    assert relative_error(noise, exact) == relative_error(noise, 0 * exact) == 0
    assert relative_error(torch.tensor([1.0]), torch.tensor([1e-3], dtype=torch.float64)) == pytest.approx(999)
