"""Operators that torch runs on its GPU to learn something: traced without the GPU, with the assumption named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.compilers.torch_compile import RANDPERM
from tests.facts import untold

pytest.importorskip("triton")

pytestmark = pytest.mark.compile


def fake_quantized(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x * 2, 0.1, 0, -128, 127).sin()


def normed(x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten._batch_norm_with_update(x, weight, weight, mean.clone(), mean.clone() + 1, 0.1, 1e-5)[:3]


@pytest.mark.parametrize(
    ("function", "args", "named", "train"),
    [
        (torch.geqrf, (torch.randn(4, 3),), "aten.geqrf.default", False),
        (fake_quantized, (torch.randn(8, requires_grad=True),), "fake_quantize_per_tensor_affine", True),
        (normed, (torch.randn(4, 3, 5), torch.randn(3), torch.zeros(3)), "batch norm by cuDNN", False),
    ],
    ids=["geqrf", "fake_quantize", "_batch_norm_with_update"],
)
def test_what_torch_would_run_on_the_gpu_to_find_out_is_run_on_the_cpu(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], named: str, train: bool
) -> None:
    """The operator is traced, the check is equal, and an assumption says whose layout was taken."""
    trace = explorer.trace(function, *args, target="h100", train=train)
    assert trace.failures == ()
    assert [named in row["where"] for row in trace.inductor.assumptions] == [True]
    assert all(row["equal"] for row in trace.check())


@pytest.mark.parametrize("target", ["mi300x", "max1550"])
def test_gpus_of_other_vendors_do_the_same(target: str) -> None:
    """An AMD or Intel GPU gets the assumption too, and it does not name cuDNN."""
    trace = explorer.trace(torch.geqrf, torch.randn(4, 3), target=target)
    assert trace.failures == () and len(trace.inductor.assumptions) == 1


def test_a_fault_of_torchs_own_pattern_says_what_to_leave_out() -> None:
    """A whole randperm as an index fails in some torch on every device: the failure names the pattern to leave out."""
    trace = explorer.trace(lambda x: x[torch.randperm(8)], torch.randn(8), target="h100")
    if not trace.failures:
        pytest.skip("this torch has no such fault")
    assert not untold(trace.failures[0].message, "device", "without_pattern", RANDPERM)
    trace = explorer.trace(lambda x: x[torch.randperm(8)], torch.randn(8), target="h100", without_pattern=RANDPERM)
    assert trace.failures == () and trace.kernels
