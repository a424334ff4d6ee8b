"""Compare the estimated seconds of kernels and library calls with those of the attached GPU.

Run on a machine with the GPU:

    python benchmarks/estimates.py                        every case, one row per kernel or call
    python benchmarks/estimates.py --only mm attention    cases whose name has one of these parts
    python benchmarks/estimates.py --json FILE            every row with all that the estimate was made from

and after a change of the estimate on any machine, GPU or not:

    python benchmarks/estimates.py --from FILE                 the same measurements, estimated anew from what was counted then
    python benchmarks/estimates.py --from FILE --retrace h200  and counted anew, in traces for that GPU

The cases run in a process of their own, one after the other. Where one crashes or takes too long, its row says so and a new
process goes on with the next. Each row is printed, and written to FILE, as soon as it is there.

Measured is the time on the device by torch's profiler, the mean of 20 calls after 5: as in a loop, so what fits into L2 is found
there. The launches of a case that are not of a generated kernel are those of its library calls, whose estimates are added up.
Printed is the ratio of each estimate to the measured time.

The summary has the median error and the worst ratio of the rows that are said to be validated. Then it takes every kernel and
call with an estimate that was measured at more than 2 µs, and has their median factor and how many are within 1.3. Shorter ones
take a launch, whatever they compute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

CALLS, WARM = 20, 5
#: No constant of the estimate was fitted to the cases of the last three parts.
PARTS = (
    "elementwise",
    "reductions",
    "products",
    "convolutions",
    "attentions",
    "functions",
    "irregular",
    "unseen",
    "fresh",
    "held_out",
)
#: A case: function, arguments, and how it is traced.
Case = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def cases(device: str, parts: Sequence[str] = PARTS) -> dict[str, Callable[[], Case]]:
    """Collect the cases of some groups by name; a case makes its tensors when it is called."""
    makers = {
        "elementwise": elementwise,
        "reductions": reductions,
        "products": products,
        "convolutions": convolutions,
        "attentions": attentions,
        "functions": functions,
        "irregular": irregular,
        "unseen": unseen,
        "fresh": fresh,
        "held_out": held_out,
    }
    return {name: make for part in parts for name, make in makers[part](device).items()}


def tensors(device: str) -> Callable[..., Any]:
    """Give a function that makes a random tensor of a size and dtype, with a gradient on request."""
    import torch

    def make(*size: int, dtype: str = "float32", grad: bool = False) -> Any:
        kind = getattr(torch, dtype)
        if kind.is_floating_point:
            return torch.randn(*size, device=device).to(kind).requires_grad_(grad)
        return torch.randint(-8, 8, size, device=device).to(kind)

    return make


def indices(device: str) -> Callable[..., Any]:
    """Give a function that makes a tensor of a size with random indices below `of`."""
    import torch

    return lambda *size, of: torch.randint(0, of, size, device=device)


def elementwise(device: str) -> dict[str, Callable[[], Case]]:
    """Elementwise kernels, copies, gathers and updates."""
    import torch

    t = tensors(device)

    def add(n: int, dtype: str = "float32") -> Callable[[], Case]:
        return lambda: (lambda a, b: a + b, (t(n, dtype=dtype), t(n, dtype=dtype)), {})

    def sgd(p: Any, g: Any, m: Any) -> None:
        m.mul_(0.9).add_(g)
        p.sub_(m, alpha=0.1)

    def tokens(vocabulary: int, width: int, count: int) -> Case:
        indices = torch.randint(0, vocabulary, (count,), device=device)
        return lambda i, w: w[i] * 2, (indices, t(vocabulary, width, dtype="bfloat16")), {}

    def scatter() -> Case:
        indices = torch.randint(0, 1 << 16, (1 << 18,), device=device)
        return lambda x, i, s: x.index_add(0, i, s), (t(1 << 16, 64), indices, t(1 << 18, 64)), {}

    gelu = torch.nn.functional.gelu
    return {
        "add 1 Ki": add(1 << 10),
        "add 64 Ki": add(1 << 16),
        "add 1 Mi": add(1 << 20),
        "add 4 Mi": add(1 << 22),
        "add 16 Mi": add(1 << 24),
        "add 128 Mi": add(1 << 27),
        "add 64 Mi bf16": add(1 << 26, "bfloat16"),
        "gelu 16 Mi bf16": lambda: (gelu, (t(1 << 24, dtype="bfloat16"),), {}),
        "sin 16 Mi fp64": lambda: (torch.sin, (t(1 << 24, dtype="float64"),), {}),
        "sgd 16 Mi": lambda: (sgd, (t(1 << 24), t(1 << 24), t(1 << 24)), {}),
        "transpose 4096": lambda: (lambda x: x.t().contiguous() + 1, (t(4096, 4096),), {}),
        "every fourth 64 Mi": lambda: (lambda x: x[::4] + 1, (t(1 << 26),), {}),
        "embedding 50257x1024": lambda: tokens(50257, 1024, 8192),
        "embedding 1 Mi x 64": lambda: tokens(1 << 20, 64, 1 << 16),
        "index_add": scatter,
        "dropout 16 Mi bf16": lambda: (lambda x: torch.nn.functional.dropout(x, 0.1), (t(1 << 24, dtype="bfloat16"),), {}),
    }


def reductions(device: str) -> dict[str, Callable[[], Case]]:
    """Sums, norms, softmax, losses and scans."""
    import torch

    t = tensors(device)
    f = torch.nn.functional

    def norm(rows: int, width: int, dtype: str) -> Callable[[], Case]:
        return lambda: (
            lambda x, w, b: f.layer_norm(x, (width,), w, b),
            (t(rows, width, dtype=dtype), t(width, dtype=dtype), t(width, dtype=dtype)),
            {},
        )

    def loss() -> Case:
        labels = torch.randint(0, 32000, (4096,), device=device)
        return lambda x, y: f.cross_entropy(x, y), (t(4096, 32000, dtype="bfloat16"), labels), {}

    def rms(x: Any, w: Any) -> Any:
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w

    return {
        "softmax 64x512 bf16": lambda: (lambda x: x.softmax(-1), (t(64, 512, dtype="bfloat16"),), {}),
        "softmax 4096x4096": lambda: (lambda x: x.softmax(-1), (t(4096, 4096),), {}),
        "softmax 16384x32000 bf16": lambda: (lambda x: x.softmax(-1), (t(16384, 32000, dtype="bfloat16"),), {}),
        "layer norm 128x768": norm(128, 768, "float32"),
        "layer norm 8192x4096 bf16": norm(8192, 4096, "bfloat16"),
        "rms norm 16384x4096 bf16": lambda: (rms, (t(16384, 4096, dtype="bfloat16"), t(4096, dtype="bfloat16")), {}),
        "sum 16 Mi": lambda: (torch.sum, (t(1 << 24),), {}),
        "sum 256 Mi": lambda: (torch.sum, (t(1 << 28),), {}),
        "sum of columns 4096": lambda: (lambda x: x.sum(0), (t(4096, 4096),), {}),
        "cross entropy 4096x32000": loss,
        "cumsum 4096x4096": lambda: (lambda x: x.cumsum(-1), (t(4096, 4096),), {}),
    }


def products(device: str) -> dict[str, Callable[[], Case]]:
    """Matrix products of several dtypes, shapes and backends."""
    import torch

    t = tensors(device)

    def mm(m: int, k: int, n: int, dtype: str = "bfloat16", **how: Any) -> Callable[[], Case]:
        return lambda: (lambda a, b: a @ b, (t(m, k, dtype=dtype), t(k, n, dtype=dtype)), how)

    def bmm(b: int, m: int, k: int, n: int) -> Callable[[], Case]:
        return lambda: (torch.bmm, (t(b, m, k, dtype="bfloat16"), t(b, k, n, dtype="bfloat16")), {})

    def scaled(n: int) -> Case:
        one = torch.ones((), device=device)
        a, b = t(n, n).to(torch.float8_e4m3fn), t(n, n).to(torch.float8_e4m3fn).t()
        return lambda a, b, s: torch._scaled_mm(a, b, s, s, out_dtype=torch.bfloat16), (a, b, one), {}

    def grouped() -> Case:
        ends = torch.arange(1, 9, device=device, dtype=torch.int32) * 1024
        made = t(8192, 2048, dtype="bfloat16"), t(8, 2048, 2048, dtype="bfloat16"), ends
        return lambda a, b, e: torch._grouped_mm(a, b, offs=e), made, {}

    def linear() -> Case:
        layer = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096))
        return layer.to(device, torch.bfloat16), (t(4096, 4096, dtype="bfloat16", grad=True),), {"train": True}

    triton = {"options": {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}}
    return {
        "mm bf16 256": mm(256, 256, 256),
        "mm bf16 1024": mm(1024, 1024, 1024),
        "mm bf16 2048": mm(2048, 2048, 2048),
        "mm bf16 4096": mm(4096, 4096, 4096),
        "mm bf16 8192": mm(8192, 8192, 8192),
        "mm bf16 dynamic": mm(4096, 4096, 4096, dynamic=True),
        "mm bf16 16x4096x4096": mm(16, 4096, 4096),
        "mm bf16 512x16384x512": mm(512, 16384, 512),
        "mm bf16 8192x1024x50257": mm(8192, 1024, 50257),
        "mm fp16 4096": mm(4096, 4096, 4096, "float16"),
        "mm fp32 4096": mm(4096, 4096, 4096, "float32"),
        "mm fp32 512": mm(512, 512, 512, "float32"),
        "mm tf32 4096": mm(4096, 4096, 4096, "float32", tf32=True),
        "mm tf32 1024": mm(1024, 1024, 1024, "float32", tf32=True),
        "mm fp64 2048": mm(2048, 2048, 2048, "float64"),
        "mm bf16 4096 triton": mm(4096, 4096, 4096, **triton),
        "bmm bf16 64x512": bmm(64, 512, 512, 512),
        "bmm bf16 512x128x64": bmm(512, 128, 64, 128),
        "baddbmm bf16": lambda: (torch.baddbmm, tuple(t(16, 1024, 1024, dtype="bfloat16") for _ in "cab"), {}),
        "scaled_mm fp8 1024": lambda: scaled(1024),
        "scaled_mm fp8 4096": lambda: scaled(4096),
        "scaled_mm fp8 8192": lambda: scaled(8192),
        "int_mm 4096": lambda: (torch._int_mm, (t(4096, 4096, dtype="int8"), t(4096, 4096, dtype="int8")), {}),
        "grouped_mm 8x1024": grouped,
        "two layers, training": linear,
    }


def convolutions(device: str) -> dict[str, Callable[[], Case]]:
    """Convolutions and their gradients."""
    import torch

    t = tensors(device)
    f = torch.nn.functional

    def conv(
        x: tuple[int, ...], w: tuple[int, ...], dtype: str = "bfloat16", train: bool = False, **how: Any
    ) -> Callable[[], Case]:
        operands = lambda: (t(*x, dtype=dtype, grad=train), t(*w, dtype=dtype, grad=train))  # noqa: E731
        return lambda: (lambda x, w: f.conv2d(x, w, **how), operands(), {"train": train})

    def transposed() -> Case:
        return (
            lambda x, w: f.conv_transpose2d(x, w, stride=4),
            (t(16, 256, 64, 64, dtype="bfloat16"), t(256, 64, 4, 4, dtype="bfloat16")),
            {},
        )

    return {
        "conv 3x3 256 of 28": conv((32, 256, 28, 28), (256, 256, 3, 3), padding=1),
        "conv 3x3 64 of 56": conv((8, 64, 56, 56), (64, 64, 3, 3), padding=1),
        "conv 1x1 512 of 28": conv((64, 512, 28, 28), (256, 512, 1, 1)),
        "conv 7x7 3 of 224": conv((32, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2),
        "conv 3x3 256 of 28 fp32": conv((32, 256, 28, 28), (256, 256, 3, 3), "float32", padding=1),
        "conv depthwise 256 of 56": conv((8, 256, 56, 56), (256, 1, 3, 3), padding=1, groups=256),
        "conv transposed 256 of 64": transposed,
        "conv 3x3 256 of 28, training": conv((32, 256, 28, 28), (256, 256, 3, 3), train=True, padding=1),
        "conv 3x3 64 of 56, training": conv((32, 64, 56, 56), (64, 64, 3, 3), train=True, padding=1),
    }


def attentions(device: str) -> dict[str, Callable[[], Case]]:
    """Attention, forward and backward."""
    import torch

    t = tensors(device)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def attend(
        b: int, h: int, s: int, d: int, dtype: str = "bfloat16", train: bool = False, causal: bool = False
    ) -> Callable[[], Case]:
        operands = lambda: tuple(t(b, h, s, d, dtype=dtype, grad=train) for _ in "qkv")  # noqa: E731
        return lambda: (lambda q, k, v: sdpa(q, k, v, is_causal=causal), operands(), {"train": train})

    def flex() -> Case:
        from torch.nn.attention.flex_attention import flex_attention

        return lambda q, k, v: flex_attention(q, k, v), tuple(t(4, 16, 2048, 64, dtype="bfloat16") for _ in "qkv"), {}

    return {
        "attention 2x4x64x32": attend(2, 4, 64, 32),
        "attention 4x16x512x64": attend(4, 16, 512, 64),
        "attention 4x16x2048x64": attend(4, 16, 2048, 64),
        "attention 2x32x4096x128": attend(2, 32, 4096, 128),
        "attention 2x32x4096x128 causal": attend(2, 32, 4096, 128, causal=True),
        "attention 4x16x2048x64 fp32": attend(4, 16, 2048, 64, "float32"),
        "attention q = k = v": lambda: (lambda q: sdpa(q, q, q), (t(4, 16, 2048, 64, dtype="bfloat16"),), {}),
        "attention 4x16x2048x64, training": attend(4, 16, 2048, 64, train=True),
        "attention 2x32x4096x128 causal, training": attend(2, 32, 4096, 128, train=True, causal=True),
        "attention flex": flex,
    }


def functions(device: str) -> dict[str, Callable[[], Case]]:
    """Kernels that compute more than they move: long functions, and reductions of rows in one block or in a loop."""
    import torch

    t = tensors(device)
    f = torch.nn.functional

    half = partial(t, dtype="bfloat16")

    def of(function: Callable[..., Any]) -> Callable[[], Case]:
        return lambda: (function, (half(1 << 24).abs(),), {})

    def rows(function: Callable[..., Any], *size: int) -> Callable[[], Case]:
        return lambda: (function, (half(*size),), {})

    def norm(x: Any) -> Any:
        return f.layer_norm(x, x.shape[-1:])

    return {
        "exp 16 Mi": of(torch.exp),
        "log 16 Mi": of(torch.log),
        "sqrt 16 Mi": of(torch.sqrt),
        "sin 16 Mi": of(torch.sin),
        "pow 16 Mi": of(lambda x: x**2.7),
        "erfinv 16 Mi": of(torch.erfinv),
        "lgamma 16 Mi": of(torch.lgamma),
        "remainder 16 Mi": of(lambda x: x % 1.7),
        "randn 16 Mi": of(torch.randn_like),
        "eight exp 16 Mi": of(lambda x: sum(torch.exp(x * n) for n in range(1, 9))),
        "softmax 65536x256": rows(lambda x: x.softmax(-1), 65536, 256),
        "softmax 32768x1024": rows(lambda x: x.softmax(-1), 32768, 1024),
        "softmax 4096x8192": rows(lambda x: x.softmax(-1), 4096, 8192),
        "logsumexp 32768x1024": rows(lambda x: x.float().logsumexp(-1), 32768, 1024),
        "logsumexp 4096x32000": rows(lambda x: x.float().logsumexp(-1), 4096, 32000),
        "layer norm 65536x512": rows(norm, 65536, 512),
        "layer norm 8192x8192": rows(norm, 8192, 8192),
        "argmax 32768x1024": rows(lambda x: x.argmax(-1), 32768, 1024),
        "argmax 4096x32000": rows(lambda x: x.argmax(-1), 4096, 32000),
        "var 8192x8192": rows(lambda x: x.float().var(-1), 8192, 8192),
    }


def unseen(device: str) -> dict[str, Callable[[], Case]]:
    """Cases that no constant of the estimate was fitted to: other sizes, shapes and operators."""
    import torch

    t = tensors(device)
    f = torch.nn.functional
    sdpa = f.scaled_dot_product_attention

    half = partial(t, dtype="bfloat16")

    def rope(x: Any, cos: Any, sin: Any) -> Any:
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin

    def block(x: Any, w: Any, up: Any, down: Any) -> Any:
        return x + f.silu(f.rms_norm(x, (2048,), w) @ up) @ down

    def adam(p: Any, g: Any, m: Any, v: Any) -> None:
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt() + 1e-8, value=-1e-3)

    conv, up = f.conv2d, f.conv_transpose2d
    one = torch.ones((), device=device)
    return {
        "swiglu 8 Mi bf16": lambda: (lambda a, b: f.silu(a) * b, (half(1 << 23), half(1 << 23)), {}),
        "tanh 2 Mi": lambda: (torch.tanh, (t(1 << 21),), {}),
        "rope": lambda: (rope, (half(4, 32, 2048, 128), half(2048, 128), half(2048, 128)), {}),
        "adam 8 Mi": lambda: (adam, (t(1 << 23), t(1 << 23), t(1 << 23), t(1 << 23).abs()), {}),
        "transpose 2048x8192 bf16": lambda: (lambda x: x.t().contiguous() * 2, (half(2048, 8192),), {}),
        "softmax 8192x1024 bf16": lambda: (lambda x: x.softmax(-1), (half(8192, 1024),), {}),
        "layer norm 32768x768 bf16": lambda: (
            lambda x, w, b: f.layer_norm(x, (768,), w, b),
            (half(32768, 768), half(768), half(768)),
            {},
        ),
        "sum of rows 8192": lambda: (lambda x: x.sum(1), (t(8192, 8192),), {}),
        "amax of columns 2048x8192": lambda: (lambda x: x.amax(0), (t(2048, 8192),), {}),
        "mm bf16 768x3072x768": lambda: (torch.mm, (half(768, 3072), half(3072, 768)), {}),
        "mm bf16 2048x8192x2048": lambda: (torch.mm, (half(2048, 8192), half(8192, 2048)), {}),
        "mm bf16 64x8192x8192": lambda: (torch.mm, (half(64, 8192), half(8192, 8192)), {}),
        "mm fp32 1536": lambda: (torch.mm, (t(1536, 1536), t(1536, 1536)), {}),
        "mm tf32 2048": lambda: (torch.mm, (t(2048, 2048), t(2048, 2048)), {"tf32": True}),
        "mm fp64 1024": lambda: (torch.mm, (t(1024, 1024, dtype="float64"), t(1024, 1024, dtype="float64")), {}),
        "bmm bf16 96x256x64x256": lambda: (torch.bmm, (half(96, 256, 64), half(96, 64, 256)), {}),
        "addmm bf16 4096x1024x4096": lambda: (torch.addmm, (half(4096), half(4096, 1024), half(1024, 4096)), {}),
        "scaled_mm fp8 2048": lambda: (
            lambda a, b, s: torch._scaled_mm(a, b, s, s, out_dtype=torch.bfloat16),
            (t(2048, 2048).to(torch.float8_e4m3fn), t(2048, 2048).to(torch.float8_e4m3fn).t(), one),
            {},
        ),
        "int_mm 4096 of columns": lambda: (torch._int_mm, (t(4096, 4096, dtype="int8"), t(4096, 4096, dtype="int8").t()), {}),
        "int_mm 2048": lambda: (torch._int_mm, (t(2048, 2048, dtype="int8"), t(2048, 2048, dtype="int8")), {}),
        "conv 3x3 128 of 56": lambda: (lambda x, w: conv(x, w, padding=1), (half(16, 128, 56, 56), half(128, 128, 3, 3)), {}),
        "conv 3x3 512 of 14 by 2": lambda: (
            lambda x, w: conv(x, w, padding=1, stride=2),
            (half(64, 512, 14, 14), half(512, 512, 3, 3)),
            {},
        ),
        "conv depthwise 7x7 96 of 56": lambda: (
            lambda x, w: conv(x, w, padding=3, groups=96),
            (half(16, 96, 56, 56), half(96, 1, 7, 7)),
            {},
        ),
        "conv transposed 2x2 128 of 64": lambda: (
            lambda x, w: up(x, w, stride=2),
            (half(8, 128, 64, 64), half(128, 64, 2, 2)),
            {},
        ),
        "conv transposed 4x4 256 of 32": lambda: (
            lambda x, w: up(x, w, stride=2, padding=1),
            (half(8, 256, 32, 32), half(256, 128, 4, 4)),
            {},
        ),
        "conv transposed 4x4 256 of 32 fp32": lambda: (
            lambda x, w: up(x, w, stride=2, padding=1),
            (t(8, 256, 32, 32), t(256, 128, 4, 4)),
            {},
        ),
        "conv 3x3 128 of 28, training": lambda: (
            lambda x, w: conv(x, w, padding=1),
            (half(32, 128, 28, 28, grad=True), half(128, 128, 3, 3, grad=True)),
            {"train": True},
        ),
        "attention 8x12x1024x64": lambda: (sdpa, tuple(half(8, 12, 1024, 64) for _ in "qkv"), {}),
        "attention 1x32x8192x128 causal": lambda: (
            lambda q, k, v: sdpa(q, k, v, is_causal=True),
            tuple(half(1, 32, 8192, 128) for _ in "qkv"),
            {},
        ),
        "attention 16x8x256x32": lambda: (sdpa, tuple(half(16, 8, 256, 32) for _ in "qkv"), {}),
        "attention 8x12x1024x64, training": lambda: (
            sdpa,
            tuple(half(8, 12, 1024, 64, grad=True) for _ in "qkv"),
            {"train": True},
        ),
        "a block of a transformer": lambda: (block, (half(4096, 2048), half(2048), half(2048, 8192), half(8192, 2048)), {}),
    }


def irregular(device: str) -> dict[str, Callable[[], Case]]:
    """Cases whose kernels stream no memory in order: sorts, scatters, one result from all elements, few elements at a time."""
    import torch

    t = tensors(device)
    f = torch.nn.functional

    half = partial(t, dtype="bfloat16")
    index = indices(device)

    def pooled(x: Any) -> Any:
        return f.interpolate(f.avg_pool2d(x, 2), scale_factor=2, mode="bilinear")

    def depthwise(size: int) -> Callable[..., Any]:
        return lambda x, w: f.conv2d(x, w, padding=size // 2, groups=x.shape[1])

    return {
        "sort 4096x1024": lambda: (lambda x: x.sort(-1).values, (t(4096, 1024),), {}),
        "sort 4096x256": lambda: (lambda x: x.sort(-1).values, (t(4096, 256),), {}),
        "sort 512x16384": lambda: (lambda x: x.sort(-1).values, (t(512, 16384),), {}),
        "sort 4 Mi": lambda: (lambda x: x.sort().values, (t(1 << 22),), {}),
        "argsort 1024x8192": lambda: (lambda x: x.argsort(-1), (t(1024, 8192),), {}),
        "topk 16 of 1024x32768": lambda: (lambda x: x.topk(16, -1).values, (t(1024, 32768),), {}),
        "topk 8 of 8192x2048": lambda: (lambda x: x.topk(8, -1).values, (t(8192, 2048),), {}),
        "topk 100 of 4 Mi": lambda: (lambda x: x.topk(100).values, (t(1 << 22),), {}),
        "scatter_add 4 Mi into 1 Mi": lambda: (
            lambda x, i: x.new_zeros(1 << 20).scatter_add(0, i, x),
            (t(1 << 22), index(1 << 22, of=1 << 20)),
            {},
        ),
        "scatter_add 4 Mi into 1024": lambda: (
            lambda x, i: x.new_zeros(1024).scatter_add(0, i, x),
            (t(1 << 22), index(1 << 22, of=1024)),
            {},
        ),
        "index_add 65536x256 into 4096": lambda: (
            lambda x, i: x.new_zeros(4096, 256).index_add(0, i, x),
            (t(65536, 256), index(65536, of=4096)),
            {},
        ),
        "gather 4 Mi of 1 Mi": lambda: (lambda x, i: x[i] * 2, (t(1 << 20), index(1 << 22, of=1 << 20)), {}),
        "gather 4 Mi of 64 Mi": lambda: (lambda x, i: x[i] * 2, (t(1 << 26), index(1 << 22, of=1 << 26)), {}),
        "logsumexp fp64 4096x4096": lambda: (lambda x: x.logsumexp(-1), (t(4096, 4096, dtype="float64"),), {}),
        "exp fp64 8 Mi": lambda: (torch.exp, (t(1 << 23, dtype="float64"),), {}),
        "sum of 16 Mi": lambda: (lambda x: x.sum(), (t(1 << 24),), {}),
        "sum of 1 Mi": lambda: (lambda x: x.sum(), (t(1 << 20),), {}),
        "norm of 64 Mi bf16": lambda: (lambda x: x.float().norm(), (half(1 << 26),), {}),
        "upsampled after pooling 16x64x128": lambda: (pooled, (t(16, 64, 128, 128),), {}),
        "bilinear by 4 16x64x32": lambda: (
            lambda x: f.interpolate(x, scale_factor=4, mode="bilinear"),
            (t(16, 64, 32, 32),),
            {},
        ),
        "variance over dim 0 8192x2048": lambda: (lambda x: x.var(0), (t(8192, 2048),), {}),
        "variance over dim 0 1024x4096": lambda: (lambda x: x.var(0), (t(1024, 4096),), {}),
        "mean over dim 0 65536x256": lambda: (lambda x: x.mean(0), (t(65536, 256),), {}),
        "conv depthwise 3x3 256 of 56": lambda: (depthwise(3), (half(32, 256, 56, 56), half(256, 1, 3, 3)), {}),
        "conv depthwise 3x3 512 of 28 fp32": lambda: (depthwise(3), (t(16, 512, 28, 28), t(512, 1, 3, 3)), {}),
        "conv depthwise 5x5 192 of 28": lambda: (depthwise(5), (half(32, 192, 28, 28), half(192, 1, 5, 5)), {}),
        "cumsum 8192x2048": lambda: (lambda x: x.cumsum(-1), (t(8192, 2048),), {}),
        "cumsum of 16 Mi": lambda: (lambda x: x.cumsum(0), (t(1 << 24),), {}),
    }


def fresh(device: str) -> dict[str, Callable[[], Case]]:
    """Cases that no constant was fitted to, but from which causes were read that the estimate lacked."""
    import torch

    t = tensors(device)
    f = torch.nn.functional

    half = partial(t, dtype="bfloat16")
    index = indices(device)

    def masked(x: Any, mask: Any) -> Any:
        return x.masked_fill(mask, float("-inf")).softmax(-1)

    def gated(x: Any, gate: Any) -> Any:
        return f.gelu(gate, approximate="tanh") * x

    attend = f.scaled_dot_product_attention
    return {
        "gelu, gate 24 Mi bf16": lambda: (gated, (half(3 << 23), half(3 << 23)), {}),
        "rms norm 12288x3072 bf16": lambda: (lambda x, w: f.rms_norm(x, (3072,), w), (half(12288, 3072), half(3072)), {}),
        "log softmax 3072x32000": lambda: (lambda x: x.log_softmax(-1), (t(3072, 32000),), {}),
        "cross entropy 2048x50257": lambda: (f.cross_entropy, (t(2048, 50257), index(2048, of=50257)), {}),
        "group norm 24x256x28": lambda: (
            lambda x, w, b: f.group_norm(x, 32, w, b),
            (t(24, 256, 28, 28), t(256), t(256)),
            {},
        ),
        "masked softmax 48x768x768": lambda: (
            masked,
            (half(48, 768, 768), torch.ones(768, 768, device=device).triu(1).bool()),
            {},
        ),
        "mean of 48 Mi": lambda: (lambda x: x.mean(), (t(3 << 24),), {}),
        "amax of 6 Mi": lambda: (lambda x: x.amax(), (t(3 << 21),), {}),
        "variance over dim 0 12288x1536": lambda: (lambda x: x.var(0), (t(12288, 1536),), {}),
        "logsumexp fp64 3000x5000": lambda: (lambda x: x.logsumexp(-1), (t(3000, 5000, dtype="float64"),), {}),
        "sort 3000x512": lambda: (lambda x: x.sort(-1).values, (t(3000, 512),), {}),
        "sort 256x24000": lambda: (lambda x: x.sort(-1).values, (t(256, 24000),), {}),
        "topk 5 of 3000x10000": lambda: (lambda x: x.topk(5, -1).values, (t(3000, 10000),), {}),
        "scatter_add 3 Mi into 96 Ki": lambda: (
            lambda x, i: x.new_zeros(3 << 15).scatter_add(0, i, x),
            (t(3 << 20), index(3 << 20, of=3 << 15)),
            {},
        ),
        "index_add 24000x512 into 1000": lambda: (
            lambda x, i: x.new_zeros(1000, 512).index_add(0, i, x),
            (t(24000, 512), index(24000, of=1000)),
            {},
        ),
        "embedding 12x1536 of 32000x1024": lambda: (f.embedding, (index(12, 1536, of=32000), half(32000, 1024)), {}),
        "embedding 8192 of 30000x768, training": lambda: (
            lambda w, i: f.embedding(i, w),
            (t(30000, 768, grad=True), index(8192, of=30000)),
            {"train": True},
        ),
        "cat and scale 3 of 4096x1536": lambda: (
            lambda a, b, c: torch.cat((a, b, c), 1) * 0.5,
            (t(4096, 1536), t(4096, 1536), t(4096, 1536)),
            {},
        ),
        "channels last 24x192x56": lambda: (lambda x: x.permute(0, 2, 3, 1).contiguous() + 1, (half(24, 192, 56, 56),), {}),
        "bilinear by 2 12x96x48": lambda: (
            lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"),
            (t(12, 96, 48, 48),),
            {},
        ),
        "nearest by 2 12x96x96": lambda: (lambda x: f.interpolate(x, scale_factor=2), (half(12, 96, 96, 96),), {}),
        "max pool 3x3 24x64x112": lambda: (lambda x: f.max_pool2d(x, 3, 2, 1), (half(24, 64, 112, 112),), {}),
        "average pool 2x2 24x128x96": lambda: (lambda x: f.avg_pool2d(x, 2), (t(24, 128, 96, 96),), {}),
        "conv depthwise 5x5 384 of 28": lambda: (
            lambda x, w: f.conv2d(x, w, padding=2, groups=384),
            (half(24, 384, 28, 28), half(384, 1, 5, 5)),
            {},
        ),
        "conv depthwise 3x3 144 of 56 fp32": lambda: (
            lambda x, w: f.conv2d(x, w, padding=1, groups=144),
            (t(12, 144, 56, 56), t(144, 1, 3, 3)),
            {},
        ),
        "conv 1x1 384 of 28": lambda: (f.conv2d, (half(24, 384, 28, 28), half(768, 384, 1, 1)), {}),
        "mm bf16 3000x1000x5000": lambda: (torch.mm, (half(3000, 1000), half(1000, 5000)), {}),
        "linear and gelu bf16 6144x1536x6144": lambda: (
            lambda x, w, b: f.gelu(f.linear(x, w, b)),
            (half(6144, 1536), half(6144, 1536), half(6144)),
            {},
        ),
        "attention 3x24x1536x64 causal": lambda: (
            lambda q, k, v: attend(q, k, v, is_causal=True),
            (half(3, 24, 1536, 64), half(3, 24, 1536, 64), half(3, 24, 1536, 64)),
            {},
        ),
        "cumsum 3000x6000": lambda: (lambda x: x.cumsum(-1), (t(3000, 6000),), {}),
        "exp fp64 6 Mi": lambda: (torch.exp, (t(3 << 21, dtype="float64"),), {}),
    }


def held_out(device: str) -> dict[str, Callable[[], Case]]:
    """Cases written before the last change of the estimate and looked at after it, a third of them irregular."""
    import torch

    t = tensors(device)
    f = torch.nn.functional

    half = partial(t, dtype="bfloat16")
    index = indices(device)

    def accumulated(x: Any, i: Any, v: Any) -> Any:
        return x.index_put((i,), v, accumulate=True)

    def histogram(i: Any) -> Any:
        return i.new_zeros(20000).scatter_add(0, i, torch.ones_like(i))

    def quantized(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / 127
        return (x / scale).round().clamp(-128, 127).to(torch.int8), scale

    def added_norm(x: Any, y: Any, w: Any, b: Any) -> Any:
        return f.layer_norm(x + y, (5120,), w, b)

    def smoothed(x: Any, y: Any) -> Any:
        return f.smooth_l1_loss(x, y)

    def normalized(x: Any) -> Any:
        return f.normalize(x, dim=-1)

    def interleaved(x: Any) -> Any:
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((-odd, even), -1).flatten(-2)

    def statistics_of(x: Any) -> Any:
        return f.batch_norm(x, None, None, training=True)

    attend = f.scaled_dot_product_attention
    return {
        "sort 20000x128": lambda: (lambda x: x.sort(-1).values, (t(20000, 128),), {}),
        "sort 6000x400 bf16": lambda: (lambda x: x.sort(-1).values, (half(6000, 400),), {}),
        "sort 1500x3000": lambda: (lambda x: x.sort(-1).values, (t(1500, 3000),), {}),
        "topk 32 of 500x50000": lambda: (lambda x: x.topk(32, -1).values, (t(500, 50000),), {}),
        "scatter_add 6 Mi into 600 Ki": lambda: (
            lambda x, i: x.new_zeros(75 << 13).scatter_add(0, i, x),
            (t(3 << 21), index(3 << 21, of=75 << 13)),
            {},
        ),
        "index_put accumulated 2 Mi into 8 Mi": lambda: (
            accumulated,
            (t(1 << 23), index(1 << 21, of=1 << 23), t(1 << 21)),
            {},
        ),
        "index_add 40000x96 into 3000": lambda: (
            lambda x, i: x.new_zeros(3000, 96).index_add(0, i, x),
            (t(40000, 96), index(40000, of=3000)),
            {},
        ),
        "histogram of 2 Mi, 20000": lambda: (histogram, (index(1 << 21, of=20000),), {}),
        "take 2 Mi of 24 Mi": lambda: (lambda x, i: torch.take(x, i) + 1, (t(3 << 23), index(1 << 21, of=3 << 23)), {}),
        "gather along rows 4096x2000": lambda: (
            lambda x, i: x.gather(1, i),
            (t(4096, 6000), index(4096, 2000, of=6000)),
            {},
        ),
        "cumsum of 5 Mi": lambda: (lambda x: x.cumsum(0), (t(5 << 20),), {}),
        "cumprod 5000x1500": lambda: (lambda x: x.cumprod(-1), (t(5000, 1500),), {}),
        "bicubic by 2 6x48x64": lambda: (
            lambda x: f.interpolate(x, scale_factor=2, mode="bicubic"),
            (t(6, 48, 64, 64),),
            {},
        ),
        "log fp64 5 Mi": lambda: (torch.log, (t(5 << 20, dtype="float64").abs(),), {}),
        "softmax fp64 6000x2500": lambda: (lambda x: x.softmax(-1), (t(6000, 2500, dtype="float64"),), {}),
        "reglu 20 Mi bf16": lambda: (lambda a, b: f.relu(a) * b, (half(5 << 22), half(5 << 22)), {}),
        "mish 12 Mi": lambda: (f.mish, (t(3 << 22),), {}),
        "where and clamp 10 Mi bf16": lambda: (
            lambda x, y: torch.where(x > 0, x, y).clamp(-2, 2),
            (half(5 << 21), half(5 << 21)),
            {},
        ),
        "rotated 4x20x3000x128 bf16": lambda: (interleaved, (half(4, 20, 3000, 128),), {}),
        "quantize rows 6000x5120 bf16": lambda: (quantized, (half(6000, 5120),), {}),
        "add and layer norm 7000x5120 bf16": lambda: (
            added_norm,
            (half(7000, 5120), half(7000, 5120), half(5120), half(5120)),
            {},
        ),
        "softmax 20000x600 bf16": lambda: (lambda x: x.softmax(-1), (half(20000, 600),), {}),
        "log softmax 1500x128256 bf16": lambda: (lambda x: x.log_softmax(-1), (half(1500, 128256),), {}),
        "normalize 50000x384": lambda: (normalized, (t(50000, 384),), {}),
        "batch norm 32x96x56": lambda: (statistics_of, (t(32, 96, 56, 56),), {}),
        "smooth l1 loss 20 Mi": lambda: (smoothed, (t(5 << 22), t(5 << 22)), {}),
        "sum over dim 1 24x3000x512": lambda: (lambda x: x.sum(1), (t(24, 3000, 512),), {}),
        "argmax 3000x20000 bf16": lambda: (lambda x: x.argmax(-1), (half(3000, 20000),), {}),
        "embedding 20000 of 100000x320": lambda: (f.embedding, (index(20000, of=100000), t(100000, 320)), {}),
        "transpose 6000x3000": lambda: (lambda x: x.t().contiguous() * 2, (t(6000, 3000),), {}),
        "max pool 2x2 20x96x80 bf16": lambda: (lambda x: f.max_pool2d(x, 2), (half(20, 96, 80, 80),), {}),
        "pad by reflection 20x64x100": lambda: (lambda x: f.pad(x, (3, 3, 3, 3), mode="reflect"), (t(20, 64, 100, 100),), {}),
        "conv depthwise 3x3 320 of 40": lambda: (
            lambda x, w: f.conv2d(x, w, padding=1, groups=320),
            (half(20, 320, 40, 40), half(320, 1, 3, 3)),
            {},
        ),
        "conv depthwise 5x5 240 of 28 fp32": lambda: (
            lambda x, w: f.conv2d(x, w, padding=2, groups=240),
            (t(20, 240, 28, 28), t(240, 1, 5, 5)),
            {},
        ),
        "conv 3x3 192 of 40": lambda: (
            lambda x, w: f.conv2d(x, w, padding=1),
            (half(20, 192, 40, 40), half(192, 192, 3, 3)),
            {},
        ),
        "mm bf16 5000x3000x2000": lambda: (torch.mm, (half(5000, 3000), half(3000, 2000)), {}),
        "bmm bf16 40x700x80x700": lambda: (torch.bmm, (half(40, 700, 80), half(40, 80, 700)), {}),
        "linear and silu bf16 3500x2560x7000": lambda: (
            lambda x, w: f.silu(f.linear(x, w)),
            (half(3500, 2560), half(7000, 2560)),
            {},
        ),
        "attention 2x20x3000x128 causal": lambda: (
            lambda q, k, v: attend(q, k, v, is_causal=True),
            (half(2, 20, 3000, 128), half(2, 20, 3000, 128), half(2, 20, 3000, 128)),
            {},
        ),
    }


# Estimated and measured ------------------------------------------------------------------------------------------------


def rows_of(name: str, case: Case) -> Iterator[dict[str, Any]]:
    """One row for each generated kernel of a case and one for all its library calls: the counts and the measured microseconds."""
    import torch

    function, arguments, how = case
    trace = traced(case)
    torch.compiler.reset()
    compiled = torch.compile(function, **{key: value for key, value in how.items() if key not in OWN})
    times = measured(compiled, arguments, how.get("train", False))
    counted = list(counted_rows(trace))
    names = {row["what"] for row in counted}
    rest = [key for key in times if key not in names]
    for row in counted:
        device = [row["what"]] if row["what"] in times else rest if row["what"] == CALLS_TOGETHER else []
        yield {"case": name, **row, "measured": sum(times[key] for key in device), "device": device}
    if rest and CALLS_TOGETHER not in names:
        seconds = sum(times[key] for key in rest)
        yield {"case": name, "what": CALLS_TOGETHER, "groups": [], "measured": seconds, "device": rest}


#: The keys of `how` that are no arguments of torch.compile; and the name of the row of a case's library calls.
OWN, CALLS_TOGETHER = ("train", "tf32"), "library calls"


def traced(case: Case, **asked: Any) -> Any:
    """Trace a case, with TF32 as the case has it."""
    import torch

    import explorer

    function, arguments, how = case
    torch.backends.cuda.matmul.allow_tf32 = how.get("tf32", False)
    torch.compiler.reset()
    return explorer.trace(function, *arguments, **{key: value for key, value in how.items() if key != "tf32"}, **asked)


def counted_rows(trace: Any) -> Iterator[dict[str, Any]]:
    """Each kernel of a trace by name, with its groups and its facts; and the groups of all library calls."""
    from explorer.analysis.questions.costs import is_call

    groups = list(trace.fusion.groups) if trace.kernels or trace.inductor.extern_calls else []
    kernels = {kernel.name: kernel for kernel in trace.kernels}
    for name, kernel in kernels.items():
        yield {"what": name, "groups": [dict(g) for g in groups if name in g["kernels"]], **kernel_facts(kernel)}
    calls = [dict(group) for group in groups if is_call(group)]
    if calls:
        yield {"what": CALLS_TOGETHER, "groups": calls}


def kernel_facts(kernel: Any) -> dict[str, Any]:
    """The text of a kernel, how it is launched, the configs that Inductor tries, its resources and its instructions by class."""
    try:
        mix, why = dict(kernel.instruction_mix()), ""
    except Exception as error:  # noqa: BLE001 a kernel without machine code has its other facts
        mix, why = {}, f"{type(error).__name__}: {error}"
    return {
        "text": kernel.text("kernel"),
        "launches": [dict(row) for row in kernel.launches],
        "resources": dict(kernel.resources),
        "candidates": [dict(row) for row in kernel.candidates.table],
        "mix": mix,
        "no_mix": why[:300],
    }


def measured(compiled: Any, arguments: tuple[Any, ...], train: bool) -> dict[str, float]:
    """Measure the microseconds per call of everything that the device ran, by name."""
    import torch

    inputs = [a for a in arguments if getattr(a, "requires_grad", False)] + list(getattr(compiled, "parameters", list)())

    def call() -> None:
        out = compiled(*arguments)
        if train:
            torch.autograd.grad(out, inputs, ones[0])

    first = compiled(*arguments)
    ones = [torch.ones_like(first)] if train else []
    del first
    for _ in range(WARM):
        call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    found: dict[str, float] = {}
    for event in profiler.events():
        if str(event.device_type).endswith("CUDA") and not getattr(event, "is_user_annotation", False):
            found[event.name] = found.get(event.name, 0.0) + event.device_time / CALLS
    return found


def compared(row: dict[str, Any], target: Any) -> dict[str, Any]:
    """Add to a measured row what the estimate says of its groups on a GPU."""
    from explorer.analysis.questions.costs import estimate, loop_operations

    found = [estimate(target, group) for group in row["groups"]]
    unknown = any(one.seconds is None for one in found)
    operators = [str(call["operator"]) for group in row["groups"] for call in group["calls"] or ()]
    title = " + ".join(operators) if row["what"] == CALLS_TOGETHER else row["what"]
    return {
        **row,
        "title": title or "no call in the trace",
        "estimated": None if unknown else 1e6 * sum(one.seconds or 0.0 for one in found),
        "limits": "+".join(dict.fromkeys(one.limit for one in found)),
        "outside": "; ".join(dict.fromkeys(one.outside for one in found if one.outside)),
        "read": sum(group["read"] for group in row["groups"]),
        "written": sum(group["written"] for group in row["groups"]),
        "operations": sum(n for group in row["groups"] for n in loop_operations(group).values()),
    }


HEAD = (
    "| case | kernel or call | measured µs | estimated µs | ratio | the time of | | read | written | elementwise operations |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def shown(row: dict[str, Any]) -> str:
    """One line of the table."""
    if "failed" in row:
        return f"| {row['case']} | {row['failed']} |"
    estimated, ratio = "", "no estimate"
    if row["estimated"] is not None:
        estimated = f"{row['estimated']:.2f}"
        ratio = f"{row['estimated'] / row['measured']:.2f}" if row["measured"] else "not measured"
    return (
        f"| {row['case']} | {row['title'][:60]} | {row['measured']:.2f} | {estimated} | {ratio} | {row['limits']} |"
        f" {'outside' if row['outside'] else ''} | {row['read']} | {row['written']} | {row['operations']} |"
    )


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The median error and the worst ratio of the rows that are called validated, and how many they are."""
    failed = [row["case"] for row in rows if "failed" in row]
    shown_rows = [row for row in rows if "failed" not in row]
    lost = f"; failed: {', '.join(failed)}" if failed else ""
    known = [row for row in shown_rows if row["measured"] and row["estimated"] is not None and not row["outside"]]
    if not known:
        return "nothing to compare" + lost
    errors = [abs(row["estimated"] / row["measured"] - 1) for row in known]
    worst = max(known, key=factor)
    return (
        f"{len(known)} kernels and calls: median error {statistics.median(errors):.0%}, "
        f"worst {factor(worst):.2f} × ({worst['case']}: {worst['title'][:60]}), "
        f"{sum(factor(row) <= 1.25 for row in known)} within 1.25 ×, {sum(factor(row) <= 3 for row in known)} within 3 ×; "
        f"{sum(bool(row['outside']) for row in shown_rows)} outside what is validated, "
        f"{sum(row['estimated'] is None for row in shown_rows)} without an estimate, "
        f"{sum(not row['measured'] for row in shown_rows)} without a measured time{lost}\n{_above_a_launch(shown_rows)}"
    )


