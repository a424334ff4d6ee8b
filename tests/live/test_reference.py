"""The rule of a check: how far compiled code and eager each are from the same call in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.live.call import Call, run_call, weighted
from explorer.live.reference import compared, errors, in_float64, reference

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")


class Block(nn.Module):
    """A residual block whose norms hold the deeper layers' gradients together."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@pytest.fixture(scope="module", params=["bfloat16", "float16"])
def deep(request: pytest.FixtureRequest) -> Any:
    """Several layers of 16 bits, trained, for a GPU that is not there."""
    torch.manual_seed(0)
    dtype = getattr(torch, request.param)
    module = nn.Sequential(*(Block() for _ in range(3)), nn.LayerNorm(32)).to(dtype)
    return explorer.trace(module, torch.randn(8, 32, dtype=dtype, requires_grad=True), target="h100", train=True)


def test_rounding_of_sixteen_bits_is_no_difference(deep: Any) -> None:
    """Every gradient is as near to float64 as eager's, and each row says how near both are."""
    rows = deep.check()
    assert [dict(row) for row in rows if not row["equal"]] == [] and len(rows) > 20
    assert all(row["error"] is not None and row["eager_error"] is not None for row in rows)


@pytest.mark.parametrize(("right", "wrong"), [("0.7071067811865476", "0.77"), ("0.3989422804014327", "0.43"), ("32.0", "30.0")])
def test_a_kernel_that_is_a_little_wrong_is_found(deep: Any, right: str, wrong: str) -> None:
    """A constant changed by a few parts in a hundred, forward or backward, is not taken for rounding."""
    texts = [code.text for code in deep.live.codes]
    assert any(right in text for text in texts), "the code has the constant that is broken here"
    try:
        for code, text in zip(deep.live.codes, texts, strict=True):
            object.__setattr__(code, "text", text.replace(right, wrong))
        assert not all(row["equal"] for row in deep.check())
    finally:
        for code, text in zip(deep.live.codes, texts, strict=True):
            object.__setattr__(code, "text", text)


def test_one_wrong_element_among_many_is_found() -> None:
    """The largest error counts as well as the mean."""
    exact = torch.randn(10_000, dtype=torch.float64)
    eager, given = exact.bfloat16(), exact.bfloat16()
    assert errors(exact, [eager], given)["equal"]
    given[17] += 0.25
    assert not errors(exact, [eager], given)["equal"]
    assert not errors(exact, [eager], eager * 1.02)["equal"]


def test_infinities_and_nan_are_equal_to_themselves_only() -> None:
    """Overflow where float64 rounds to it is right; elsewhere, as NaN where there is a number, it is wrong."""
    exact = torch.tensor([1.0, 1e6, float("inf"), float("nan")], dtype=torch.float64)
    eager = exact.half()
    assert errors(exact, [eager], eager.clone())["equal"]
    for place, wrong in ((0, float("nan")), (0, float("inf")), (1, 1.0), (2, 1.0), (3, 1.0)):
        given = eager.clone()
        given[place] = wrong
        assert not errors(exact, [eager], given)["equal"]


def test_the_user_s_module_stays_as_it_is() -> None:
    """float64 is for copies: parameters, buffers and gradients are the user's own afterwards."""
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).bfloat16()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.randn(6, 4, dtype=torch.bfloat16, requires_grad=True)
    found = dict(reference(Call(module, (x,), {}, True)) or ())
    assert found["output"].dtype == found["gradient of 0.weight"].dtype == torch.float64
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module[0].weight.dtype == torch.bfloat16 and module[0].weight.grad is None and x.grad is None
    assert in_float64(module.forward).__self__ is not module


def test_without_a_reference_the_tolerance_decides() -> None:
    """A function with constants of its own type cannot be called in float64, and is compared with eager as it is."""
    weight = torch.randn(4, 4, dtype=torch.bfloat16)
    call = Call(lambda x: x @ weight, (torch.randn(3, 4, dtype=torch.bfloat16),), {})
    one = run_call(call.function, call, weighted)
    assert reference(call) is None
    assert [(r["equal"], r["error"]) for r in compared(call, one, one)] == [(True, None)]
    assert [r["equal"] for r in compared(call, one, (one[0] * 2, None))] == [False]


def test_long_sums_of_thirty_two_bits_are_judged_by_their_errors() -> None:
    """Where float32 is far from eager it is equal if eager is as far from the truth, and unequal if it alone is far."""
    half = torch.randn(10_000) * 1e6
    x = torch.cat([half, -half])
    call = Call(lambda t: t.sum(), (x,), {})
    exact = x.double().sum()
    eager, given, wrong = ((exact + gap).float() for gap in (30, -60, 900))
    equal = [compared(call, (eager, None), (other, None))[0]["equal"] for other in (given, wrong)]
    assert equal == [True, False]
