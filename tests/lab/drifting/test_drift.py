"""Drift: what `t.drift()` says of a program, for a GPU you don't have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explorer
from explorer.errors import InputError, NoVerbError

triton = pytest.importorskip("triton")

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]


tl: Any = triton.language


@triton.jit
def ones(out, BLOCK: tl.constexpr):
    """Writes ones."""
    tl.store(out + tl.arange(0, BLOCK), 1.0)


def mixed(x: Any, w: Any) -> Any:
    """One cast between two lines that round."""
    hidden = torch.relu(x * w)
    narrow = hidden.to(torch.bfloat16)
    return narrow.float() + x.sum(-1, keepdim=True)


@pytest.fixture(scope="module")
def traced() -> explorer.Trace:
    """The trace of `mixed`."""
    return explorer.trace(mixed, torch.rand(16, 32), torch.rand(16, 32), target="h100")


def test_the_line_that_adds_the_most_is_named_with_its_cause(traced: explorer.Trace) -> None:
    """One row per line in order; the line of the cast alone stands out, and a run proves it."""
    drift = traced.drift()
    first = mixed.__code__.co_firstlineno
    assert [row["line"] - first for row in drift.table] == [2, 3, 4]
    assert [row["stands_out"] for row in drift.table] == [False, True, False]
    assert drift.table[1]["eager_error"] > 1e-4 > drift.table[0]["eager_error"]
    assert all(row["compiled_error"] is None or row["compiled_error"] > 0 for row in drift.table)
    assert drift.table[2]["compiled_error"] is not None and drift.table[2]["kernel"].startswith("triton_")
    assert [row["cause"] for row in drift.causes if row["of"] == "eager"] == ["cast to bfloat16"]
    said = repr(drift)
    assert "the line that adds the most: test_drift.py" in said
    assert "narrow = hidden.to(torch.bfloat16)" in said
    assert "run to run, eager: the same bits" in said


def test_without_cause_nothing_is_switched(traced: explorer.Trace) -> None:
    """The table stays, and the empty table of causes says that they were not asked for."""
    drift = traced.drift(cause=False)
    assert drift.causes == () and "not asked" in drift.causes.why_empty
    assert len(drift.table) == 3


def test_a_gradient_is_compared_too() -> None:
    """With train=True the gradients have errors, and rows of the backward the forward's lines."""
    x = torch.rand(16, 32, requires_grad=True)
    drift = explorer.trace(lambda x: (x.exp() * 2).sin(), x, target="h100", train=True).drift(cause=False)
    results = {row["result"]: row for row in drift.results}
    assert {"output", "gradient of args[0]"} == set(results)
    assert all(0 < row["compiled_error"] < 1e-5 for row in results.values())
    assert [row["backward"] for row in drift.table] == [False, True]


def test_random_numbers_keep_compiled_values_out() -> None:
    """Compiled code draws other numbers, which would be no drift; eager is compared as it is."""
    drift = explorer.trace(lambda x: torch.dropout(x * 3, 0.5, True), torch.rand(64), target="h100").drift(cause=False)
    assert all(row["compiled_error"] is None for row in drift.results)
    assert "draws random numbers" in repr(drift)


def test_what_it_cannot_do_it_says(traced: explorer.Trace) -> None:
    """A number of runs and a number of seconds are asked for."""
    with pytest.raises(InputError, match="repeats is a number of runs"):
        traced.drift(repeats=1)
    with pytest.raises(InputError, match="limit is a number"):
        traced.drift("1")  # type: ignore[arg-type]


def test_a_hand_written_kernel_is_refused_with_another_way() -> None:
    """It has no eager program that could be computed in float64."""
    t = explorer.trace(ones, torch.zeros(8), BLOCK=8, grid=(1,), target="h100", sass=False)
    with pytest.raises(NoVerbError, match="expected="):
        t.drift()
