"""AOTAutograd's graphs, as the engines other than Inductor are handed them, train as eager does."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, leaky_relu, silu

import explorer
from explorer.capture.compilers.compiler import Compiler
from explorer.capture.compilers.compilers import COMPILERS


@pytest.mark.compile
@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda compiler: compiler.name)
def test_activations_and_a_mean_loss_train(compiler: Compiler) -> None:
    """The gradients of silu, leaky_relu and a cross entropy are eager's, although engines lack or miscompute their operators."""
    if compiler.missing:
        pytest.skip(f"{compiler.title} is not installed: {compiler.remedy}")
    torch.manual_seed(0)
    x, classes = torch.randn(4, 6, requires_grad=True), torch.tensor([0, 5, 2, 2])
    trace = explorer.trace(lambda x: cross_entropy(leaky_relu(silu(x)), classes), x, backend=compiler.name, train=True)
    assert not [failure for failure in trace.failures if failure.fatal]
    assert {row["output"]: row["equal"] for row in trace.check()} == {"output": True, "gradient of args[0]": True}
