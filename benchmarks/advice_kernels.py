"""Two hand-written Triton kernels for `advice.py`, each with a plant: a tile too large for its warps, too few programs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Multiply two matrices, a tile a program."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + inner[None, :])
        right = tl.load(b + inner[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def scaled(x, out, EACH: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Double a tensor, `EACH` elements a program."""
    start = tl.program_id(0).to(tl.int64) * EACH
    for offset in range(0, EACH, BLOCK):
        at = start + offset + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) * 2)