#: Microseconds from which a row counts in the last figures.
ABOVE_A_LAUNCH = 2


def _above_a_launch(rows: Sequence[dict[str, Any]]) -> str:
    """The median factor of the kernels and calls that take more than a launch, and how many are within 1.3."""
    factors = [factor(row) for row in rows if row["measured"] > ABOVE_A_LAUNCH and row["estimated"] is not None]
    if not factors:
        return f"none of more than {ABOVE_A_LAUNCH} µs"
    return (
        f"{len(factors)} of more than {ABOVE_A_LAUNCH} µs: median factor {statistics.median(factors):.2f}, "
        f"{sum(each <= 1.3 for each in factors)} within 1.3 ×"
    )


def factor(row: dict[str, Any]) -> float:
    """By which factor an estimate is off, in either direction."""
    ratio = row["estimated"] / row["measured"]
    return max(ratio, 1 / ratio) if ratio else float("inf")


# Measuring, in a process of its own --------------------------------------------------------------------------------------


def work(names: Sequence[str]) -> int:
    """Measure these cases in this process. Print a line of JSON at the start of each, and one for each row at once.

    An error of the device leaves its context unusable, so that the process ends with it.
    """
    import torch

    makers = cases("cuda")
    for name in names:
        say({"began": name, "device": torch.cuda.get_device_name(), "torch": torch.__version__})
        try:
            for row in rows_of(name, makers[name]()):
                say(row)
        except Exception as error:  # noqa: BLE001 one case's error is its row
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            say({"case": name, "failed": said})
            if "CUDA error" in said or "AcceleratorError" in said:
                return 1
        torch.cuda.empty_cache()
    return 0


