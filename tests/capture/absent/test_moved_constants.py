"""What is said of a constant that torch makes on the CPU, because its GPU is absent."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.capture.absent.moved_constants import ASSUMED

pytestmark = pytest.mark.compile


@pytest.mark.parametrize("train", [True, False], ids=["training", "inference"])
def test_an_index_that_the_backward_reads_is_an_assumption(train: bool) -> None:
    """The GPU's own backward computes it again, as an H200 showed; where there is no backward the kernels are the same."""
    trace = explorer.trace(lambda x: x[[1, 2]], torch.ones(5, 5, requires_grad=True), target="h100", train=train)
    assert not trace.failures
    assert [row["assumed"] for row in trace.inductor.assumptions] == [ASSUMED] * train
