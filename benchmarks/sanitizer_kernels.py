"""Hand-written kernels for `sanitizer.py`: each is right with WRONG=False, and has one fault with WRONG=True."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def add_one(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """out = x + 1; wrong: the store has no mask."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n) + 1
    if WRONG:
        tl.store(out + i, value)
    else:
        tl.store(out + i, value, i < n)


@triton.jit
def difference(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[i + 1] - x[i]; wrong: the last element reads one behind the end."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    last = n if WRONG else n - 1
    tl.store(out + i, tl.load(x + i + 1, i < last) - tl.load(x + i, i < n), i < n)


@triton.jit
def causal(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[i] + x[i - 2]; wrong: the first two elements read before the start."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    earlier = inside if WRONG else inside & (i >= 2)
    tl.store(out + i, tl.load(x + i, inside) + tl.load(x + i - 2, earlier), inside)


@triton.jit
def scale_rows(x, out, columns, stride, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """Each program scales a row; wrong: rows of the output are half a row apart."""
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + j, j < columns) * 2
    step = stride // 2 if WRONG else stride
    tl.store(out + row * step + j, value, j < columns)


@triton.jit
def histogram(x, counts, n, WRONG: tl.constexpr):
    """counts[x[i]] += 1; wrong: without an atomic."""
    place = counts + tl.load(x + tl.program_id(0))
    if WRONG:
        tl.store(place, tl.load(place) + 1)
    else:
        tl.atomic_add(place, 1)


@triton.jit
def total(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """out = sum(x); wrong: each program adds its part to one address without an atomic."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + i, i < n, other=0.0), 0)
    if WRONG:
        tl.store(out, tl.load(out) + part)
    else:
        tl.atomic_add(out, part)


@triton.jit
def shift(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[i + 1]; wrong: in place, so that a program reads what its neighbour writes."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i + 1, i < n - 1)
    if WRONG:
        tl.store(x + i, value, i < n - 1)
    else:
        tl.store(out + i, value, i < n - 1)


@triton.jit
def tiles(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """Each program writes its tile; wrong: tiles overlap by half, and a tile's values depend on its program."""
    first = tl.program_id(0) * (BLOCK // 2 if WRONG else BLOCK)
    i = first + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * tl.program_id(0), i < n)


@triton.jit
def fill(out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """Fill whole blocks, as a grid of n // BLOCK allows; wrong: the grid has one program too many."""
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)


@triton.jit
def transpose(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """out = x.T by columns; wrong: in place."""
    i = tl.arange(0, BLOCK)
    column = tl.load(x + i * n + tl.program_id(0), i < n)
    if WRONG:
        tl.store(x + tl.program_id(0) * n + i, column, i < n)
    else:
        tl.store(out + tl.program_id(0) * n + i, column, i < n)


@triton.jit
def two_phases(x, parts, out, WRONG: tl.constexpr, PROGRAMS: tl.constexpr):
    """Write a part and read all parts; right: each program reads its own part alone."""
    me = tl.program_id(0)
    tl.store(parts + me, tl.load(x + me))
    if WRONG:
        tl.store(out + me, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS)), 0))
    else:
        tl.store(out + me, tl.load(parts + me))


@triton.jit
def counter(count, WRONG: tl.constexpr):
    """Count programs; wrong: the first one resets the counter with a plain store."""
    if WRONG:  # noqa: SIM102 - Triton decides a constexpr only where it stands alone
        if tl.program_id(0) == 0:
            tl.store(count, 0)
    tl.atomic_add(count, 1)


@triton.jit
def block_pointer(x, out, n, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """Copy through block pointers; wrong: without a check of the boundary."""
    source = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))
    target = tl.make_block_ptr(out, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))
    if WRONG:
        tl.store(target, tl.load(source))
    else:
        tl.store(target, tl.load(source, boundary_check=(0,)), boundary_check=(0,))


@triton.jit
def matmul(a, b, out, n, k, WRONG: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """out = a @ b; wrong: the last block along k has no mask."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    added = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, k, BLOCK_K):
        inner = first + tl.arange(0, BLOCK_K)
        mask = inner < (k + BLOCK_K if WRONG else k)
        left = tl.load(a + row[:, None] * k + inner[None, :], mask[None, :], other=0.0)
        right = tl.load(b + inner[:, None] * n + column[None, :], mask[:, None], other=0.0)
        added += tl.dot(left, right)
    tl.store(out + row[:, None] * n + column[None, :], added)


@triton.jit
def softmax(x, out, columns, WRONG: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of each row; wrong: the mask compares with the block and not with the row."""
    j = tl.arange(0, BLOCK)
    mask = j < (BLOCK if WRONG else columns)
    value = tl.load(x + tl.program_id(0) * columns + j, mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + tl.program_id(0) * columns + j, power / tl.sum(power, 0), j < columns)


@triton.jit
def carried(x, out, WRONG: tl.constexpr):
    """out[p] = x[p] + what comes before; wrong: the result of the program before is taken, which may not be there yet."""
    me = tl.program_id(0)
    before = out if WRONG else x
    tl.store(out + me, tl.load(x + me) + tl.load(before + me - 1, me > 0, other=0.0))


def name_of(kernel: Any) -> str:
    """The kernel's name with spaces."""
    return str(kernel.__name__).replace("_", " ")
