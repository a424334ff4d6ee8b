"""Kernels of several kinds and their arguments, run by triton's own interpreter where this file is run with TRITON_INTERPRET=1.

TRITON_INTERPRET=1 python tests/capture/interpret/own_interpreter.py tensors.pt
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError


@triton.jit
def pointwise(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n, other=1.0)
    tl.store(out + i, tl.where(a > b, tl.exp(a) * b, a / (tl.abs(b) + 1)), mask=i < n)


@triton.jit
def rounded(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(out + i, (a * 3 + 0.1).to(tl.float16).to(tl.float32) * a, mask=i < n)


@triton.jit
def integers(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n, other=1), tl.load(y + i, mask=i < n, other=1)
    tl.store(out + i, (a // b) ^ (a % b) + (a >> 2) * (b << 3) - (a & b), mask=i < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(a - tl.max(a, 0))
    tl.store(out + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def histogram(x, counts, largest, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(counts + a % 8, 1, mask=i < n)
    tl.atomic_max(largest, tl.max(tl.where(i < n, a, 0), 0))


@triton.jit
def combine(factor, term, other_factor, other_term):
    return factor * other_factor, term * other_factor + other_term


@triton.jit
def scan(x, sums, others, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(sums + i, tl.cumsum(a, 0))
    _, recurrence = tl.associative_scan((a * 0.25, a), 0, combine, reverse=True)
    tl.store(others + i, recurrence)


@triton.jit
def shapes(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + i[None, :])
    left, right = tl.split(tl.reshape(tl.trans(a), (N, N // 2, 2)))
    tl.store(out + i[:, None] * N + i[None, :], tl.reshape(tl.join(right, left), (N, N)) + tl.flip(a, 1))


@triton.jit
def ways(x, out, n):
    p = tl.program_id(0)
    total = 0.0
    if p % 3 == 0:
        for k in range(p):
            total += tl.load(x + k)
    elif p % 3 == 1:
        k = p
        while k < n:
            total -= tl.load(x + k)
            k += 2
    tl.store(out + p, total)


@triton.jit
def least(x, n):
    tl.store(x, min(n, tl.program_id(0)))


def cases() -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], tuple[int, ...]]]:
    """By name: a kernel, its arguments, its constants and its grid; the same in every process."""
    torch.manual_seed(0)
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    big, small = torch.randint(-999, 999, (300,), dtype=torch.int32), torch.randint(1, 9, (300,), dtype=torch.int32)
    half = torch.randn(40, 24).half(), torch.randn(24, 36).half(), torch.zeros(40, 36).half()
    found = torch.randint(0, 99, (300,), dtype=torch.int32), torch.zeros(8, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    return {
        "pointwise": (pointwise, (x, y, out, 300), {"BLOCK": 64}, (5,)),
        "float16": (rounded, (x.half(), out.half(), 300), {"BLOCK": 64}, (5,)),
        "integers": (integers, (big, small, torch.zeros_like(big), 300), {"BLOCK": 64}, (5,)),
        "row softmax": (softmax, (torch.randn(7, 50), torch.zeros(7, 50), 50), {"BLOCK": 64}, (7,)),
        "tl.dot": (product, (*half, 40, 36, 24), {"BM": 16, "BN": 16, "BK": 16}, (3, 3)),
        "atomics": (histogram, (*found, 300), {"BLOCK": 64}, (5,)),
        "scan": (scan, (torch.randn(4, 32), torch.zeros(4, 32), torch.zeros(4, 32)), {"N": 32}, (4,)),
        "shapes": (shapes, (torch.randn(16, 16), torch.zeros(16, 16)), {"N": 16}, (1,)),
        "branches and loops": (ways, (torch.randn(20), torch.zeros(20), 20), {}, (20,)),
    }


#: Triton 3.6 takes int() of an array of one element, where a bound of range() is a tensor; numpy 2.4 and newer refuse that.
REFUSED = "only 0-dimensional arrays can be converted to Python scalars"


def tensors(case: tuple[Any, tuple[Any, ...], dict[str, Any], tuple[int, ...]]) -> list[torch.Tensor] | None:
    """The tensors after the kernel has run; None where numpy refuses what triton's interpreter asks of it."""
    kernel, args, constants, grid = case
    try:
        kernel[grid](*args, **constants)
    except InterpreterError as error:
        if triton.__version__.startswith("3.6.") and REFUSED in str(error):
            return None
        raise
    return [a for a in args if isinstance(a, torch.Tensor)]


if __name__ == "__main__":
    torch.save({name: tensors(case) for name, case in cases().items()}, sys.argv[1])
