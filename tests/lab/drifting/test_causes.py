"""Causes of an error, each proved by a run with it switched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import explorer
from explorer.lab.drifting.causes import Explained, of_compiler, of_lines, of_settings, rounding_of
from explorer.lab.drifting.eager_errors import eager_run
from explorer.lab.drifting.lines import lines_of
from explorer.lab.live.call import Call
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.protocol import live_of


def causes_of_lines(function: Callable[..., Any], *args: Any, dtype: str = "float32") -> list[Explained]:
    """What is said of the lines of an eager run."""
    call = Call(function, args, {})
    run = eager_run(call)
    return list(of_lines(call, run, lines_of(run.errors, []), rounding_of(dtype)))


def test_a_cast_is_proved_by_a_run_in_which_it_alone_rounds() -> None:
    """The error with that line alone rounded is the error of the whole."""

    def program(x: Any, w: Any) -> Any:
        narrow = (x @ w).bfloat16()
        return narrow.float().relu()

    (cause,) = causes_of_lines(program, torch.rand(16, 64), torch.rand(64, 16))
    assert (cause.cause, cause.place.code) == ("cast to bfloat16", "narrow = (x @ w).bfloat16()")
    assert cause.switched == pytest.approx(cause.error, rel=0.05)


def test_cancellation_goes_with_exact_operands() -> None:
    """The subtraction is named, not the addition whose rounding it amplifies; with exact operands it is exact to a rounding."""

    def program(a: Any, b: Any) -> Any:
        shifted = a + b
        return shifted - a

    (cause,) = causes_of_lines(program, torch.full((100,), 1e6), torch.rand(100))
    assert cause.cause.startswith("cancellation: aten.sub.Tensor")
    assert cause.place.code == "return shifted - a"
    assert cause.error > 1e-3 and cause.switched < 1e-7


def test_an_overflow_is_named_where_it_begins() -> None:
    """What is computed from infinity is not named."""

    def program(x: Any) -> Any:
        grown = x.exp()
        return grown / grown.sum()

    (cause,) = causes_of_lines(program, torch.full((4,), 12.0, dtype=torch.float16), dtype="float16")
    assert (cause.cause, cause.place.code) == ("float16 overflows in aten.exp.default", "grown = x.exp()")


def test_a_sum_in_another_order_is_another_sum() -> None:
    """A sum that loses small numbers beside large ones has another error in the reverse order."""

    def program(x: Any) -> Any:
        return x.sum()

    x = torch.cat([torch.full((1,), 1e8), torch.rand(4096), torch.full((1,), -1e8)])
    (cause,) = causes_of_lines(program, x)
    assert cause.cause in ("order of summation in aten.sum.default", "precision inside aten.sum.default")
    assert cause.error > 10 * cause.switched or cause.switched > 1.5 * cause.error or cause.switched < cause.error / 1.5


def test_an_ordinary_program_has_no_cause() -> None:
    """No line of a softmax, a layer norm or a product in float32 stands out."""

    def program(x: Any, w: Any) -> Any:
        hidden = F.layer_norm(x @ w, (64,))
        return torch.softmax(F.gelu(hidden), -1)

    assert causes_of_lines(program, torch.randn(32, 64), torch.randn(64, 64)) == []


def test_a_setting_that_changes_nothing_is_no_cause() -> None:
    """A program without attention, with products in full precision, has no setting to blame."""
    call = Call(lambda x: x @ x, (torch.rand(8, 8),), {})
    assert list(of_settings(call, eager_run(call))) == []


@pytest.mark.compile
@pytest.mark.usefixtures("warm_python")
def test_intermediates_in_float32_are_proved_by_emulating_the_casts() -> None:
    """Compiled is nearer to float64 than eager; with `emulate_precision_casts` it is as far."""

    def program(x: Any, y: Any) -> Any:
        return ((((x + y) * 1.01 + y) * 0.99) + x) * 1.02

    args = [torch.randn(32, 32, dtype=torch.bfloat16) for _ in range(2)]
    t = explorer.trace(program, *args, target="h100")
    live = live_of(t)
    assert isinstance(live, LiveFunction)
    run = eager_run(live.call)
    drift = t.drift(cause=False)
    (row,) = drift.results
    errors = row["eager_error"], row["compiled_error"]
    assert errors[1] * 1.5 < errors[0]
    (cause,) = of_compiler(t, live, run.exact, errors, lines_of(run.errors, []), None)
    assert (cause.cause, cause.switch) == ("fusion keeps intermediates in float32", 'options={"emulate_precision_casts": True}')
    assert cause.error == errors[1] and cause.switched == pytest.approx(errors[0], rel=0.1)
