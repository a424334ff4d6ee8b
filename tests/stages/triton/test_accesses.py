"""The arguments that a Triton kernel reads and writes, by its TTIR."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from explorer.capture.ladder.triton_jit import lower_call
from explorer.lab.live.kernel_call import KernelCall
from explorer.reference.gpus.figures import Target
from explorer.stages.triton.accesses import Unreadable, accesses

triton = pytest.importorskip("triton")
tl: Any = triton.language
pytestmark = pytest.mark.compile


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf"))
    v = v - tl.max(v, 0)
    e = tl.exp(v)
    tl.store(out + row * stride + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def gemm(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * sam + ok[None, :] * sak
    bp = b + ok[:, None] * sbk + on[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(ap, mask=ok[None, :] < K - k * BK, other=0.0)
        y = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def layernorm(X, Y, W, B, Mean, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0.0
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        acc += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(acc, axis=0) / N
    var = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        var += x * x
    rstd = 1 / tl.sqrt(tl.sum(var, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        m = cols < N
        w = tl.load(W + cols, mask=m)
        b = tl.load(B + cols, mask=m)
        x = tl.load(X + cols, mask=m, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=m)


@triton.jit
def iadd(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def hist(x, h, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(h + tl.load(x + i, i < n, other=0), 1, i < n)


@triton.jit
def walk(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    xp = x + i
    yp = y + i
    for _ in range(0, n, BLOCK):
        tl.store(yp, tl.load(xp) * 2)
        xp += BLOCK
        yp += BLOCK


@triton.jit
def pick(t, out, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if flag > 3:
        v = tl.load(t[0] + i)
        tl.store(out + i, v)
    else:
        v = tl.load(t[1] + i)
        tl.store(out + i, v + 1)


@triton.jit
def swap(x, y, out, n):
    a = x
    b = y
    k = 0
    while k < n:
        tl.store(out + k, tl.load(a + k))
        c = a
        a = b
        b = c
        k += 1


@triton.jit
def blockptr(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    q = tl.make_block_ptr(y, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(q, tl.load(p, boundary_check=(0, 1)), boundary_check=(0, 1))
        p = tl.advance(p, (0, BN))
        q = tl.advance(q, (0, BN))


@triton.jit
def desc(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    p = tl.make_tensor_descriptor(x, (M, N), (N, 1), (BM, BN))
    q = tl.make_tensor_descriptor(y, (M, N), (N, 1), (BM, BN))
    for c in range(0, N, BN):
        q.store([tl.program_id(0) * BM, c], p.load([tl.program_id(0) * BM, c]))


@triton.jit
def gather(table, idx, out, D, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    j = tl.load(idx + r)
    c = tl.arange(0, BLOCK)
    tl.store(out + r * D + c, tl.load(table + j * D + c, c < D), c < D)


@triton.jit
def raw(x, address, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = address.to(tl.pointer_type(tl.float32))
    tl.store(p + i, tl.load(x + i))


@triton.jit
def one_of(p, q, flag):
    if flag > 3:
        return p
    return q


@triton.jit(noinline=True)
def put(p, value):
    tl.store(p, value)


@triton.jit
def called(x, y, out, flag):
    put(out, tl.load(one_of(x, y, flag)))


@triton.jit
def hidden(x, BLOCK: tl.constexpr):
    p = x + tl.arange(0, BLOCK)
    tl.inline_asm_elementwise("st.global.f32 [$1], 0f00000000; mov.u32 $0, 0;", "=r,l", [p], tl.int32, False, 1)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


#: Each kernel with its arguments, its constants, its grid, and the names of what it reads and writes.
X, HALF, BIAS, COUNTS = numbers(64, 100), numbers(32, 64).half(), numbers(100), torch.zeros(10, dtype=torch.int32)
KERNELS = {
    "softmax": (softmax, (numbers(64, 100), X, 100, 100), {"BLOCK": 128}, 64, "x", "out"),
    "gemm": (
        gemm,
        (HALF, numbers(64, 32).half(), numbers(32, 32).half(), 32, 32, 64, 64, 1, 32, 1, 32, 1),
        {"BM": 32, "BN": 32, "BK": 32},
        1,
        "a b",
        "c",
    ),
    "layernorm": (
        layernorm,
        (X, numbers(64, 100), BIAS, numbers(100), numbers(64), 100, 100, 1e-5),
        {"BLOCK": 32},
        64,
        "X W B",
        "Y Mean",
    ),
    "iadd": (iadd, (numbers(100), BIAS, 100), {"BLOCK": 32}, 4, "x y", "x"),
    "hist": (hist, (torch.randint(0, 10, (100,)), COUNTS, 100), {"BLOCK": 32}, 4, "x h", "h"),
    "walk": (walk, (numbers(128), numbers(128), 128), {"BLOCK": 32}, 1, "x", "y"),
    "pick": (pick, ((numbers(64), numbers(64)), numbers(64), 5), {"BLOCK": 64}, 1, "t[0] t[1]", "out"),
    "swap": (swap, (numbers(64), numbers(64), numbers(64), 64), {}, 1, "x y", "out"),
    "blockptr": (blockptr, (X, numbers(64, 100), 64, 100), {"BM": 16, "BN": 32}, 4, "x", "y"),
    "desc": (desc, (numbers(64, 128), numbers(64, 128), 64, 128), {"BM": 16, "BN": 32}, 4, "x", "y"),
    "called": (called, (numbers(4), numbers(4), numbers(4), 5), {}, 1, "x y", "out"),
}


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("name", KERNELS)
def test_the_arguments_that_a_kernel_reads_and_writes_are_found(name: str) -> None:
    """Loops, branches, calls, descriptors and atomics keep arguments apart; what the interpreter sees written is among them."""
    kernel, args, constants, programs, read, written = KERNELS[name]
    ttir = lower_call(kernel, args, constants, (programs,), Target.parse("h100"), None).lowered.ttir
    call = KernelCall(kernel, args, constants, (programs,))
    tensors = call.tensors()
    found = accesses(ttir)
    assert found.addresses == len(tensors)
    assert [key for n, (key, _) in enumerate(tensors) if n in found.read] == read.split()
    assert [key for n, (key, _) in enumerate(tensors) if n in found.written] == written.split()
    assert sorted(call.run()[0]) == sorted(written.split())


def test_bytes_count_each_memory_once() -> None:
    """Arguments that share memory count once, and so does an element that an expanded tensor repeats."""
    x = numbers(100)
    cases = {(x, x): (400, 400), (numbers(1).expand(100), x): (404, 400)}
    for args, (read, written) in cases.items():
        ttir = lower_call(iadd, (args[1], args[0], 100), {"BLOCK": 32}, (4,), Target.parse("h100"), None).lowered.ttir
        moved = KernelCall(iadd, (args[1], args[0], 100), {"BLOCK": 32}, (4,)).bytes_moved(ttir)
        assert (moved["read"], moved["written"]) == (read, written)


@pytest.mark.parametrize("kernel", [raw, hidden], ids=["an address that is a number", "inline assembly"])
def test_what_the_text_does_not_say_is_not_guessed(kernel: Any) -> None:
    """An address that is no argument's, and one that assembly is given, leave the bytes unknown, with the reason."""
    args = (numbers(64), X.data_ptr()) if kernel is raw else (numbers(64),)
    ttir = lower_call(kernel, args, {"BLOCK": 64}, (1,), Target.parse("h100"), None).lowered.ttir
    with pytest.raises(Unreadable):
        accesses(ttir)
    moved = KernelCall(kernel, args, {"BLOCK": 64}, (1,)).bytes_moved(ttir)
    assert "read" not in moved and "TTIR" in str(moved["bytes_known"])
