"""By how much rounding may change a function's results, by which a check judges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.capture.interpret.rounding import varied


class Called(TorchDispatchMode):
    """Notes which operators are called, and whether a convolution has a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name.removeprefix("aten::")
        if name in ("convolution", "add"):
            bias = (kwargs or {}).get("bias", args[2] if len(args) > 2 else None)
            self.operators.append(f"{name} with a bias" if name == "convolution" and bias is not None else name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_bias_may_be_added_to_a_convolution_that_is_rounded_already(dtype: torch.dtype, dimensions: int) -> None:
    """A GPU's library and Inductor add it so; in 16 bits that matters, since the sum is rounded in between."""
    convolution = (torch.conv1d, torch.conv2d, torch.conv3d)[dimensions - 1]
    x, weight = torch.randn(2, 3, *[4] * dimensions), torch.randn(5, 3, *[1] * dimensions)
    given = [tensor.to(dtype) for tensor in (x, weight, torch.randn(5))]
    with Called() as called, varied(None):
        made = convolution(*given)
    assert called.operators == (["convolution with a bias"] if dtype == torch.float32 else ["convolution", "add"])
    assert made.dtype == dtype and torch.allclose(made.double(), convolution(*[t.double() for t in given]), atol=0.1, rtol=0.05)
    with Called() as called, varied(None):
        convolution(*given[:2])
    assert called.operators == ["convolution"]


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("make", [torch.nn.BatchNorm1d, partial(torch.nn.InstanceNorm1d, track_running_stats=True)])
def test_running_statistics_are_written_while_rounding_varies(make: Callable[[int], torch.nn.Module], seed: int | None) -> None:
    """Their operators' schemas do not say that they write them."""
    x, plain, varying = torch.randn(4, 3, 5), make(3), make(3)
    plain(x)
    with varied(seed):
        varying(x)
    for name in ("running_mean", "running_var"):
        written = plain.get_buffer(name)
        assert not torch.equal(written, make(3).get_buffer(name)), "else nothing was compared"
        assert torch.allclose(varying.get_buffer(name), written, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (torch.erf, 1e-3 * torch.rand(200).clamp_min(0.1)),
        (lambda x: torch.remainder(x, 1000.0), 1000 + torch.rand(200).clamp_min(0.1)),
    ],
    ids=["the error function near 0", "the remainder of a large number"],
)
def test_an_operator_whose_error_is_larger_than_its_result_varies_by_that(function: Any, x: torch.Tensor) -> None:
    """On the CPU Inductor computes both with an error that is no share of a small result."""
    with varied(1):
        varying = function(x)
    relative = (varying - function(x)).abs() / function(x).abs()
    assert relative.median() > 20 * torch.finfo(torch.float32).eps
