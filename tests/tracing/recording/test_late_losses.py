"""Losses after a trace was made: compiled code outlives its recording, and errors of explorer's in it are named."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import says

pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")

pytestmark = pytest.mark.compile


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


def boom(*args: object) -> None:
    raise RuntimeError("boom")


def test_what_is_lost_after_the_block_is_in_the_recordings_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's result is right, and the trace that is asked for afterwards has the Failure, once."""
    x = torch.randn(8)
    with explorer.record("h100") as recorded:
        compiled = torch.compile(program)
        compiled(x)
    assert recorded.trace.failures == ()
    monkeypatch.setattr("explorer.capture.absent.unviewed.as_compiled", boom)
    for _ in range(2):
        assert torch.equal(compiled(x), program(x))
        (failure,) = recorded.trace.failures
        assert failure.step == "views among the outputs" and "boom" in failure.message


def test_what_is_lost_in_a_later_run_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace is a value and does not change, so `run` warns of what explorer lost in it."""
    x = torch.randn(8)
    trace = explorer.trace(program, x, target="h100")
    assert torch.equal(trace.live.run(), program(x))
    monkeypatch.setattr("explorer.capture.absent.unviewed.as_compiled", boom)
    with pytest.warns(UserWarning, match=says("explorer", "views among the outputs", "boom")):
        result = trace.live.run()
    assert torch.equal(result, program(x)) and trace.failures == ()
