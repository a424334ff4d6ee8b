"""Whether a second run and a batch of one give the same bits."""

from __future__ import annotations

import itertools

import pytest
import torch

import explorer
from explorer.lab.drifting.same_bits import batch_of_one, run_to_run
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.protocol import live_of

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]
COUNTER = itertools.count()


@torch.library.custom_op("same_bits_test::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    """Another number in each call."""
    return x + next(COUNTER)


@counted.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("same_bits_test::by_batch", mutates_args=())
def by_batch(x: torch.Tensor) -> torch.Tensor:
    """Another number for a batch of one."""
    return x * (3 if x.shape[0] == 1 else 2)


@by_batch.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def live(function: object, *args: torch.Tensor, **options: object) -> tuple[explorer.Trace, LiveFunction]:
    """A trace whose graphs PyTorch runs."""
    t = explorer.trace(function, *args, backend="aot_eager", **options)
    found = live_of(t)
    assert isinstance(found, LiveFunction)
    return t, found


def test_the_first_value_that_differs_from_run_to_run_is_named() -> None:
    """It is the operator whose values differ, at its line, and not what is computed from it."""

    def program(x: torch.Tensor) -> torch.Tensor:
        doubled = x * 2
        return counted(doubled).sin()

    t, found = live(program, torch.rand(4))
    eager, compiled = run_to_run(t, found, 2, None)
    assert (eager.equal, eager.value) == (False, "same_bits_test.counted.default")
    assert eager.place.code == "return counted(doubled).sin()"
    assert compiled.equal is False
    causes = t.drift().causes
    assert causes == () and "proves nothing" in causes.why_empty


def test_random_numbers_are_the_same_from_run_to_run() -> None:
    """Each run starts from the same seed, so a dropout is no difference."""
    t, found = live(lambda x: torch.dropout(x, 0.5, True), torch.rand(64))
    assert [answer.equal for answer in run_to_run(t, found, 3, None)] == [True, True]


def test_the_first_line_that_depends_on_the_batch_is_named() -> None:
    """The first row of eight is compared with the first row alone, in eager mode and compiled."""

    def program(x: torch.Tensor) -> torch.Tensor:
        halved = x / 2
        return by_batch(halved) + 1

    _, found = live(program, torch.rand(8, 4))
    eager, compiled = batch_of_one(found)
    assert (eager.equal, eager.place.code) == (False, "return by_batch(halved) + 1")
    assert compiled.equal is False


def test_a_program_without_a_batch_says_why_it_is_not_asked() -> None:
    """One row, or gradients, which sum over the batch, are no batch; rows that stay apart are the same."""
    assert [answer.equal for answer in batch_of_one(live(torch.sin, torch.rand(8, 4))[1])] == [True, True]
    (answer,) = batch_of_one(live(torch.sin, torch.rand(1, 4))[1])
    assert answer.equal is None and "no second row" in str(answer)
    (answer,) = batch_of_one(live(torch.sin, torch.rand(8, 4, requires_grad=True), train=True)[1])
    assert answer.equal is None and "sum over the batch" in str(answer)
