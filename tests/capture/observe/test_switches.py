"""Parts of the compiler are switched off for the compiles of one thread, also where autograd ends them in another."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

import pytest
import torch

from explorer.capture.observe.switches import applied_at_most

pytestmark = pytest.mark.compile


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def new_function() -> Callable[[torch.Tensor], torch.Tensor]:
    """Make a function that no cache of graphs has seen: `config.patch` turns caches off for one thread alone."""
    torch._dynamo.reset()
    return eval(f"lambda x: x.sin().exp() * 0.{secrets.randbelow(10**9)}")


def test_a_backward_that_another_thread_compiles_is_switched_too() -> None:
    """For a GPU autograd compiles the backward in a thread of its own: its lowerings are those of the compile begun here."""
    x = torch.randn(8, requires_grad=True)
    function = new_function()
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    compiled = torch.compile(function, fullgraph=True)
    with applied_at_most("lowerings", 0) as applied:
        out = compiled(x)
        forward = len(applied)
        in_a_thread(lambda: out.sum().backward())
    assert forward >= 3 and len(applied) > forward
    assert torch.allclose(x.grad, expected)


def test_a_compile_that_another_thread_begins_is_left_alone() -> None:
    """It is of somebody else, and all of it is applied."""
    compiled = torch.compile(new_function(), fullgraph=True)
    with applied_at_most("lowerings", 0) as applied:
        in_a_thread(lambda: compiled(torch.randn(8)))
    assert applied == []
