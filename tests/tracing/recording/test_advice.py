"""Advice on an error of a function that was called wrongly."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


def test_an_error_of_a_wrong_call_says_how_to_call() -> None:
    """The function's own error goes through, with a note on how `trace` takes arguments and runs a backward."""
    with pytest.raises(AttributeError, match="'tuple' object has no attribute") as given:
        explorer.trace(lambda x: x.sin(), (torch.randn(4),))
    (note,) = given.value.__notes__
    assert not untold(note, "explorer", "one argument", "trace(f, x, y)")
    weight = torch.randn(4, requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (x * weight).sum()
        loss.backward()
        return loss.detach()

    with pytest.raises(RuntimeError, match="does not have a grad_fn") as caught:
        explorer.trace(step, torch.randn(4), backend="eager")
    assert "with explorer.record() as r: torch.compile(f)(x)" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="mine") as own:
        explorer.trace(raises_its_own, torch.randn(4), backend="eager")
    assert not hasattr(own.value, "__notes__")


def raises_its_own(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("mine")
