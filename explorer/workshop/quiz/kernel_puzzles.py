"""P, the puzzles in Triton: rewrite a kernel, so that the GPU has less to do and the result is the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from explorer.lab.live.protocol import needs_live
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Place, Task, at, whole
from explorer.workshop.quiz.m5 import MATMUL, SOFTMAX, arguments, equals, findings, is_kernel, is_softmax
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import program

SILU = program(
    """
@triton.jit
def silu(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.sigmoid(tl.load(x + i, mask=i < n))
    tl.store(out + i, gate, mask=i < n)
    gate = tl.load(out + i, mask=i < n)
    tl.store(out + i, gate * tl.load(x + i, mask=i < n), mask=i < n)
""",
    is_triton=True,
)
TOTAL = program(
    """
@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
    tl.store(out, tl.load(out) + part)
""",
    is_triton=True,
)
STRIDED = program(
    """
@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) + tl.arange(0, BLOCK) * tl.num_programs(0)
    values = tl.load(x + i, mask=i < n)
    tl.store(out + i, values * 2, mask=i < n)
""",
    is_triton=True,
)
PRODUCT = program(
    """
@triton.jit
def product(a, b, c, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    left = tl.load(a + i[:, None] * SIZE + i[None, :])
    right = tl.load(b + i[:, None] * SIZE + i[None, :])
    products = left[:, :, None].to(tl.float32) * right[None, :, :]
    tl.store(c + i[:, None] * SIZE + i[None, :], tl.sum(products, 1))
""",
    is_triton=True,
)
GELU = program(
    """
@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n)
    result = values * 0.5 * (1 + tl.erf(values * 0.7071067811865476))
    tl.store(out + i, result, mask=i < n)
