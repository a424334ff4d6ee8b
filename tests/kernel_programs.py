"""Programs whose kernels are of a kind each, for scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch


class Program(NamedTuple):
    """A function, its arguments, and what it is traced with."""

    function: Callable[..., Any]
    args: Callable[[], tuple[Any, ...]]
    options: Mapping[str, Any] = {}


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2 + torch.tanh(x)


def reduction(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(0)


def split_reduction(x: torch.Tensor) -> torch.Tensor:
    return x.exp().sum()


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.cos(), -1)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b)


def embedding(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(index, table) + 1


def cat(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.relu(), y.neg()], 1)


def casts(x: torch.Tensor) -> torch.Tensor:
    return (x.to(torch.bfloat16) * 3).to(torch.int32)


def in_place(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2).add_(1)
    return x


def dynamic(x: torch.Tensor) -> torch.Tensor:
    return x.sigmoid() * x.shape[0]


def scalar(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 3


def strided(x: torch.Tensor) -> torch.Tensor:
    return x[1:, ::2].exp()


def _r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


PROGRAMS = {
    "pointwise": Program(pointwise, lambda: (_r(33, 65),)),
    "reduction": Program(reduction, lambda: (_r(64, 48),)),
    "split_reduction": Program(split_reduction, lambda: (_r(300000),)),
    "softmax": Program(softmax, lambda: (_r(16, 48),)),
    "layer_norm": Program(layer_norm, lambda: (_r(16, 64), _r(64), _r(64))),
    "embedding": Program(embedding, lambda: (torch.tensor([[3, 1], [0, 6]]), _r(7, 16))),
    "cat": Program(cat, lambda: (_r(8, 16), _r(8, 24))),
    "casts": Program(casts, lambda: (_r(40, 40),)),
    "in_place": Program(in_place, lambda: (_r(20, 30),)),
    "dynamic": Program(dynamic, lambda: (_r(13, 8),), {"dynamic": True}),
    "scalar": Program(scalar, lambda: (_r(9, 10),), {"options": {"cpp.simdlen": 0}}),
    "strided": Program(strided, lambda: (_r(12, 32),)),
}
