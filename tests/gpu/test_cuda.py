"""On an attached NVIDIA GPU: the same trace gives Triton kernels and plain torch.compile's results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import explorer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(64, 128)
        self.norm = nn.LayerNorm(128)
        self.down = nn.Linear(128, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.gelu(self.up(x))
        return torch.softmax(self.down(self.norm(x)), -1)


def test_inference_gives_triton_kernels_and_plain_compiles_result() -> None:
    """sin²+cos² on the GPU gives one Triton kernel and exactly the result of plain torch.compile."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) ** 2 + torch.cos(x) ** 2

    x = torch.randn(1000, device="cuda")
    trace = explorer.trace(program, x)
    assert trace.meta["target"] == "cuda"
    assert [k.language for k in trace.kernels] == ["triton"]
    assert "@triton.jit" in trace.kernels[0].source
    assert torch.equal(trace.result, torch.compile(program)(x))


def test_the_cuda_target_moves_a_cpu_model_and_leaves_the_original() -> None:
    """target="cuda" traces a copy of a CPU module on the GPU; the module and its inputs stay where they are."""
    model, x = Block(), torch.randn(8, 64)
    trace = explorer.trace(model, x, target="cuda")
    assert trace.result.device.type == "cuda"
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert torch.allclose(trace.result.cpu(), model(x), atol=1e-4)


def test_training_gives_every_stage_each_time_and_plain_compiles_gradients() -> None:
    """The backward, which autograd's own thread compiles, is recorded in a first and in a second trace alike."""
    torch.manual_seed(0)
    model, x = Block().cuda(), torch.randn(32, 64, device="cuda", requires_grad=True)
    leaves = [x, *model.parameters()]
    for _ in range(2):
        trace = explorer.trace(model, x, train=True)
        assert trace.failures == ()
        stages = {(a.stage, a.graph) for a in trace.artifacts}
        for stage in ("post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code", "kernel"):
            assert {(stage, "forward"), (stage, "backward")} <= stages
    plain = torch.compile(model)(x)
    expected = torch.autograd.grad(plain.sum(), leaves)
    assert torch.equal(trace.result, plain)
    assert all(torch.equal(a, b) for a, b in zip(trace.gradients.values(), expected, strict=True))
    assert all(row["equal"] for row in trace.check())


def test_a_recorded_training_loop_has_its_backward() -> None:
    """record() catches forward and backward of an unchanged loop on the GPU."""
    model = Block().cuda()
    compiled, x = torch.compile(model), torch.randn(16, 64, device="cuda")
    with explorer.record() as recorded:
        for _ in range(2):
            compiled(x).sum().backward()
    assert recorded.trace.find("output_code", graph="backward")
    assert {k.language for k in recorded.trace.kernels} == {"triton"}
