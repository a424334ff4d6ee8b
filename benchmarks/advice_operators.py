"""Small programs for `advice.py`: forty that are fine, one for each kind of operator, and twenty with a planted slowness.

Each is a function and its inputs, for an H100 that need not be here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: A name, the kinds of verdict that name the plant, () for a fine one, the program, its inputs, and arguments of the trace.
Case = tuple[str, tuple[str, ...], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def half(*size: int) -> Tensor:
    """Make a tensor in bfloat16, without data."""
    return torch.empty(*size, device="meta", dtype=torch.bfloat16)


def single(*size: int) -> Tensor:
    """Make a tensor in float32, without data."""
    return torch.empty(*size, device="meta")


def whole(*size: int) -> Tensor:
    """Make a tensor of indices, without data."""
    return torch.empty(*size, device="meta", dtype=torch.int64)


def module(made: nn.Module) -> nn.Module:
    """Put a module on the meta device in bfloat16."""
    return made.to(device="meta", dtype=torch.bfloat16).eval()


def case(name: str, program: Callable[..., Any], *inputs: Any, plant: str = "", **keywords: Any) -> Case:
    """Write a case; several kinds of `plant` are separated by "|"."""
    return name, tuple(plant.split("|")) if plant else (), program, inputs, keywords


# Fine --------------------------------------------------------------------------------------------------------------------


def fine() -> Iterator[Case]:
    """Forty programs that nothing is wrong with."""
    yield from lookups()
    yield from orders()
    yield from layers()
    yield from steps()


def lookups() -> Iterator[Case]:
    """Reads and writes at computed places."""
    yield case("embedding", lambda table, at: F.embedding(at, table), half(50304, 1024), whole(8, 2048))
    yield case(
        "positions", lambda t, p, at: F.embedding(at, t) + p[: at.shape[1]], half(50304, 768), half(1024, 768), whole(8, 1024)
    )
    yield case("embedding_bag", lambda table, at: F.embedding(at, table).mean(1), half(1 << 17, 256), whole(4096, 16))
    yield case("index_select", lambda x, at: x.index_select(0, at), half(65536, 512), whole(8192))
    yield case("gather", lambda x, at: x.gather(1, at), single(4096, 2048), whole(4096, 512))
    yield case("take_along_dim", lambda x, at: torch.take_along_dim(x, at, 1), single(2048, 4096), whole(2048, 4096))
    yield case("index_copy", lambda x, at, rows: x.index_copy(0, at, rows), half(32768, 1024), whole(1024), half(1024, 1024))
    yield case("index_put", lambda x, at, rows: x.index_put((at,), rows), half(32768, 1024), whole(1024), half(1024, 1024))
    yield case("index_add", lambda x, at, rows: x.index_add(0, at, rows), single(16384, 256), whole(65536), single(65536, 256))
    yield case("scatter_add", lambda x, at, v: x.scatter_add(0, at, v), single(4096, 512), whole(2048, 512), single(2048, 512))
    yield case("nll", lambda x, y: F.cross_entropy(x.float(), y), half(8192, 32000), whole(8192))
    yield case("cache", written, half(8, 16, 2048, 64), half(8, 16, 1, 64), whole(1))
    yield case("where", lambda x, mask: torch.where(mask, x, 0.0), half(8192, 8192), torch.empty(8192, 8192, device="meta") > 0)


def written(cache: Tensor, new: Tensor, at: Tensor) -> Tensor:
    """Write a token into a cache of keys."""
    return cache.index_copy_(2, at, new)


def orders() -> Iterator[Case]:
    """Scans, sorts, and what puts elements elsewhere."""
    yield case("cumsum", lambda x: x.cumsum(-1), single(4096, 4096))
    yield case("cumprod", lambda x: x.cumprod(-1), single(4096, 2048))
    yield case("logcumsumexp", lambda x: x.logcumsumexp(-1), single(2048, 4096))
    yield case("cummax", lambda x: x.cummax(-1)[0], single(2048, 2048))
    yield case("sort", lambda x: x.sort(-1)[0], single(4096, 256))
    yield case("topk", lambda x: x.topk(8, -1), half(4096, 4096))
    yield case("argmax", lambda x: x.argmax(-1), half(8192, 32000))
    yield case("cat", lambda x, y: torch.cat((x, y), 1), half(8192, 2048), half(8192, 2048))
    yield case("pad", lambda x: F.pad(x, (8, 8, 8, 8)), half(64, 64, 128, 128))
    yield case("roll", lambda x: x.roll((4, 4), (1, 2)), half(64, 64, 64, 192))
    yield case("flip", lambda x: x.flip(-1), single(4096, 8192))
    yield case("tril", lambda x: x.tril(), half(16, 4096, 4096))


def layers() -> Iterator[Case]:
    """Layers of models, as their authors write them."""
    yield case("linear", module(nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096))), half(4096, 4096))
    yield case("layer_norm", module(nn.LayerNorm(4096)), half(8192, 4096))
    yield case("batch_norm", lambda x, m, v: F.batch_norm(x, m, v).relu(), half(64, 128, 56, 56), half(128), half(128))
    yield case("group_norm", module(nn.Sequential(nn.GroupNorm(32, 512), nn.SiLU())), half(32, 512, 32, 32))
    yield case("attention", F.scaled_dot_product_attention, *(half(8, 16, 2048, 64) for _ in range(3)))
    yield case("softmax", lambda x: torch.softmax(x, -1), half(16384, 4096))
    yield case("max_pool", lambda x: F.max_pool2d(x, 2), half(64, 128, 112, 112))
    yield case("interpolate", lambda x: F.interpolate(x, scale_factor=2), half(16, 128, 64, 64))
    yield case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2).relu(), half(16, 256, 64, 64))
    yield case("rms_norm", lambda x, w: F.rms_norm(x, (4096,), w), half(8192, 4096), half(4096))
    yield case("swiglu", lambda x: F.silu(x[..., :4096]) * x[..., 4096:], half(16384, 8192))
    yield case("reductions", lambda x: (x.mean(-1), x.var(-1), x.amax(-1)), single(16384, 4096))


def steps() -> Iterator[Case]:
    """Training steps."""
    model = module(nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048))).train()
    yield case("train linear", model, half(8192, 2048), train=True)
    yield case("train norm", module(nn.LayerNorm(4096)).train(), half(16384, 4096), train=True)
    yield case("sgd", lambda w, g, m: (w - 0.1 * (m * 0.9 + g), m * 0.9 + g), *(single(1 << 24) for _ in range(3)))


# Planted -----------------------------------------------------------------------------------------------------------------


def planted() -> Iterator[Case]:
    """Twenty programs with one slowness each."""
    yield from copies()
    yield from places()
    yield from interrupted()
    yield from numbers()
    yield from settings()


def copies() -> Iterator[Case]:
    """Copies that nothing needs."""
    copied = "layout copied"
    yield case("nchw", lambda x: x.permute(0, 3, 1, 2).contiguous(), half(32, 224, 224, 64), plant=copied)
    yield case("permuted", lambda x: x.permute(2, 1, 0).contiguous() * 2, half(256, 512, 512), plant=copied)
    yield case("transposed", lambda w, x: x @ w.t().contiguous(), half(8192, 8192), half(64, 8192), plant=copied)
    yield case("repeated", repeated, half(8, 32, 2048, 128), half(8, 4, 2048, 128), half(8, 4, 2048, 128), plant=copied)
    yield case("nchw conv", module(nn.Conv2d(128, 128, 3, padding=1)), half(64, 128, 56, 56), plant=copied)


def repeated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Repeat keys and values for grouped queries."""
    k, v = (x[:, :, None].expand(-1, -1, 8, -1, -1).reshape(q.shape) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


def places() -> Iterator[Case]:
    """Reads that use little of what memory hands out."""
    apart = "uncoalesced"
    yield case("random gather", lambda x, at: x[at] * 2, single(1 << 26), whole(1 << 24), plant=apart)
    yield case("gather rows", lambda x, at: x.gather(0, at), single(8192, 16384), whole(1024, 16384), plant=apart)
    yield case("narrow rows", lambda x, at: F.embedding(at, x).sum(1), single(1 << 25, 2), whole(1 << 18, 16), plant=apart)
    yield case("column", lambda x: x[:, 3] * 2 + 1, single(1 << 22, 64), plant=apart)
    yield case("scan of columns", lambda x: x.cumsum(0), single(8192, 8192), plant=apart)


def interrupted() -> Iterator[Case]:
    """Programs that Python interrupts."""
    yield case(
        "printed", printed, *(torch.ones(512, 512, dtype=torch.bfloat16, device="cpu") for _ in range(2)), plant="graph break"
    )
    yield case("asked", asked, torch.ones(4096, 512, device="cpu"), plant="graph break")
    yield case("many small", many_small, [half(64, 64) for _ in range(24)], half(64, 64), plant="launch bound")


def printed(x: Tensor, weight: Tensor) -> Tensor:
    """Print between two products."""
    x = (x @ weight).relu()
    print("norm", x.shape)
    return (x @ weight).relu()


def asked(x: Tensor) -> Tensor:
    """Scale by a number that Python asks for."""
    return x * 2 if x.sum().item() > 0 else x


def many_small(weights: list[Tensor], x: Tensor) -> Tensor:
    """Chain many small products."""
    for weight in weights:
        x = torch.relu(x @ weight)
    return x


def numbers() -> Iterator[Case]:
    """Dtypes and shapes that the hardware is slow at."""
    yield case(
        "float64 scale",
        lambda x: x * torch.full((4096,), 0.5, dtype=torch.float64, device=x.device),
        single(8192, 4096),
        plant="float64",
    )
    yield case("float32 product", lambda x, w: x @ w, single(4096, 4096), single(4096, 4096), plant="slow precision")
    yield case("odd length", lambda x, w: x @ w, half(4096, 4097), half(4097, 4096), plant="layout copied")
    yield case("cast weights", lambda x, w: x @ w.bfloat16(), half(64, 8192), single(8192, 8192), plant="dtype cast")
    yield case("scores", scores, *(half(8, 16, 2048, 64) for _ in range(3)), half(2048, 2048), plant="buffer materialised")


def scores(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attend by hand, with a bias and a soft limit."""
    return torch.softmax(torch.tanh((q @ k.mT) * 0.125 + bias), -1) @ v


def settings() -> Iterator[Case]:
    """Settings that were left on."""
    one = {"options": {"max_fusion_size": 1}}
    yield case("unfused chain", chain, single(8192, 4096), single(4096), plant="fusion missed", **one)
    random = {"options": {"fallback_random": True}}
    yield case("dropout", lambda x: F.dropout(x.relu(), 0.1, True) * 2, half(16384, 4096), plant="fallback", **random)


def chain(x: Tensor, weight: Tensor) -> Tensor:
    """Normalise rows, and gate them."""
    y = (x - x.mean(-1, keepdim=True)) * weight
    return y * torch.sigmoid(y / (y.abs().amax(-1, keepdim=True) + 1))
