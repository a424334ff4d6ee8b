"""What is not compiled is a Failure that says why."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_what_dynamo_refuses_is_a_failure_with_its_hint() -> None:
    """fullgraph=True with a graph break gives a trace whose Failure has Dynamo's words; its result raises them."""
    trace = explorer.trace(toy_example, torch.randn(4), torch.randn(4), fullgraph=True, backend="eager")
    (failure,) = trace.failures
    assert failure.fatal
    assert "Data-dependent branching" in failure.message
    assert "def toy_example" in trace.text("source")
    with pytest.raises(explorer.errors.CompileError, match="Data-dependent"):
        trace.raise_for_failures()
    with pytest.raises(explorer.errors.CompileError) as caught:
        _ = trace.live.result
    assert type(caught.value.__cause__).__name__ == "Unsupported"


def test_a_function_without_tensor_operations_says_so_and_shows_its_bytecode() -> None:
    """Where nothing is compiled the trace says so, shows the bytecode, and has the result."""

    def nothing(x: torch.Tensor) -> int:
        return 3

    trace = explorer.trace(nothing, torch.randn(4))
    (failure,) = trace.failures
    assert (failure.stage, failure.step) == ("dynamo", "compile") and not untold(failure.message, "nothing", "compiled")
    assert "RETURN" in trace.text("bytecode")
    assert trace.live.result == 3
    assert "1 failure" in repr(trace)


def test_a_module_that_dynamo_refuses_says_why_and_what_to_do() -> None:
    """Nothing of an LSTM is compiled unless Dynamo is told to; a failure has reason and hints, or in torch 2.15 a graph break."""
    trace = explorer.trace(torch.nn.LSTM(4, 4), torch.randn(3, 2, 4))
    assert not trace.kernels and len(trace.failures or trace.dynamo.graph_breaks) == 1
    for failure in trace.failures:
        assert (failure.stage, failure.step) == ("dynamo", "compile")
        assert not untold(failure.message, "Dynamo", "Python", "Attempted to wrap RNN", "torch._dynamo.config.allow_rnn=True")
    for row in () if trace.failures else trace.dynamo.graph_breaks:
        assert "torch._dynamo.config.allow_rnn=True" in f"{row['reason']} {row['explanation']} {row['hints']}"
