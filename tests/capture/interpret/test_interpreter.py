"""The interpreter: kernels compute the right results on CPU tensors, and nothing of triton stays replaced."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton.language.extra import libdevice

from explorer.capture.interpret.interpreter import Interpreter, interpreting
from explorer.capture.interpret.libdevice import functions
from explorer.errors import InputError
from tests.each import each
from tests.facts import says


@pytest.fixture
def interpreter() -> Iterator[Interpreter]:
    """An interpreter, for the tests that only run kernels."""
    with interpreting() as made:
        yield made


#: A line's number, wherever it stands in a message.
LINE = r"(?=.*\bline \d+)"


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def add_without_mask(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))


@triton.jit
def apply(x, out, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, FUNCTION(tl.load(x + i)))


@triton.jit
def apply_two(x, y, out, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, FUNCTION(tl.load(x + i), tl.load(y + i)))


@triton.jit
def rows(x, out, ROWS: tl.constexpr, N: tl.constexpr, FUNCTION: tl.constexpr):
    """A function of whole rows, one of each for a program."""
    i = tl.arange(0, N)
    for row in tl.range(tl.program_id(0), ROWS, tl.num_programs(0)):
        tl.store(out + row * N + i, tl.load(x + row * N + i) * 0 + FUNCTION(tl.load(x + row * N + i)))


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    across = GROUP * tl.cdiv(N, BN)
    first = pid // across * GROUP
    height = min(tl.cdiv(M, BM) - first, GROUP)
    m = (first + pid % across % height) * BM + tl.arange(0, BM)
    n = pid % across // height * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def branches(out, LIMIT: tl.constexpr):
    """Programs part at a condition, in the number of rounds, and in when they end."""
    pid = tl.program_id(0)
    total = 0
    if pid % 2 == 0:
        total += 100
    for step in range(pid):
        total += step
    while total > LIMIT:
        total -= LIMIT
    tl.store(out + pid, total)


@triton.jit
def counted(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def windows(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Block pointers."""
    at = (tl.program_id(0) * BM, 0)
    source = tl.make_block_ptr(x, (M, N), (N, 1), at, (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), at, (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(target, tl.load(source, boundary_check=(0, 1)) * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


@triton.jit
def described(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Tensor descriptors."""
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        target.store([row, column], source.load([row, column]) + 1)


@triton.jit
def sorted_rows(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@triton.jit
def running_maximum(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, triton_helpers.maximum))


@triton.jit
def spread(x, mean, variance, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i)
    a, b, c = triton_helpers.welford(value, tl.zeros_like(value), value * 0 + 1, 0)
    tl.store(mean + tl.program_id(0), a)
    tl.store(variance + tl.program_id(0), b / c)


@triton.jit
def places(x, value, index, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v, p = triton_helpers.max_with_index(tl.load(x + i), tl.arange(0, N), 0)
    tl.store(value + tl.program_id(0), v)
    tl.store(index + tl.program_id(0), p)


@triton.jit
def drawn(out, seed, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.rand(seed, i))


@triton.jit
def logic(x, out, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    chosen = (value > 0 and value < 1) or not value > -1
    tl.store(out + tl.arange(0, N), tl.where(chosen, 1, 0))


@triton.jit
def assembled(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    made = tl.inline_asm_elementwise("fma.rn.f32 $0, $1, $2, $3;", "=f, f, f, f", [value, value, value], tl.float32, True, 1)
    tl.store(out + i, made)


@triton.jit
def waiting(flags, out, n, HOW: tl.constexpr):
    """Each program waits for the one after it, by a load, an atomic or a lock that is never given back."""
    p = tl.program_id(0)
    rounds = 0
    if HOW == "load":
        while tl.load(flags + p + 1, volatile=True) == 0:
            rounds += 1
    elif HOW == "atomic":
        ready = False
        while not ready:
            ready = tl.atomic_add(flags + p + 1, 0) != 0
    else:
        while tl.atomic_cas(flags, 0, 1) == 1:
            pass
    tl.atomic_xchg(flags + p, 1)
    tl.store(out + p, rounds)


@triton.jit
def locked(lock, total, count):
    """Each program adds in turn, under a lock, and counts something that takes many rounds without writing."""
    left = 3000
    while left > 0:
        left -= tl.load(count)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.atomic_xchg(lock, 0)


@triton.jit
def mistaken(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, nothing_of_that_name)  # noqa: F821


def test_a_launch_computes_what_the_kernel_means(interpreter: Interpreter) -> None:
    """Every program of a launch runs, masks hold, and what was written is said."""
    x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    done = interpreter.run(
        add, (x, y, out, 1000), {"BLOCK": 64, "num_warps": 4}, lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)
    )
    assert torch.equal(out, x + y)
    assert (done.name, done.programs, done.written) == ("add", 16, ("out",))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
def test_matrix_products(interpreter: Interpreter, dtype: torch.dtype) -> None:
    """tl.dot accumulates in float32, with sizes that no block divides and a grouped order of programs."""
    a, b = (torch.randn(n) for n in ((70, 50), (50, 90)))
    a, b = (t.mul(20).to(dtype) if dtype == torch.int8 else t.to(dtype) for t in (a, b))
    out = torch.empty(70, 90, dtype=torch.float32 if dtype == torch.int8 else dtype)
    if dtype == torch.int8:
        a, b = a.to(torch.float16), b.to(torch.float16)
    interpreter.run(product, (a, b, out, 70, 90, 50), {"BM": 16, "BN": 32, "BK": 16, "GROUP": 3}, (15,))
    assert torch.allclose(out.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)


def test_programs_that_take_different_ways(interpreter: Interpreter) -> None:
    """A batch whose programs part is undone and run again in parts: the result is that of one after the other."""
    out = torch.zeros(40, dtype=torch.int32)
    interpreter.run(branches, (out,), {"LIMIT": 30}, (40,))

    def expected(pid: int) -> int:
        total = (100 if pid % 2 == 0 else 0) + sum(range(pid))
        while total > 30:
            total -= 30
        return total

    assert out.tolist() == [expected(pid) for pid in range(40)]


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.float16, torch.bfloat16])
def test_atomics(interpreter: Interpreter, dtype: torch.dtype) -> None:
    """Programs that add to one place all count."""
    x, out = torch.randint(0, 10, (500,)), torch.zeros(10, dtype=dtype)
    interpreter.run(counted, (x, out, 500), {"BLOCK": 64}, (8,))
    assert out.float().tolist() == torch.bincount(x, minlength=10).float().tolist()


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(
            windows,
            marks=pytest.mark.skipif(
                "removed" in inspect.getsource(tl.make_block_ptr), reason="triton 3.9 has no block pointers any more"
            ),
        ),
        described,
    ],
)
def test_block_pointers_and_descriptors(interpreter: Interpreter, kernel: Any) -> None:
    """Windows that reach over the edge read zeros there and write nothing."""
    x, out = torch.randn(20, 40), torch.zeros(20, 40)
    interpreter.run(kernel, (x, out, 20, 40), {"BM": 16, "BN": 16}, (2,))
    assert torch.equal(out, x * 2 if kernel is windows else x + 1)


def test_sort_scan_welford_and_index(interpreter: Interpreter) -> None:
    """Operations that combine many elements give torch's results in every program."""
    x, out = torch.randn(5, 64), torch.empty(5, 64)
    interpreter.run(sorted_rows, (x, out), {"N": 64}, (5,))
    assert torch.equal(out, x.sort(-1).values)
    interpreter.run(running_maximum, (x, out), {"N": 64}, (5,))
    assert torch.equal(out, x.cummax(-1).values)
    mean, variance = torch.empty(5), torch.empty(5)
    interpreter.run(spread, (x, mean, variance), {"N": 64}, (5,))
    assert torch.allclose(mean, x.mean(-1), atol=1e-6) and torch.allclose(variance, x.var(-1, correction=0), atol=1e-5)
    value, index = torch.empty(5), torch.empty(5, dtype=torch.int32)
    interpreter.run(places, (x, value, index), {"N": 64}, (5,))
    assert torch.equal(value, x.max(-1).values) and torch.equal(index.long(), x.argmax(-1))


@pytest.mark.parametrize("name", ["sum", "max", "min", "cumsum"])
def test_reductions_of_the_language(interpreter: Interpreter, name: str) -> None:
    """tl.sum and its like, in a loop over rows that programs share."""
    x, out = torch.randn(7, 32), torch.empty(7, 32)
    interpreter.run(rows, (x, out), {"ROWS": 7, "N": 32, "FUNCTION": getattr(tl, name)}, (3,))
    found = {
        "sum": x.sum(-1, keepdim=True),
        "max": x.amax(-1, keepdim=True),
        "min": x.amin(-1, keepdim=True),
        "cumsum": x.cumsum(-1),
    }
    assert torch.allclose(out, found[name].expand(7, 32), atol=1e-5)


def test_random_numbers_are_triton_s(interpreter: Interpreter) -> None:
    """tl.rand is uniform, the same for the same seed, and another for another."""
    one, same, other = torch.empty(4096), torch.empty(4096), torch.empty(4096)
    for out, seed in ((one, 7), (same, 7), (other, 8)):
        interpreter.run(drawn, (out, seed), {"N": 256}, (16,))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert one.min() >= 0 and one.max() < 1 and abs(one.mean() - 0.5) < 0.02 and len(one.unique()) > 4000


def test_and_or_not_are_elementwise(interpreter: Interpreter) -> None:
    """Python's `and`, `or` and `not` on blocks do what triton compiles them to."""
    x, out = torch.linspace(-2, 2, 32), torch.empty(32, dtype=torch.int32)
    interpreter.run(logic, (x, out), {"N": 32}, (1,))
    assert torch.equal(out.bool(), ((x > 0) & (x < 1)) | ~(x > -1))


def test_inline_assembly_of_one_instruction(interpreter: Interpreter) -> None:
    """The PTX that Inductor writes for atan is computed."""
    x, out = torch.randn(32), torch.empty(32)
    interpreter.run(assembled, (x, out), {"N": 32}, (1,))
    assert torch.allclose(out, x * x + x, atol=1e-6)  # near -1 the terms cancel, and their rounding stays


FLOATS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    name: getattr(torch, name)
    for name in (
        "abs",
        "floor",
        "ceil",
        "trunc",
        "rsqrt",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "atanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "lgamma",
        "erf",
        "erfc",
        "erfinv",
    )
} | {
    "acosh": torch.acosh,
    "nearbyint": torch.round,
    "rint": torch.round,
    "cbrt": lambda x: x ** (1 / 3),
    "round": lambda x: x.sign() * (x.abs() + 0.5).floor(),
    "exp10": lambda x: 10**x,
    "saturatef": lambda x: x.clamp(0, 1),
    "tgamma": lambda x: torch.lgamma(x).exp(),
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "erfcx": torch.special.erfcx,
    "j0": torch.special.bessel_j0,
    "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0,
    "sinpi": lambda x: (torch.pi * x).sin(),
    "fast_tanhf": torch.tanh,
}
PAIRS: dict[str, Callable[..., torch.Tensor]] = {
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "nextafter": torch.nextafter,
    "pow": torch.pow,
    "div_rn": torch.div,
    "fdim": lambda x, y: (x - y).clamp_min(0),
}


@each(sorted(FLOATS))
def test_each_libdevice_function_of_one_float(interpreter: Interpreter, name: str) -> None:
    """It is torch's function of the same meaning."""
    x = torch.linspace(0.01, 0.99, 64) + (1 if name == "acosh" else 0)
    out = torch.empty(64)
    interpreter.run(apply, (x, out), {"FUNCTION": getattr(libdevice, name), "N": 64}, (1,))
    assert torch.allclose(out, FLOATS[name](x), rtol=1e-5, atol=1e-6)


@each(sorted(PAIRS))
def test_each_libdevice_function_of_two_floats(interpreter: Interpreter, name: str) -> None:
    """It is torch's function of the same meaning."""
    x, y, out = torch.rand(64) + 0.1, torch.rand(64) + 0.1, torch.empty(64)
    interpreter.run(apply_two, (x, y, out), {"FUNCTION": getattr(libdevice, name), "N": 64}, (1,))
    assert torch.allclose(out, PAIRS[name](x, y), rtol=1e-5, atol=1e-6)


def test_libdevice_functions_with_integers(interpreter: Interpreter) -> None:
    """Tests of floats give integers, counts of bits are of the bits there, a number can be read as another type."""
    x = torch.tensor([0.0, -1.5, float("inf"), float("nan")])
    expected = {
        "isnan": x.isnan(),
        "isinf": x.isinf(),
        "finitef": x.isfinite(),
        "signbit": x.signbit(),
        "float_as_int": x.view(torch.int32),
    }
    for name, values in expected.items():
        out = torch.empty(4, dtype=torch.int32)
        interpreter.run(apply, (x, out), {"FUNCTION": getattr(libdevice, name), "N": 4}, (1,))
        assert out.tolist() == values.int().tolist(), name
    whole = torch.tensor([1, 255, -1, 1 << 20], dtype=torch.int32)
    for name, numbers in {"popc": [1, 8, 32, 1], "clz": [31, 24, 0, 11], "ffs": [1, 1, 1, 21]}.items():
        out = torch.empty(4, dtype=torch.int32)
        interpreter.run(apply, (whole, out), {"FUNCTION": getattr(libdevice, name), "N": 4}, (1,))
        assert out.tolist() == numbers, name


def test_every_function_of_libdevice_is_known() -> None:
    """No function that triton offers is left without an answer."""
    offered = {name for name, value in vars(libdevice).items() if callable(value) and not name.startswith("_")}
    assert offered - set(functions()) == set()


@pytest.mark.parametrize("how", ["load", "atomic", "lock"])
def test_a_kernel_that_waits_for_another_program_is_refused(interpreter: Interpreter, how: str) -> None:
    """Programs run in turn, so waiting for a later one would never end: an error names the line."""
    flags, out = torch.zeros(9, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    with pytest.raises(InputError, match=says("waiting", "loop", "program") + LINE):
        interpreter.run(waiting, (flags, out, 8), {"HOW": how}, (8,))


def test_a_lock_that_is_given_back_and_a_long_loop_are_not_refused(interpreter: Interpreter) -> None:
    """Who holds a lock ends first, and others then take it; a loop that writes nothing may still be at work."""
    lock, total, count = (torch.tensor([n], dtype=torch.int32) for n in (0, 0, 4))
    interpreter.run(locked, (lock, total, count), {}, (5,))
    assert (lock.item(), total.item()) == (0, 5)


def test_a_missing_mask_is_refused_with_the_line(interpreter: Interpreter) -> None:
    """A kernel that reaches outside of its tensors is stopped before it does."""
    x, out = torch.randn(100), torch.zeros(100)
    line = add_without_mask.starting_line_number + 3
    with pytest.raises(InputError, match=says("add_without_mask", f"line {line}", "0 bytes", "x", "mask")):
        interpreter.run(add_without_mask, (x, x, out, 100), {"BLOCK": 64}, (2,))


def test_a_mistake_in_a_kernel_names_its_line(interpreter: Interpreter) -> None:
    """An error in a kernel's source names the kernel and the line."""
    with pytest.raises(InputError, match=says("mistaken", "NameError: name 'nothing_of_that_name' is not defined") + LINE):
        interpreter.run(mistaken, (torch.zeros(8),), {"N": 8}, (1,))
    with pytest.raises(InputError, match=says("add", "arguments", "'y'")):
        interpreter.run(add, (torch.zeros(8),), {"BLOCK": 8}, (1,))
    with pytest.raises(InputError, match=says("add", "grid")):
        interpreter.run(add, (torch.zeros(8),), {"BLOCK": 8}, None)


def test_the_user_s_own_tensors_and_module_stay() -> None:
    """A kernel's module gets no name of the interpreter's, and a view is written where it lies."""
    before = dict(add.fn.__globals__)
    whole = torch.zeros(20)
    with interpreting() as interpreter:
        interpreter.run(add, (torch.ones(10), torch.ones(10), whole[::2], 10), {"BLOCK": 16}, (1,))
    assert dict(add.fn.__globals__) == before
    assert whole[:10].tolist() == [2.0] * 10


def test_nothing_of_triton_stays_replaced() -> None:
    """The language, libdevice and @triton.jit are the originals after the block, and after one that failed."""
    owners = (tl, tl.core, tl.math, tl.tensor, tl.dtype, libdevice, triton_helpers, triton.runtime.JITFunction)
    before = [dict(vars(owner)) for owner in owners]
    with interpreting():
        assert vars(tl)["load"] is not before[0]["load"]
    with pytest.raises(KeyError), interpreting():
        raise KeyError
    assert [dict(vars(owner)) for owner in owners] == before
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        triton_helpers.maximum(1, 2)


#: In a process of its own, where nothing has been compiled before: a kernel is interpreted, then one is lowered.
AFTERWARDS = """
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from explorer.capture.interpret.interpreter import interpreting
from tests.capture.interpret.own_interpreter import cases, least

with interpreting() as interpreter:
    interpreter.run(*cases()["pointwise"])
source = ASTSource(least, {"x": "*i32", "n": "i32"})
print(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"])
"""


@pytest.mark.compile
def test_a_kernel_is_compiled_after_one_was_interpreted(tmp_path: Path) -> None:
    """The compiler has the language's own min, also where triton loads it only after the first interpretation."""
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], env=environment, capture_output=True, text=True, check=False)
    assert "arith.minsi" in done.stdout, done.stderr
