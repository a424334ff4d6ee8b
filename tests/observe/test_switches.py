"""Parts of the compiler are switched off for the compiles of one thread, also where autograd ends them in another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from explorer.observe.switches import applied_at_most

pytestmark = pytest.mark.compile


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_backward_that_another_thread_compiles_is_switched_too() -> None:
    """For a GPU autograd compiles the backward in a thread of its own: its lowerings are those of the compile begun here."""
    torch._dynamo.reset()
    x = torch.randn(8, requires_grad=True)
    compiled = torch.compile(lambda x: x.sin().exp(), fullgraph=True)
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        with applied_at_most("lowerings", 0) as applied:
            out = compiled(x)
            forward = len(applied)
            in_a_thread(lambda: out.sum().backward())
    assert forward >= 2 and len(applied) > forward
    assert torch.allclose(x.grad, x.cos() * x.sin().exp())


def test_a_compile_that_another_thread_begins_is_left_alone() -> None:
    """It is of somebody else, and all of it is applied."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() + 2, fullgraph=True)
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        with applied_at_most("lowerings", 0) as applied:
            in_a_thread(lambda: compiled(torch.randn(8)))
    assert applied == []
