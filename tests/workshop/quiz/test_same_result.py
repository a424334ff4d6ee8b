"""Whether an answer computes what the program to begin with computes: each way not to, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from explorer.workshop.quiz.exercises import random_tensors, traced_on
from explorer.workshop.quiz.programs import program, undisturbed
from explorer.workshop.quiz.same_result import difference, gives
from tests.facts import untold

X = torch.arange(4.0)
RELU = program(
    """
def relu(x):
    return torch.relu(x)
"""
)
vector = random_tensors((8,))


@pytest.mark.parametrize(
    ("result", "facts"),
    [
        (X + 1e-6, ()),
        (X + 1, ("4 of 4 elements", "1")),
        (X.double(), ("float64[4]", "float32[4]")),
        (X[None], ("float32[1, 4]",)),
        ((X,), ("(float32[4])", "not float32[4]")),
        (None, ("NoneType",)),
        (torch.full((4,), torch.nan), ("4 of 4 elements",)),
    ],
    ids=range(7),
)
def test_a_difference_is_said_in_words(result: Any, facts: tuple[str, ...]) -> None:
    """Rounding is none; values, dtype, shape and the number of results are."""
    why = difference(result, X)
    assert bool(why) == bool(facts) and (not facts or not untold(why, *facts))


def test_an_output_of_several_is_named() -> None:
    """The first that differs is; whole numbers must be equal."""
    assert not untold(difference((X, X + 1), (X, X)), "output 2", "4 of 4")
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3])) and not difference([X], (X,))


def one_relu(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(min=0)


def in_place(x: torch.Tensor) -> torch.Tensor:
    return x.relu_()


def when_compiled(x: torch.Tensor) -> torch.Tensor:
    return x * 0 if torch.compiler.is_compiling() else torch.relu(x)


#: The inputs of the trace.
with undisturbed():
    (TRACED,) = vector()


def of_the_trace(x: torch.Tensor) -> torch.Tensor:
    return x * 0 + torch.relu(TRACED) if torch.compiler.is_compiling() else torch.relu(x)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def disabled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def never_compiled(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = disabled(x)
    return result


@torch.library.custom_op("quiz_tests::hidden", mutates_args=())  # type: ignore[untyped-decorator]
def hidden(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


hidden.register_fake(torch.empty_like)


def in_an_operator(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = hidden(x)
    return result


@pytest.mark.compile
@pytest.mark.parametrize(
    ("function", "facts"),
    [
        (one_relu, ("equal",)),
        (in_place, ("argument 1", "in place")),
        (when_compiled, ("elements differ",)),
        (of_the_trace, ("elements differ",)),
        (in_an_operator, ("quiz_tests.hidden", "compiler")),
        (never_compiled, ("nothing was compiled",)),
    ],
)
def test_a_function_that_only_seems_to_compute_the_same_is_refused(function: Callable[..., Any], facts: tuple[str, ...]) -> None:
    """It changes its input, differs once compiled, knows the traced inputs, hides its work in an operator, or is not compiled."""
    check = gives(RELU, vector)
    passed, found = check.test(traced_on(function, vector, backend="eager"))
    assert passed == (function is one_relu) and not untold(found, *facts), found