""",
    is_triton=True,
)
BLOCK, SIZE, ROWS, COLUMNS = 1024, 32, 2, 20_000
#: The elements of a vector: some whole blocks, so that masks do not keep loads from being vectors.
LENGTH = 4 * BLOCK
#: How far a GELU may be from the exact one.
TOLERANCE = 1e-3
#: The sides of the matrices that `matmul` multiplies.
SIDES = (256, 256, 128)
#: The warps that fit on a multiprocessor of an H100.
WARPS = 64


def _of(kernel: Any, *args: Any, grid: tuple[int, ...], **options: Any) -> Trace:
    return whole(trace(kernel, *args, grid=grid, target="h100", sass=False, **options))


def _on_vector(kernel: Any) -> Trace:
    """The learner's kernel on a vector, in blocks of 1024."""
    import torch

    x = torch.randn(LENGTH) * 2
    return _of(kernel, x, torch.zeros(LENGTH), LENGTH, BLOCK=BLOCK, grid=(LENGTH // BLOCK,))


def _on_thousand(kernel: Any) -> Trace:
    """The learner's kernel on 1000 numbers and one result, in blocks of 256."""
    import torch

    return _of(kernel, torch.randn(1000), torch.zeros(1), 1000, BLOCK=256, grid=(4,))


def _on_square(kernel: Any) -> Trace:
    """The learner's kernel on two float16 matrices and a float32 result."""
    import torch

    a, b = (torch.randn(SIZE, SIZE, dtype=torch.float16) for _ in range(2))
    return _of(kernel, a, b, torch.zeros(SIZE, SIZE), SIZE=SIZE, grid=(1,))


def _on_long_rows(kernel: Any, **options: Any) -> Trace:
    """The learner's kernel on rows of 20 000 numbers."""
    import torch

    x, out = torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)
    return _of(kernel, x, out, COLUMNS, BLOCK=32_768, grid=(ROWS,), **options)


def _on_matrices(kernel: Any, **options: Any) -> Trace:
    """The learner's kernel on float16 matrices, with tiles of 128 × 128 × 64 unless others are given."""
    import torch

    rows, columns, inner = SIDES
    a, b = torch.randn(rows, inner).half(), torch.randn(inner, columns).half()
    c = torch.zeros(rows, columns, dtype=torch.float16)
    given = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 4, "num_stages": 5, **options}
    grid = (-(-rows // given["BM"]), -(-columns // given["BN"]))
    return _of(kernel, a, b, c, rows, columns, inner, grid=grid, **given)


def _writes(expected: Callable[..., Any]) -> Callable[[Trace], tuple[bool, str]]:
    """Make a test that a kernel writes what a function gives for its inputs."""

    def test(t: Trace) -> tuple[bool, str]:
        *inputs, _ = arguments(t)
        return equals(t, expected(*inputs))

    return test


def _near_gelu(t: Trace) -> tuple[bool, str]:
    """Whether a kernel's result is near the exact GELU."""
    import torch

    x, _ = arguments(t)
    (result,) = needs_live(t, "running").run().values()
    apart = float((result - torch.nn.functional.gelu(x)).abs().max())
    return apart <= TOLERANCE, f"off by up to {apart:.2g}, and {TOLERANCE:g} is allowed"


def _accessed(t: Trace) -> int:
    """Count the elements that a kernel loads and stores, each as often as it does."""
    return int(sum(row["accesses"] for row in t.sanitize().launches))


def _narrow(t: Trace) -> int:
    """Count the loads and stores of global memory that move less than 16 bytes a thread."""
    accesses = re.findall(r"\b(?:ld|st)\.global[\w.:]*", t.text("ptx"))
    return sum(not re.search(r"\.v4\.b32|\.v2\.b64|\.v8\.", access) for access in accesses)


def _multiplications(t: Trace) -> int:
    return len(re.findall(r"\b(?:fma|mul)\.(?:rn\.)?(?:ftz\.)?(?:f16|bf16|f32|f64)", t.text("ptx")))


def _uses_tensor_cores(t: Trace) -> tuple[bool, str]:
    found = re.search(r"\b(?:wgmma\.mma_async|mma\.sync)", t.text("ptx"))
    return found is not None, f"{found[0]} in the PTX" if found else "no mma.sync or wgmma in the PTX"


def _spilled(t: Trace) -> int:
    taken = t.kernels[0].resources
    return int(taken["spill_stores"]) + int(taken["spill_loads"])


def _idle_warps(t: Trace) -> int:
    return WARPS - int(t.kernels[0].resources["occupancy"]["warps"])


def _has_no_loop(t: Trace) -> tuple[bool, str]:
    """Whether no instruction runs twice: only then their number tells the work."""
    loops = len(re.findall(r"\bscf\.(?:for|while)\b", t.text("ttir")))
    return not loops, f"{loops} in the TTIR" if loops else "none in the TTIR"


def _instructions(t: Trace) -> int:
    return sum(t.kernels[0].instruction_mix().values())


def _at(stage: str, *signs: str) -> Callable[[Trace], Place]:
    return lambda t: at(t, stage, signs)


EXERCISES: tuple[Item, ...] = (
    Task(
        id="P.15",
        title="Write the kernel that Inductor would",
        text="`silu` writes a half-done result and reads it again. Write the kernel as Inductor would: one load, one store.",
        takes="a Triton kernel (x, out, n, BLOCK): your_kernel",
        is_it=is_kernel,
        make=_on_vector,
        checks=(Check("x · sigmoid(x)", _writes(lambda x: x * x.sigmoid())),),
        par=Par("accessed element", _accessed, start=5 * LENGTH, par=2 * LENGTH),
        hint="A value that was loaded stays in registers.",
        where=_at("ttir", "tt.load"),
        note="What happens between a load and a store is nearly free.",
        start=SILU.text,
        program=SILU,
    ),
    Task(
        id="P.16",
        title="Find the race",
        text="Four programs of `total` add to one number, and their updates can be lost. Make it safe in any order.",
        takes="a Triton kernel (x, out, n, BLOCK): your_kernel",
        is_it=is_kernel,
        make=_on_thousand,
        checks=(Check("the sum of x", _writes(lambda x: x.sum().reshape(1))),),
        par=Par("race", lambda t: findings(t, "read-write", "write-write"), start=2, par=0),
        hint="An atomic addition reads and writes in one step.",
        where=_at("kernel", "tl.store"),
        note="The hardware orders atomics on one address. The order is not fixed, so neither is the rounding.",
        start=TOTAL.text,
        program=TOTAL,
    ),
    Task(
        id="P.17",
        title="Load four at a time",
        text="Neighbouring threads of `doubled` access numbers far apart, one by one. Make a load take four neighbours.",
        takes="a Triton kernel (x, out, n, BLOCK): your_kernel",
        is_it=is_kernel,
        make=_on_vector,
        checks=(Check("2 · x", _writes(lambda x: 2 * x)),),
        par=Par("narrow instruction", _narrow, start=16, par=0),
        hint="Which elements does a program own: every fourth, or a block of neighbours?",
        where=_at("ptx", "ld.global"),
        note="Four neighbours are 16 bytes, one instruction. And the threads of a warp share cache lines.",
        start=STRIDED.text,
        program=STRIDED,
    ),
    Task(
        id="P.18",
        title="Spill nothing",
        text="With 4 warps `softmax` has too few registers for rows of 20 000 numbers, and spills. num_warps may be given.",
        takes="a Triton kernel (x, out, columns, BLOCK): your_kernel",
        is_it=is_kernel,
        options=("num_warps", "num_stages"),
        make=_on_long_rows,
        checks=(Check("the softmax of each row", is_softmax),),
        par=Par("spilled byte", _spilled, start=1068, par=0),
        hint="A thread has 255 registers at most. Who else could hold the row?",
        where=_at("ttgir", "#blocked ="),
        note="Twice the warps, half the values for each thread.",
        start=SOFTMAX.text,
        program=SOFTMAX,
    ),
    Task(
        id="P.19",
        title="Use tensor cores",
        text="`product` multiplies two float16 matrices number by number. Leave no multiplication outside of the tensor cores.",
        takes="a Triton kernel (a, b, c, SIZE): your_kernel",
        is_it=is_kernel,
        make=_on_square,
        checks=(Check("a @ b", _writes(lambda a, b: a.float() @ b.float())), Check("tensor cores", _uses_tensor_cores)),
        par=Par("multiplication", _multiplications, start=256, par=0),
        hint="Triton has an operator for a product of two blocks.",
        where=_at("ptx", "fma.rn.f32", "mul.f32", "mma"),
        note="One instruction multiplies whole tiles, for all threads of a warp together.",
        start=PRODUCT.text,
        program=PRODUCT,
    ),
    Task(
        id="P.20",
        title="Raise the occupancy",
        text="Guess: of 64 warps, how many of `matmul` fit on a multiprocessor of an H100? Choose options so that 16 do.",
        takes="the kernel, with other options: matmul",
        is_it=is_kernel,
        options=("BM", "BN", "BK", "num_warps", "num_stages"),
        make=_on_matrices,
        checks=(Check("a @ b", _writes(lambda a, b: (a.float() @ b.float()).half())),),
        par=Par("idle warp", _idle_warps, start=60, par=48),
        hint='A stage takes 32 KB of shared memory. t.kernels[0].resources["occupancy"] says what limits it.',
        where=_at("ttgir", "ttg.local_alloc"),
        note="More warps hide more waiting. But smaller tiles read more, so the fullest is not always the fastest.",
        start=MATMUL.text,
        program=MATMUL,
    ),
    Task(
        id="P.21",
        title="The fewest instructions for GELU",
        text="The error function takes most of the instructions of `gelu`. Come within 0.001 of the result with fewer.",
        takes="a Triton kernel (x, out, n, BLOCK): your_kernel",
        is_it=is_kernel,
        make=_on_vector,
        checks=(Check("within 0.001 of GELU", _near_gelu), Check("no loop", _has_no_loop)),
        par=Par("instruction", _instructions, start=296, par=160),
        hint="GELU has a famous approximation with tanh. And tanh(y) is 2 · sigmoid(2y) − 1.",
        where=_at("ptx", "fma.rn.f32"),
        note="torch.nn.GELU takes approximate='tanh' for this reason.",
        start=GELU.text,
        program=GELU,
    ),
)
