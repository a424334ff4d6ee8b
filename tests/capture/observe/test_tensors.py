"""Which tensors are found in nested arguments, and what changing them gives."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from explorer.capture.observe.tensors import copied, copier, dense_parts, hidden_tensors, map_tensors, named_tensors


@dataclass(frozen=True)
class Batch:
    tokens: torch.Tensor
    more: Any = None
    size: int = 3


@dataclass
class Knot:
    x: torch.Tensor
    self: Any = field(default=None, repr=False)


class Own:
    def __init__(self) -> None:
        self.x, self.parts, self.batch = torch.ones(1), [torch.ones(2)], Batch(torch.ones(3))


@pytest.mark.parametrize(
    ("nest", "names"),
    [
        ((torch.ones(1), {"a": [torch.ones(2)]}), ["[0]", "[1]['a'][0]"]),
        ([Batch(torch.ones(1), (torch.ones(2), Batch(torch.ones(3))))], ["[0].tokens", "[0].more[0]", "[0].more[1].tokens"]),
        (SimpleNamespace(x=torch.ones(1)), [".x"]),
        (UserDict(x=torch.ones(1)), [".data['x']"]),
        ((Own(), torch.nn.Linear(1, 1), Batch, 3), []),
    ],
)
def test_tensors_are_found_by_their_paths(nest: Any, names: list[str]) -> None:
    """In tuples, lists, mappings and dataclasses, also nested; not in modules, classes and other objects."""
    assert [name for name, _ in named_tensors(nest)] == names
    assert [name for name, _ in named_tensors(map_tensors(torch.neg, nest))] == names
    assert all((t < 0).all() for _, t in named_tensors(map_tensors(torch.neg, nest)))
    assert all((t > 0).all() for _, t in named_tensors(nest)), "the nest itself is as it was"


def test_what_is_one_stays_one() -> None:
    """A tensor or a dataclass that is given twice is one in the changed nest too; one without tensors is itself."""
    x, plain = torch.ones(1), Batch(None)  # type: ignore[arg-type]
    both = Batch(x)
    one, other, again, same, alone = map_tensors(torch.neg, (x, x, both, both, plain))
    assert one is other is again.tokens and again is same is not both and alone is plain
    assert again == Batch(one) and again.size == 3


def test_a_container_in_itself_is_opened_once() -> None:
    """A dataclass that holds itself has one tensor, and its copy holds itself."""
    knot = Knot(torch.ones(1))
    knot.self = [knot]
    assert [name for name, _ in named_tensors(knot)] == [".x"]
    made = map_tensors(torch.neg, knot)
    assert made.self[0] is made and float(made.x) == -1


def test_tensors_of_other_objects_are_hidden() -> None:
    """Those of an object of the program's own class are listed apart; those of a module are no argument's."""
    assert [name for name, _ in hidden_tensors([Own(), Batch(torch.ones(1))], "args")] == [
        "args[0].x",
        "args[0].parts[0]",
        "args[0].batch.tokens",
    ]
    assert not list(hidden_tensors((torch.nn.Linear(1, 1), Own, torch)))


@pytest.mark.parametrize("grad", [False, True])
def test_a_copy_of_a_jagged_tensor_is_like_it(grad: bool) -> None:
    """It has the same ragged size and is a view of its own values, and is told apart by values and offsets."""
    tensor = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, requires_grad=grad)
    made = copied(tensor)
    assert made.shape == tensor.shape and made.requires_grad == grad and made.is_leaf
    assert made._is_view() and not made._base.is_nested
    assert [(n, t.shape) for n, t in dense_parts("x", made)] == [("x.values()", (5, 4)), ("x.offsets()", (3,))]
    with torch.no_grad():
        made.values().zero_()
    assert bool((tensor.values() == 1).all())


def test_a_wide_copy_of_a_jagged_tensor_is_differentiated_like_it() -> None:
    """The float64 that a result is judged by has the original's values, in an argument that autograd follows."""
    tensor = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, requires_grad=True)
    made = copier(wide=True)(tensor)
    assert made.dtype == torch.float64 and made.requires_grad and made.is_leaf
    assert made.shape == tensor.shape and torch.equal(made.values(), tensor.values().double())
