"""record: a block's compiles are recorded, and the program runs as without."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from torch import nn

import explorer
from explorer.tracing.recording.kernels import KernelRecorder
from tests.facts import says

pytestmark = pytest.mark.compile


def sin_cos(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        x = nn.functional.gelu(x)
        return self.down(x)


def test_record_catches_a_training_loop() -> None:
    """A training loop as it stands is recorded: one compile forward, one backward, and the weights it would have."""

    def loop() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = MLP()
        compiled = torch.compile(model, backend="aot_eager")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            compiled(torch.ones(4, 16)).square().mean().backward()
            optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    expected = loop()
    torch._dynamo.reset()
    with explorer.record() as recorded:
        weights = loop()
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))
    graphs = [(a.stage, a.graph) for a in recorded.trace.artifacts]
    assert graphs.count(("joint", "joint")) == 1
    assert graphs.count(("backward", "backward")) == 1


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # torch's own, in Dynamo
def test_compiled_autograd_is_recorded_with_its_kernels() -> None:
    """The backward that Dynamo compiles as a whole is a frame with its kernels, and the gradients are those of eager."""
    x = torch.linspace(-1, 1, 8)
    weight, other = (x.clone().requires_grad_() for _ in range(2))
    (weight * x).sin().sum().backward()
    with explorer.record() as recorded, torch._dynamo.compiled_autograd._enable(torch.compile(fullgraph=True)):
        (other * x).sin().sum().backward()
    assert torch.allclose(other.grad, weight.grad)  # type: ignore[arg-type]
    (graph,) = recorded.trace.find("dynamo")
    assert "SinBackward0" in graph.text
    assert [kernel.language for kernel in recorded.trace.kernels] == ["cpp"] and recorded.trace.failures == ()


def test_both_branches_of_the_toy_example_are_three_compiled_frames() -> None:
    """Recorded over two calls that take both branches, all three frames are compiled."""
    with explorer.record() as recorded:
        compiled = torch.compile(toy_example, backend="aot_eager")
        for b in (torch.ones(10), -torch.ones(10)):
            assert torch.equal(compiled(torch.ones(10), b), toy_example(torch.ones(10), b))
    assert recorded.trace.compile_ids == ("0/0", "1/0", "2/0")
    assert all(f["compiled"] for f in recorded.trace.dynamo.functions)


def test_a_new_dtype_names_the_guard_that_failed() -> None:
    """A recompile is a frame of its own and says which guard failed."""

    def fresh(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1

    with explorer.record() as recorded:
        compiled = torch.compile(fresh, backend="eager")
        compiled(torch.randn(4))
        compiled(torch.randn(4).double())
    trace = recorded.trace
    assert trace.compile_ids == ("0/0", "0/1")
    (row,) = trace.dynamo.recompiles
    assert (row["frame"], row["earlier"]) == ("0/1", "0/0")
    assert "dtype mismatch" in row["guard"]
    assert "expected Float, actual Double" in row["guard"]


def test_a_recording_whose_block_raises_has_its_trace() -> None:
    """The exception goes through and the trace holds what was compiled before it."""
    with pytest.raises(ZeroDivisionError), explorer.record() as recorded:
        torch.compile(sin_cos, backend="eager")(torch.randn(4))
        raise ZeroDivisionError
    assert recorded.trace.find("dynamo")


def test_a_recording_under_way_has_no_trace_yet() -> None:
    """Asking for the trace inside the block says to ask after it."""
    with explorer.record() as recorded, pytest.raises(explorer.errors.InputError, match=says("recording", "trace", "with")):
        _ = recorded.trace


def test_a_recorded_trace_has_no_result() -> None:
    """A recording says that only trace() has a result."""
    with explorer.record() as recorded:
        torch.compile(sin_cos, backend="eager")(torch.randn(4))
    with pytest.raises(explorer.errors.LiveError, match=says("result", "record", "explorer.trace")):
        _ = recorded.trace.live.result


def broken(*args: object) -> None:
    """Stands for a function of explorer's that has an error."""
    raise RuntimeError("BROKEN")


@pytest.mark.parametrize("function", ["check_stages", "absent_target"])
def test_an_error_before_the_recording_is_under_way_leaves_the_program_alone(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block runs unrecorded, and the trace names what was lost."""
    monkeypatch.setattr(importlib.import_module("explorer.tracing.recording.record"), function, broken)
    with explorer.record() as recording:
        assert torch.equal(torch.compile(torch.sin, backend="eager")(torch.ones(2)), torch.ones(2).sin())
    assert any("BROKEN" in failure.message for failure in recording.trace.failures)


def test_a_trace_for_an_absent_gpu_that_explorer_breaks_is_run_by_torch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time torch's cache has the graph, and would look for the driver of a GPU that torch.cuda speaks of."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(KernelRecorder, "__init__", broken)
    x = torch.randn(4, 4)
    for _ in range(2):
        torch._dynamo.reset()
        with torch._inductor.config.patch(fx_graph_cache=True):
            trace = explorer.trace(lambda x: x @ x, x, target="h100")
        assert torch.allclose(trace.live.result, x @ x) and any("BROKEN" in failure.message for failure in trace.failures)
