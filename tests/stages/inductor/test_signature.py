"""The arguments of a launch, read from a kernel's source."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.lab.live.protocol import needs_live
from explorer.stages.inductor.signature import Parameter, parameters


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ y, -1).relu() + 1


@pytest.mark.compile
@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_there_is_a_parameter_for_each_argument_of_the_launch(target: str) -> None:
    """The launch that is recorded has as many arguments, tensors where the parameters say so, and changes what they write."""
    x = torch.randn(48, 48)
    trace = explorer.trace(program, x, x, target=target)
    kernel, live = trace.kernels[0], needs_live(trace, "launches")
    # memory that still holds a result of the same kernel would not be changed by it: the next buffers get other numbers
    stale = [torch.full(shape, float("nan")) for shape in ((48, 48), (48, 1), (48,)) for _ in range(50)]
    del stale
    (launch,) = live.launches([(live.wrappers[0].file, kernel.name)])
    found = parameters(kernel.source, kernel.language)
    assert [isinstance(a, torch.Tensor) for a in launch.before] == [p.is_tensor for p in found]
    assert launch.changed == tuple(n for n, p in enumerate(found) if p.writes)


def test_what_is_no_kernel_has_no_parameters() -> None:
    """A text in which no kernel begins, or that cannot be parsed, gives none."""
    assert parameters("int x;", "cpp") == parameters("def f(", "triton") == parameters("x = 1", "triton") == ()
    assert parameters('extern "C"  void  kernel(const float* in_ptr0,\n   const int64_t ks0)', "cpp") == (
        Parameter("in_ptr0", "const float*"),
        Parameter("ks0", "const int64_t"),
    )
