"""The errors of what kernels write, node by node."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explorer
from explorer.lab.drifting.kernel_errors import KernelValue, kernel_values
from explorer.lab.live.protocol import live_of

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]


def values_of(function: Any, *args: Any) -> list[KernelValue]:
    """What the kernels of a function write for an H100."""
    t = explorer.trace(function, *args, target="h100")
    live = live_of(t)
    assert live is not None
    return kernel_values(t, live, None)


def test_errors_add_up_from_kernel_to_kernel() -> None:
    """A sum after a product in bfloat16 is compared with the sum of the float64 product, at the lines of both."""

    def program(x: Any, w: Any) -> Any:
        hidden = x @ w
        return hidden.float().sum(-1)

    x, w = (torch.rand(32, 64, dtype=torch.bfloat16), torch.rand(64, 32, dtype=torch.bfloat16))
    product, total = values_of(program, x, w)
    assert [value.place.code for value in (product, total)] == ["hidden = x @ w", "return hidden.float().sum(-1)"]
    exact = (x.double() @ w.double()).sum(-1)
    error = float((total.value.double() - exact).norm() / exact.norm())
    assert total.error == pytest.approx(error, rel=1e-6) and total.error > 1e-5
    assert product.error is not None and product.error > 1e-4


def test_a_graph_break_does_not_begin_anew() -> None:
    """What the graph before a break wrote has its float64 value in the graph after it."""

    def program(x: Any) -> Any:
        narrow = x.to(torch.bfloat16)
        torch._dynamo.graph_break()
        return narrow.float() * 3

    x = torch.rand(64, 16)
    narrow, tripled = values_of(program, x)
    assert narrow.error is not None and tripled.error is not None
    assert narrow.error > 1e-4 and tripled.error == pytest.approx(narrow.error, rel=1e-3)
