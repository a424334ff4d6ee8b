"""A live trace: run, check, time, and compile a kernel to assembly."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import says

pytestmark = pytest.mark.compile


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2 + 1


@pytest.fixture(scope="module")
def trace() -> explorer.Trace:
    return explorer.trace(program, torch.arange(64.0))


def test_run_calls_the_compiled_function_with_new_inputs(trace: explorer.Trace) -> None:
    """run() repeats the traced call, run(x) calls with x, without compiling the same again."""
    assert torch.equal(trace.live.run(), trace.live.result)
    x = torch.randn(64)
    assert torch.allclose(trace.live.run(x), program(x), atol=1e-5)


def test_check_compares_with_eager(trace: explorer.Trace) -> None:
    """check() gives per output the largest absolute and relative difference to eager."""
    (row,) = trace.check()
    assert row["equal"] and row["max_abs"] < 1e-5


def test_check_sees_a_wrong_result() -> None:
    """A backend that computes something else does not pass the check."""

    def wrong(graph: torch.fx.GraphModule, inputs: object) -> object:
        return lambda *args: tuple(out + 1 for out in graph.forward(*args))

    (row,) = explorer.trace(program, torch.randn(8), backend=wrong).check()
    assert not row["equal"]
    assert row["max_abs"] == pytest.approx(1.0)


def test_check_leaves_the_arguments_alone() -> None:
    """A function that changes its input in place is checked on copies."""

    def inplace(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    x = torch.zeros(4)
    trace = explorer.trace(inplace, x, backend="aot_eager")
    assert torch.equal(x, torch.ones(4)), "the traced call itself runs once on the caller's tensors"
    assert [(row["output"], row["equal"]) for row in trace.check()] == [("output", True), ("args[0] after the call", True)]
    assert torch.equal(x, torch.ones(4))


def test_run_returns_an_argument_with_what_the_function_made_of_it() -> None:
    """A function that returns the argument that it changed gives its new values, though the copy is put back."""
    trace = explorer.trace(lambda x: x.add_(1), torch.zeros(4), backend="aot_eager")
    assert torch.equal(trace.live.run(), torch.ones(4))
    assert torch.equal(trace.live.run(), torch.ones(4))


def test_benchmark_times_eager_and_compiled(trace: explorer.Trace) -> None:
    """benchmark() gives medians in seconds and the ratio to eager."""
    eager, compiled = trace.benchmark(repeats=3)
    assert (eager["what"], compiled["what"]) == ("eager", "compiled")
    assert eager["ratio_to_eager"] == 1.0
    assert compiled["seconds"] > 0
    with pytest.raises(explorer.errors.InputError, match=says("repeats", "1", "0")):
        trace.benchmark(repeats=0)


def test_assembly_of_a_cpp_kernel_links_to_its_lines(trace: explorer.Trace) -> None:
    """A C++ kernel gives assembly on demand, of its own functions, with .loc lines of its own file."""
    text = trace.kernels[0].text("assembly")
    assert "kernel.cpp" in text
    assert "ret" in text
    assert trace.kernels[0].text("assembly") is text, "made once"


def test_gradients_need_a_training_trace(trace: explorer.Trace) -> None:
    """gradients of an inference trace say which argument gives them."""
    with pytest.raises(explorer.errors.InputError, match="train=True"):
        _ = trace.live.gradients


def test_a_loss_around_a_model_is_differentiated_by_its_parameters() -> None:
    """A function of the program's own that calls a module needs no input that requires grad; the gradients are eager's."""
    model, x, y = torch.nn.Linear(8, 4), torch.randn(16, 8), torch.randint(4, (16,))

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x), y)

    trace = explorer.trace(loss, x, y, target="h100", train=True)
    assert trace.find("backward") and all(row["equal"] for row in trace.check())
    found = trace.live.gradients
    assert sorted(found) == ["model.bias", "model.weight"] and model.weight.grad is None
    loss(x, y).backward()
    assert torch.allclose(found["model.weight"], model.weight.grad) and torch.allclose(found["model.bias"], model.bias.grad)
