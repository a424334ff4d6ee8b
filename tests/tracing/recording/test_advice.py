"""Advice on an error of a function that was called wrongly."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.lab.live.call import Call
from explorer.tracing.recording.advice import devices_apart
from tests.facts import in_a_line, untold

pytestmark = pytest.mark.compile


def test_an_error_of_a_wrong_call_says_how_to_call() -> None:
    """The function's own error goes through, with a note on how `trace` takes arguments and runs a backward."""
    with pytest.raises(AttributeError, match="'tuple' object has no attribute") as given:
        explorer.trace(lambda x: x.sin(), (torch.randn(4),))
    (note,) = given.value.__notes__
    assert not untold(note, "explorer", "one argument", "explorer.trace(lambda x: x.sin(), torch.randn(4))")
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


def test_arguments_that_the_function_does_not_take_are_named() -> None:
    """In a tuple they are written one by one; those that are missing are named by the function's signature."""
    x = torch.randn(2, 2)
    inputs = [x, x]
    with pytest.raises(TypeError, match="missing") as given:
        explorer.trace(product, inputs, backend="eager")
    assert given.value.__notes__[0].endswith("write explorer.trace(product, *inputs, backend='eager')")
    for wrong in ((x,), (x, x, x)):
        with pytest.raises(TypeError) as short:
            explorer.trace(product, *wrong, backend="eager")
        assert short.value.__notes__[0].endswith("write explorer.trace(f, x, y)")


def test_an_operator_that_refuses_its_inputs_is_told_in_one_line() -> None:
    """The failure begins with the operator's own reason and the program's line."""
    trace = explorer.trace(product, torch.randn(4, 5), torch.randn(4, 5), target="h100")
    line = product.__code__.co_firstlineno + 1
    assert in_a_line(trace, "[4, 5] X [4, 5]", f"{__file__}:{line}", "x @ y")


@pytest.mark.parametrize(
    "error", ["Expected all tensors to be on the same device, but found two", "found two different devices cpu, meta"]
)
def test_a_module_on_another_device_than_its_arguments_is_told(error: str) -> None:
    """Both devices are named; where the module has tensors on both, or the error is another one, nothing is said."""
    module, x = torch.nn.Linear(4, 4, device="meta"), torch.randn(4, 4)
    said = devices_apart(RuntimeError(error), Call(module, (x,), {}))
    assert not untold(said, "module is on meta", "arguments are on cpu", "model.to('cpu')")
    assert not devices_apart(RuntimeError("other"), Call(module, (x,), {}))
    module.register_buffer("other", x)
    assert not devices_apart(RuntimeError(error), Call(module, (x,), {}))


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y


def raises_its_own(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("mine")
