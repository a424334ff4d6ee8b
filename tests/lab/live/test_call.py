"""Arguments of a call that is repeated: jagged tensors, dataclasses, objects of the program's, one tensor given twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import explorer
from explorer.errors import InputError
from tests.facts import says

pytestmark = pytest.mark.compile


@dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    scale: torch.Tensor


class Own:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def steps(batch: Batch) -> torch.Tensor:
    return batch.x.add_(1) * batch.scale


def doubled(batch: Batch) -> dict[str, Batch]:
    return {"out": Batch(batch.x * 2, batch.scale + 1)}


def reads(own: Own) -> torch.Tensor:
    return own.x * 2


def writes(own: Own) -> torch.Tensor:
    return own.x.add_(1) * 2


def equal(trace: explorer.Trace) -> dict[str, bool]:
    return {row["output"]: row["equal"] for row in trace.check()}


def jagged(grad: bool = False) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged, requires_grad=grad)


def test_a_jagged_argument_is_checked() -> None:
    """Its copies pass Dynamo's guards, and the values and offsets of what is returned are compared."""
    made = explorer.trace(lambda x: torch.sin(x) * 2, jagged(), target="h100")
    assert not made.failures and equal(made) == {"output.values()": True, "output.offsets()": True}


def test_a_jagged_argument_is_differentiated() -> None:
    """With train=True the gradient of a jagged tensor is compared, values and offsets."""
    made = explorer.trace(lambda x, w: torch.sin(x) @ w, jagged(grad=True), torch.randn(8, 4), target="h100", train=True)
    assert not made.failures and set(made.live.gradients) == {"args[0]"}
    assert equal(made) == {
        "output.values()": True,
        "output.offsets()": True,
        "gradient of args[0].values()": True,
        "gradient of args[0].offsets()": True,
    }


def test_two_jagged_arguments_of_one_shape_stay_so() -> None:
    """Two with the same offsets can be added, and so can their copies."""
    one = jagged()
    other = torch.nested.nested_tensor_from_jagged(torch.randn(8, 8), one.offsets())
    assert all(equal(explorer.trace(lambda x, y: x + y, one, other, target="h100")).values())


@pytest.mark.parametrize("target", ["h100", "auto"])
def test_a_dataclass_is_copied(target: str) -> None:
    """A check of a function that changes a dataclass's tensor works on copies, and leaves the trace's own as it is."""
    batch = Batch(torch.zeros(4), torch.arange(4.0))
    made = explorer.trace(steps, batch, target=target, backend="inductor" if target == "h100" else "aot_eager")
    rows = made.check()
    assert [row["output"] for row in rows] == ["output", "args[0].x after the call"]
    assert all(row["equal"] and row["max_abs"] == 0 for row in rows)
    assert torch.equal(batch.x, torch.ones(4)), "the traced call itself runs once on the caller's tensors"


def test_a_dataclass_is_returned_and_differentiated() -> None:
    """Tensors in a dataclass have names, as arguments, outputs and gradients."""
    batch = Batch(torch.zeros(4, requires_grad=True), torch.arange(4.0))
    made = explorer.trace(doubled, batch, target="h100", train=True)
    assert equal(made) == {"output['out'].x": True, "output['out'].scale": True, "gradient of args[0].x": True}


def test_one_tensor_given_twice_stays_one() -> None:
    """A function that changes one of its arguments sees the change in the other, also when it is checked."""
    x = torch.randn(8)
    assert equal(explorer.trace(lambda a, b: a.add_(1) * b, x, x, target="h100")) == {
        "output": True,
        "args[0] after the call": True,
    }


@pytest.mark.parametrize("target", ["h100", "auto"])
def test_an_object_of_another_class_is_kept_as_it_is(target: str) -> None:
    """It is not copied: what a check changes of it is compared, and put back."""
    own = Own(torch.zeros(4))
    traced: Callable[..., Any] = lambda f: explorer.trace(  # noqa: E731
        f, own, target=target, backend="inductor" if target == "h100" else "aot_eager"
    )
    assert equal(traced(reads)) == {"output": True}
    changes = traced(writes)
    assert equal(changes) == {"output": True, "args[0].x after the call": True}
    assert torch.equal(own.x, torch.ones(4)), "only the traced call itself runs on the caller's tensors"


def test_an_object_that_cannot_be_moved_says_so() -> None:
    """A tensor on another device, in an object that is not opened, is named with what to do."""
    own = Own(torch.zeros(4, device="meta"))
    with pytest.raises(InputError, match=says("kwargs['own'].x", "meta", "'cpu'")):
        explorer.trace(reads, kwargs={"own": own}, target="h100")


def test_what_is_not_the_traced_function_any_more_says_so() -> None:
    """A check in which Dynamo would compile anew is an error that says so, without the compiler's own error around it."""
    sizes = [8]
    made = explorer.trace(lambda x: x * sizes[0], torch.randn(4), target="h100")
    sizes[0] = 9
    with pytest.raises(InputError, match=says("compiled", "torch._dynamo.reset()")):
        made.check()


def test_a_number_that_is_another_to_the_last_bit_says_so() -> None:
    """Dynamo goes on after `.item()` for that very number. Where the interpreter rounds to another, the program is not blamed."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    assert equal(explorer.trace(scaled, torch.ones(8), target="h100"))["output"]
    order_matters = torch.tensor([1.0, 1e8, 1.0, -1e8, 3.0, 1e7, -1e7, 0.1])
    made = explorer.trace(scaled, order_matters, target="h100")
    assert len(made.dynamo.graph_breaks) == 1
    with pytest.raises(InputError, match=says("compiled again", "does not hold", ".item()", "round", "graph break")):
        made.check()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_a_complex_output_of_16_bits_is_differentiated() -> None:
    """A CPU makes such numbers and cannot sum them: the sum is taken in 32 bits."""
    x = torch.randn(4, requires_grad=True)
    made = explorer.trace(lambda x: x.to(torch.complex32), x, backend="aot_eager", train=True)
    assert made.live.gradients["args[0]"].shape == x.shape and equal(made).keys() >= {"output"}
