"""On an attached NVIDIA GPU: instructions lead to the user's lines, groups are the kernels, a veto is checked and timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer
from explorer.tracing.traced import Trace

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.down(F.gelu(self.up(self.norm(x)))), -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], 4, 16).transpose(1, 2) for part in self.qkv(torch.tanh(x)).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


def gpt2() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=128, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    return transformers.GPT2LMHeadModel(config)  # type: ignore[no-any-return]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], dict[str, Any]]] = {
    "mlp": (Mlp, lambda: torch.randn(32, 64), {}),
    "attention": (Attention, lambda: torch.randn(2, 32, 64), {}),
    "gpt2": (gpt2, lambda: torch.randint(0, 128, (2, 16)), {"use_cache": False, "return_dict": False}),
}


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest) -> Trace:
    """A training trace on the attached GPU, with SASS."""
    make, inputs, kwargs = MODELS[request.param]
    trace = explorer.trace(make().cuda(), inputs().cuda(), kwargs=kwargs, train=True)
    assert not [f for f in trace.failures if f.fatal], trace.failures
    return trace.attach("sass")


def test_every_instruction_with_a_line_leads_to_a_users_line(trained: Trace, not_covered: Callable[[Trace], object]) -> None:
    """Every computing line is linked, of instructions nearly every; the table is printed, what does not link with its text."""
    rows = trained.coverage()
    print(rows)
    print([(a["artifact"], line) for stage in ("llir", "ptx", "sass") for a in trained.coverage(stage) for line in a["missing"]])
    assert not_covered(trained) == []
    assert {"kernel", "ttir", "ttgir", "llir", "ptx", "sass"} <= {row["stage"] for row in rows}


def test_the_groups_are_the_kernels_of_the_code(trained: Trace) -> None:
    """Each generated kernel has the groups that it computes, and no group that is computed is without one."""
    for code in trained.find("output_code"):
        rows = trained.fusion.groups.where(graph=code.graph, frame=code.frame)
        kernels = {k.name for k in trained.kernels if (k.artifact.graph, k.artifact.frame) == (code.graph, code.frame)}
        assert {name for row in rows for name in row["kernels"]} == kernels
        nodes = Counter(node for row in rows for node in row["nodes"])
        assert set(nodes.values()) <= {1}


def test_a_veto_is_one_kernel_more_and_the_same_result() -> None:
    """Both compiled functions run on the GPU: equal, and timed."""

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(1), x.amax(1)

    trace = explorer.trace(both, torch.randn(1024, 1024, device="cuda"))
    otherwise = trace.what_if(keep_apart=("sum_1", "amax"))
    print(otherwise)
    assert otherwise.figure("kernels")["change"] == 1 and otherwise.equal
    assert otherwise.figure("bytes_read")["change"] == 4 * 1024 * 1024
