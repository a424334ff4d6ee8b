"""What a program does on its GPU besides computing, done on the CPU in its place."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

import explorer
from explorer.capture.absent.in_place_of_gpu import autocast_on_the_gpu, in_place_of_gpu


def cast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return torch.mm(x, x).relu()


@pytest.mark.compile
def test_autocast_for_the_gpu_casts_here_too() -> None:
    """The result has the dtype that it has on the GPU, and the check, whose eager side casts likewise, holds."""
    x = torch.randn(16, 16)
    made = explorer.trace(cast, x, target="h100")
    assert made.live.result.dtype == torch.bfloat16 == made.live.run().dtype
    assert [row["equal"] for row in made.check()] == [True]
    assert "_enter_autocast('cuda', torch.bfloat16" in made.text("dynamo")


def test_autocast_is_for_the_gpu_again_where_it_is_pretended_to_be_there() -> None:
    """Inside the pretence, and after it all, autocast is torch's own."""
    own = torch.amp.autocast_mode.autocast.__init__
    with in_place_of_gpu():
        mode = torch.autocast("cuda")
        assert (mode.device, mode.fast_dtype) == ("cpu", torch.float16)
        assert torch.autocast("cpu").fast_dtype == torch.bfloat16
        with autocast_on_the_gpu(), pytest.warns(UserWarning, match="CUDA is not available"):
            assert torch.autocast("cuda").device == "cuda"
    assert torch.amp.autocast_mode.autocast.__init__ is own


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_attention_is_traced_with_its_backward() -> None:
    """The CPU refuses tensors that require a gradient; a GPU has a kernel of the backward, whose gradient is right.

    The backward reads the logarithms of the sums, which for tensors on the CPU the forward's kernel would not write.
    """
    q, k, v = (torch.randn(1, 2, 128, 32, requires_grad=True) for _ in range(3))
    made = explorer.trace(
        lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 2), q, k, v, target="h100", train=True
    )
    assert not made.failures and set(made.live.gradients) == {"args[0]", "args[1]", "args[2]"}
    assert any("flex_attention_backward" in kernel.name for kernel in made.kernels)
    assert [row["equal"] for row in made.check()] == [True] * 4
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        flex_attention(q, k, v)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_attention_gives_its_largest_scores() -> None:
    """Only the GPU's kernel returns them; flex_attention on the CPU refuses to."""
    q = torch.randn(1, 1, 128, 16)
    made = explorer.trace(
        lambda q: flex_attention(q, q, q, return_aux=AuxRequest(max_scores=True))[1].max_scores, q, target="h100"
    )
    assert not made.failures and [row["equal"] for row in made.check()] == [True]
    assert torch.allclose(made.live.result, (q @ q.mT / 4).amax(-1), atol=1e-5)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:invoke_subgraph:UserWarning")  # torch's own, on what the region's tangents may be
def test_a_region_compiled_once_trains() -> None:
    """A nested_compile_region has a backward, the whole joint graph is shown, and the check holds."""

    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight).relu() + 1

    inputs = [torch.randn(8, 8, requires_grad=True) for _ in range(2)]
    made = explorer.trace(lambda x, w: region(region(x, w), w).sum(), *inputs, target="h100", train=True)
    assert not made.failures and all(row["equal"] for row in made.check())
    assert made.text("joint").count("torch.ops.higher_order.invoke_subgraph") == 4
