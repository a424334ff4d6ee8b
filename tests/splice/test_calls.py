"""The calls of a compiled function's wrappers, with their arguments and results."""

from __future__ import annotations

import pytest
import torch

import explorer


def program(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sin() * 2


@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_call_has_its_arguments_of_before_and_after_and_what_it_returned(target: str) -> None:
    """The code is given the input as it was, leaves it changed, and returns what eager does."""
    x = torch.randn(8, 16)
    trace = explorer.trace(program, x.clone(), target=target)
    live = trace.needs_live("")
    (call,) = live.calls()
    assert call.file == live.wrappers[0].file
    assert torch.equal(call.before[0], x) and torch.allclose(call.after[0], x + 1)
    assert torch.allclose(call.returned[0], (x + 1).sin() * 2)
    assert [row["equal"] for row in trace.check()] == [True, True]


def test_forward_and_backward_are_recorded_in_their_order() -> None:
    """A training trace has two calls, the first of the forward."""
    x = torch.randn(8, 16, requires_grad=True)
    trace = explorer.trace(lambda x: (x.sin() * 2).cos(), x, target="h100", train=True)
    files = [artifact.data["file"] for graph in ("forward", "backward") for artifact in trace.find("output_code", graph=graph)]
    assert [call.file for call in trace.needs_live("").calls()] == files
