"""Programs for `advice.py` that no threshold was chosen with: a function each, which gives a program and its inputs.

Five have one planted slowness. Six are fine, written as the models of their papers are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Call = tuple[Any, ...]


def meta(*size: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Make a tensor without data."""
    return torch.empty(*size, device="meta", dtype=dtype)


def on_meta(module: nn.Module, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    """Put a module on the meta device, where it needs no memory."""
    return module.to(device="meta", dtype=dtype).eval()


# Planted -----------------------------------------------------------------------------------------------------------------


class Experts(nn.Module):
    """A mixture of two experts that asks a tensor, in Python, whether the second is wanted."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.router = nn.Linear(width, 2)
        self.experts = nn.ModuleList(self.expert(width) for _ in range(2))

    @staticmethod
    def expert(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        share = self.router(x).softmax(-1)
        y = x + share[:, :1] * self.experts[0](x)
        if share[:, 1].mean().item() > 0.1:
            y = y + share[:, 1:] * self.experts[1](x)
        return y.relu()


def routed() -> Call:
    """A graph break: `.item()` in an `if`."""
    return Experts().bfloat16(), torch.randn(128, 256, dtype=torch.bfloat16)


def appended(steps: int = 4) -> list[Call]:
    """Recompiles: a text that is another one for each request, and whose length is used."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Linear(64, 64)

        def forward(self, x: Tensor, tag: str) -> Tensor:
            return self.step(x).tanh() * len(tag)

    model = torch.compile(Decoder())
    return [(model, torch.randn(16, 64), f"request-{'x' * n}") for n in range(steps)]


class HalfLinear(nn.Module):
    """Three projections whose weights are kept in float32 and cast in the line that uses them."""

    def __init__(self, width: int = 4096) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.empty(width, width)) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.linear(x, weight.to(x.dtype)) for weight in (self.q, self.k, self.v))


def cast_weights() -> Call:
    """Casts: `weight.to(x.dtype)` at each call."""
    return on_meta(HalfLinear(), torch.float32), meta(32, 4096)


class RelativeAttention(nn.Module):
    """T5's attention: a learned bias of the distance, a float32 softmax, by einsum."""

    def __init__(self, width: int = 1024, heads: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) + bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))


def relative_attention() -> Call:
    """A buffer materialised: the scores of attention."""
    return on_meta(RelativeAttention()), meta(8, 2048, 1024), meta(1, 16, 2048, 2048)


def nearest(images: Tensor, scale: Tensor) -> Tensor:
    """Take every eighth pixel of every eighth row."""
    return (images[:, :, ::8, ::8] - 0.5) * scale


def thinned() -> Call:
    """Uncoalesced: a preview made by slicing, one pixel used of each sector."""
    return nearest, meta(64, 3, 2048, 2048, dtype=torch.float32), meta(1, dtype=torch.float32)


# Fine --------------------------------------------------------------------------------------------------------------------


class RMSNorm(nn.Module):
    """Llama's norm, in float32 inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.type_as(x)


def rotated_by_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary embedding as Hugging Face writes it."""
    cos, sin = (torch.cat((f(angles), f(angles)), -1).to(x.dtype) for f in (torch.cos, torch.sin))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rotated_by_complex(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary embedding as Meta's Llama writes it."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2).type_as(x)


class LlamaLayer(nn.Module):
    """A layer of Llama: grouped queries, rotary embedding, a gated MLP."""

    def __init__(self, rotate: Any, width: int = 4096, heads: int = 32, groups: int = 8, inner: int = 14336) -> None:
        super().__init__()
        self.rotate, self.heads, self.groups, each = rotate, heads, groups, width // heads
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in "qo")
        self.k, self.v = (nn.Linear(width, groups * each, bias=False) for _ in "kv")
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in "gu")
        self.down = nn.Linear(inner, width, bias=False)
        self.before, self.after = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        y = self.before(x)
        projections = ((self.q, self.heads), (self.k, self.groups), (self.v, self.groups))
        q, k, v = (project(y).unflatten(-1, (heads, -1)).transpose(1, 2) for project, heads in projections)
        q, k = self.rotate(q, angles), self.rotate(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama() -> Call:
    """A layer of Llama 3 8B over 4,096 tokens."""
    return on_meta(LlamaLayer(rotated_by_halves)), meta(2, 4096, 4096), meta(4096, 64, dtype=torch.float32)


def complex_llama() -> Call:
    """The same layer with the rotary embedding of complex numbers."""
    return on_meta(LlamaLayer(rotated_by_complex)), meta(2, 4096, 4096), meta(4096, 64, dtype=torch.float32)


class ViT(nn.Module):
    """A vision transformer as torchvision's: patches by a convolution, a class token, two layers of the encoder, a head."""

    def __init__(self, width: int = 768, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 197, width))
        layers = [nn.ModuleDict(self.layer(width)) for _ in range(2)]
        self.layers, self.norm, self.head = nn.ModuleList(layers), nn.LayerNorm(width), nn.Linear(width, 1000)

    @staticmethod
    def layer(width: int) -> dict[str, nn.Module]:
        mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        norms = {name: nn.LayerNorm(width) for name in ("norm1", "norm2")}
        return {**norms, "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "mlp": mlp}

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.positions
        for layer in self.layers:
            q, k, v = (t.unflatten(-1, (12, -1)).transpose(1, 2) for t in layer["qkv"](layer["norm1"](x)).chunk(3, -1))
            x = x + layer["out"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            x = x + layer["mlp"](layer["norm2"](x))
        return self.head(self.norm(x)[:, 0])


def vit() -> Call:
    """ViT-B/16 of two layers, 256 images, channels last as the convolution wants them."""
    return on_meta(ViT()).to(memory_format=torch.channels_last), meta(256, 3, 224, 224).to(memory_format=torch.channels_last)


class ConvNeXt(nn.Module):
    """A block of ConvNeXt: a depthwise convolution, a norm over channels, an MLP, a scale of each channel."""

    def __init__(self, width: int = 384) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.down(F.gelu(self.up(y))) * self.scale).permute(0, 3, 1, 2)


def convnext() -> Call:
    """Two blocks of ConvNeXt's third stage, channels last."""
    model = on_meta(nn.Sequential(ConvNeXt(), ConvNeXt())).to(memory_format=torch.channels_last)
    return model, meta(128, 384, 14, 14).to(memory_format=torch.channels_last)


class Denoiser(nn.Module):
    """A residual block of a diffusion model: group norm, SiLU, convolutions, the embedding of the time step between them."""

    def __init__(self, width: int = 320) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, width), nn.GroupNorm(32, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(1280, width)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(step))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


def denoiser() -> Call:
    """A residual block of Stable Diffusion's U-Net, channels last."""
    model = on_meta(Denoiser()).to(memory_format=torch.channels_last)
    return model, meta(16, 320, 64, 64).to(memory_format=torch.channels_last), meta(16, 1280)


def gated_norm() -> Call:
    """A norm and a gate on the CPU, in float32."""

    def forward(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
        return weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * F.silu(gate)

    return forward, torch.rand(512, 2048), torch.rand(512, 2048), torch.rand(2048)


def recorded(calls: list[Call]) -> Any:
    """Record some calls of a compiled model as they would be for an H100."""
    import explorer

    torch._dynamo.reset()
    with torch.no_grad(), explorer.record(target="h100") as recording:
        for model, *inputs in calls:
            model(*inputs)
    torch._dynamo.reset()
    return recording.trace