def say(row: dict[str, Any]) -> None:
    """Print a line of JSON for the process that reads; mappings that JSON does not know become dicts."""
    print(ROW + json.dumps(row, default=dict), flush=True)


#: Begins the lines that `say` prints, to tell them from what torch prints.
ROW = "row: "


def measure(names: Sequence[str], limit: float, total: float, command: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of cases as they come; a case that crashes, or takes longer than `limit` seconds, has a row that says so.

    After `total` seconds no further case begins, and those left out are rows too.
    """
    end, left = time.monotonic() + total, list(names)
    while left:
        if time.monotonic() > end:
            yield from ({"case": name, "failed": f"not begun: {total:.0f} s were over"} for name in left)
            return
        begun = ""
        with Process([*command, *left], limit) as process:
            for row in process.rows():
                if "began" in row:
                    begun = row["began"]
                    left.remove(begun)
                yield row
                if time.monotonic() > end and "began" not in row:
                    break
            over = process.over
        if process.code not in (0, None) or over:
            why = f"longer than {limit:.0f} s" if over else f"the process ended with {process.code}"
            yield {"case": begun or left.pop(0), "failed": f"{why}: {process.last}"}


class Process:
    """A process that prints rows; it is ended when no line comes for `limit` seconds."""

    def __init__(self, command: Sequence[str], limit: float) -> None:
        self._command, self._limit = command, limit
        self.over, self.last = False, ""
        self.code: int | None = None

    def __enter__(self) -> Process:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return self

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row as it is printed; the last line that is none is kept, since it says what went wrong."""
        assert self._process.stdout is not None
        while True:
            watch = threading.Timer(self._limit, self._end)
            watch.start()
            line = self._process.stdout.readline()
            watch.cancel()
            if not line:
                break
            if line.startswith(ROW):
                yield json.loads(line.removeprefix(ROW))
            elif line.strip():
                self.last = line.strip()[:300]
        self.code = self._process.wait()

    def _end(self) -> None:
        self.over = True
        self._process.kill()

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


# Without the GPU -----------------------------------------------------------------------------------------------------------


#: What groups did not have when the first files were written.
ADDED = {"lookups": None, "reread": None, "strided": None}


def read(file: Path) -> list[dict[str, Any]]:
    """Read the rows of a file of measurements: one JSON object a line."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [{**row, "groups": [{**ADDED, **group} for group in row.get("groups", ())]} for row in rows]


#: The stages that counting needs; no kernel is compiled further.
COUNTED = ("dynamo", "post_grad", "fusion", "output_code", "kernel")


def retraced(rows: Sequence[dict[str, Any]], target: str) -> Iterator[dict[str, Any]]:
    """Replace the counts of measured rows by those of a trace made here for a named GPU; kernels match by number in the case.

    Another version of torch gives kernels other names, or other kernels; where there are not as many, the row says so.
    """
    import explorer

    makers = cases("meta")
    stages = tuple(stage for stage in explorer.types.STAGES if stage.name in COUNTED)
    for name in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == name and "failed" not in row]
        here = list(counted_rows(traced(makers[name](), target=target, stages=stages)))
        if len(here) != len(mine):
            yield {"case": name, "failed": f"{len(mine)} rows were measured, {len(here)} are in the trace made here"}
            continue
        for row, now in zip(mine, here, strict=True):
            yield {**row, "groups": now["groups"], "what_measured": row["what"], "what": now["what"]}


def wanted(name: str, only: Sequence[str]) -> bool:
    """Whether a case's name has one of these parts, or none are asked for."""
    return not only or any(part in name for part in only)


def stored(options: argparse.Namespace) -> int:
    """Print what the estimate says now of a file of measurements."""
    from explorer.reference.gpus.figures import Target

    rows = read(options.source)
    target = Target.parse(options.target)
    print(f"{options.source.name}, estimated for {target.title}\n\n{HEAD}", flush=True)
    rows = [row for row in rows if wanted(row["case"], options.only)]
    done = []
    for row in retraced(rows, options.retrace) if options.retrace else rows:
        done.append(row if "failed" in row else compared(row, target))
        print(shown(done[-1]), flush=True)
    print(f"\n{summary(done)}")
    return 0


def attached(options: argparse.Namespace) -> int:
    """Measure the cases on the attached GPU and print the table."""
    import torch

    from explorer.capture.absent.target import attached_gpu

    if not torch.cuda.is_available():
        sys.exit("No GPU is attached, and this compares with one. Run it on a machine that has one, or use --from FILE.")
    target = attached_gpu()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n\n{HEAD}", flush=True)
    names = [name for name in cases("meta", options.parts) if wanted(name, options.only)]
    command = [sys.executable, str(Path(__file__).resolve()), "--work"]
    began, done = time.monotonic(), []
    if options.json:
        options.json.write_text("", encoding="utf-8")
    for row in measure(names, options.limit, options.seconds, command):
        if "began" in row:
            continue
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        done.append(row if "failed" in row else compared(row, target))
        print(shown(done[-1]), flush=True)
        if options.details and "failed" not in row:
            print(json.dumps({key: done[-1][key] for key in ("case", "what", "measured", "estimated", "groups")}), flush=True)
    print(f"\n{summary(done)}; {time.monotonic() - began:.0f} s")
    return 0


def main() -> int:
    """Print the table and its summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of cases")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--json", type=Path, help="write the rows there as they come, one JSON object a line")
    parser.add_argument("--details", action="store_true", help="print each row as JSON too")
    parser.add_argument("--limit", type=float, default=60, help="seconds that one case may take")
    parser.add_argument("--seconds", type=float, default=900, help="seconds after which no further case begins")
    parser.add_argument("--from", dest="source", type=Path, help="a file of --json: estimate anew, without a GPU")
    parser.add_argument("--target", default="h200", help="with --from, the GPU that was measured")
    parser.add_argument("--retrace", metavar="TARGET", help="with --from, count anew in traces for this GPU")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work)
    return stored(options) if options.source else attached(options)


if __name__ == "__main__":
    sys.exit(main())
