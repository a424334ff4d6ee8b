"""Other kernels in the place of a wrapper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.splice.kernels import compiled, kernel_text
from explorer.capture.splice.wrappers import replaced_kernels
from explorer.errors import InputError
from explorer.lab.live.protocol import needs_live
from tests.facts import says

pytestmark = pytest.mark.compile


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.sin(), -1).relu() + 1


#: An edit that makes what the program adds something else.
EDITS = {"cpu": ("static_cast<float>(1.0)", "static_cast<float>(2.0)"), "h100": ("1.0, tl.float32)", "2.0, tl.float32)")}


def edited(trace: explorer.Trace, target: str) -> tuple[str, Callable[[Any], Any]]:
    """The kernel's name, and what puts the edited one into its place."""
    kernel = trace.kernels[0]
    before, after = EDITS[target]
    assert before in kernel.source
    wrapper = needs_live(trace, "").wrappers[0]
    made = compiled(kernel_text(wrapper, kernel.name, kernel.source.replace(before, after), kernel.language))
    return kernel.name, (lambda old: made) if target == "cpu" else lambda old: replace(made, wrappers=old.wrappers)


@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_replaced_kernel_runs_until_it_is_put_back(target: str) -> None:
    """The check finds the other result, to the number, and nothing of it after the block."""
    trace = explorer.trace(program, torch.randn(16, 48), target=target)
    name, replacement = edited(trace, target)
    with replaced_kernels([(needs_live(trace, "").wrappers[0], name, replacement)]):
        (row,) = trace.check()
        assert row["equal"] is False and row["max_abs"] == pytest.approx(1, rel=1e-5)
    assert [row["equal"] for row in trace.check()] == [True]


def test_the_same_program_compiled_by_the_user_is_left_alone() -> None:
    """torch.compile of a function with the same code gives the right result while a trace's kernel is replaced."""
    x = torch.randn(16, 48)
    trace = explorer.trace(program, x)
    name, replacement = edited(trace, "cpu")
    with replaced_kernels([(needs_live(trace, "").wrappers[0], name, replacement)]):
        assert torch.allclose(torch.compile(program)(x), program(x))
        assert torch.allclose(trace.live.run(), program(x) + 1)


@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_name_that_a_wrapper_lacks_is_refused(target: str) -> None:
    """Nothing is put there."""
    wrapper = needs_live(explorer.trace(program, torch.randn(16, 48), target=target), "").wrappers[0]
    with pytest.raises(InputError, match=says(wrapper.file, "'nothing'")):
        wrapper.replace("nothing", lambda old: old)
