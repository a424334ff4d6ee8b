"""M5, Triton to SASS: vectors, shared memory, warp specialization, tensor cores, pipelines, barriers, spills."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.errors import InputError
from explorer.lab.live.protocol import needs_live
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Question, Task, at, whole
from explorer.workshop.quiz.fields import Choice, Choices, Number
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import Program, program, undisturbed

ADD = program(
    """
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
    tl.store(out + i, total, mask=i < n)
""",
    is_triton=True,
)
BUFFER = program(
    """
@triton.jit
def shared_memory_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    buffer = tl.zeros((BLOCK,), tl.float32)
    buffer += tl.load(x + i, mask=i < n)
    tl.store(out + i, buffer * 2, mask=i < n)
""",
    is_triton=True,
)
SPECIALIZED = program(
    """
@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, n, BLOCK, warp_specialize=True):
        sums += tl.load(x + start + i)
    tl.store(out + i, sums)
""",
    is_triton=True,
)
MATMUL = program(
    """
@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))
""",
    is_triton=True,
)
WITHOUT_MASK = program(
    """
@triton.jit
def add_without_mask(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))
""",
    is_triton=True,
)
SOFTMAX = program(
    """
@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, 0), mask=i < columns)
""",
    is_triton=True,
)
DTYPES = ("float64", "float32", "bfloat16")
SIZES = (4096, 4095, 4080, 4090, 1000, 1024)
GPUS = ("a100", "h100", "b200")
INSTRUCTIONS = ("mma.sync", "wgmma", "tcgen05")
BLOCK, ROWS, COLUMNS, MANY_COLUMNS = 1024, 8, 1000, 20_000
WARPS = (32, 16, 8, 4, 2, 1)
#: No GPU here has shared memory for more.
MAX_STAGES = 12

Traces = Mapping[Any, Trace]


def _of(kernel: Program, *args: Any, **options: Any) -> Trace:
    """Trace one of the kernels, for an H100 unless another GPU is named; SASS is made when it is asked for."""
    with undisturbed():
        return whole(trace(kernel.load(), *args, **{"target": "h100", "sass": False, **options}))


def added(n: int, dtype: str = "float32") -> Trace:
    """A trace of `add` on n numbers."""
    import torch

    x = torch.zeros(n, dtype=getattr(torch, dtype))
    return _of(ADD, x, x, x, n, BLOCK=BLOCK)


def by_dtype() -> Traces:
    """A trace of `add` for each dtype."""
    return {dtype: added(4096, dtype) for dtype in DTYPES}


def by_size() -> Traces:
    """A trace of `add` for each number of elements."""
    return {n: added(n) for n in SIZES}


def buffer() -> Trace:
    """A trace of the kernel that a guide calls a shared memory kernel."""
    import torch

    x = torch.zeros(4096)
    return _of(BUFFER, x, x, 4096, BLOCK=BLOCK)


def specialized() -> Traces:
    """A trace of the loop over plain loads for each GPU."""
    import torch

    x = torch.zeros(8192)
    return {gpu: _of(SPECIALIZED, x, x, 8192, BLOCK=BLOCK, target=gpu) for gpu in GPUS}


def multiplied(target: str, **options: Any) -> Trace:
    """A trace of `matmul` with tiles of 128 × 128 × 64, unless others are given."""
    import torch

    a, b, c = (torch.zeros(shape, dtype=torch.float16) for shape in ((256, 128), (128, 256), (256, 256)))
    tile = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 4, "num_stages": 2}
    return _of(MATMUL, a, b, c, 256, 256, 128, **{**tile, **options}, target=target)


def by_gpu() -> Traces:
    """A trace of `matmul` for each GPU, and one for an H100 with 16 rows."""
    return {**{gpu: multiplied(gpu) for gpu in GPUS}, "h100, BM=16": multiplied("h100", BM=16)}


def by_stages() -> Traces:
    """A trace of `matmul` for an A100 for each number of stages, up to the first that does not fit."""
    traces: dict[int, Trace] = {}
    for stages in range(1, MAX_STAGES + 1):
        traces[stages] = multiplied("a100", num_warps=8, num_stages=stages)
        if not _fits(traces[stages]):
            break
    return traces


def by_warps() -> Traces:
    """A trace of `softmax` with 20 000 columns for each number of warps, down to the first that spills."""
    import torch

    x, traces = torch.zeros(ROWS, MANY_COLUMNS), {}
    for warps in WARPS:
        traces[warps] = _of(SOFTMAX, x, x, MANY_COLUMNS, BLOCK=32_768, num_warps=warps)
        if _spills(traces[warps]):
            break
    return traces


def _fits(t: Trace) -> bool:
    return bool(t.kernels[0].resources["occupancy"]["blocks"] >= 1)


def _spills(t: Trace) -> int:
    return int(t.kernels[0].resources["spill_stores"])


def _per_thread(t: Trace) -> int:
    match = re.search(r"#blocked = .*sizePerThread = \[(\d+)\]", t.text("ttgir"))
    if match is None:
        raise InputError("its TTGIR has no blocked layout of one dimension")
    return int(match[1])


def _instruction(t: Trace) -> str:
    text = t.text("ptx")
    return next(word for word in reversed(INSTRUCTIONS) if f"{word}." in text)


def _most(traces: Traces, good: Callable[[Trace], bool]) -> int:
    return int(max(number for number, t in traces.items() if good(t)))


def _fewest(traces: Traces, good: Callable[[Trace], bool]) -> int:
    return int(min(number for number, t in traces.items() if good(t)))


def is_kernel(value: Any) -> bool:
    """Whether a value is a Triton kernel, jitted or autotuned."""
    return callable(value) and hasattr(value, "arg_names") and hasattr(value, "__getitem__")


def _sum_of(kernel: Any) -> Trace:
    """The learner's kernel on 1000 numbers, in blocks of 1024."""
    import torch

    x, y, out = torch.randn(COLUMNS), torch.randn(COLUMNS), torch.zeros(COLUMNS)
    return whole(trace(kernel, x, y, out, COLUMNS, BLOCK=BLOCK, grid=(1,), target="h100", sass=False))


def _softmax_of(kernel: Any, **options: Any) -> Trace:
    """The learner's kernel on rows of 1000 numbers."""
    import torch

    x, out = torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)
    call = (kernel, x, out, COLUMNS)
    return whole(trace(*call, BLOCK=BLOCK, grid=(ROWS,), target="h100", sass=False, **options))


def arguments(t: Trace) -> Sequence[Any]:
    """The tensors that a traced kernel was called with."""
    live = needs_live(t, "its arguments")
    return [value for value in live.call.args if hasattr(value, "dim")]  # type: ignore[attr-defined]


def findings(t: Trace, *kinds: str) -> int:
    """Count the findings of `t.sanitize()` of some kinds that do harm. InputError if not every access could be judged."""
    seen = t.sanitize()
    if why := seen.end or "; ".join(str(row["note"]) for row in seen.launches if not row["complete"]):
        raise InputError(f"not every access could be judged: {why}")
    return sum(row["kind"] in kinds and not row["harmless"] for row in seen.table)


def _adds(t: Trace) -> tuple[bool, str]:
    x, y, _ = arguments(t)
    return equals(t, x + y)


def is_softmax(t: Trace) -> tuple[bool, str]:
    """Whether a kernel writes the softmax of each row of its first argument; for a check."""
    x, _ = arguments(t)
    return equals(t, x.softmax(-1))


def equals(t: Trace, expected: Any) -> tuple[bool, str]:
    """Whether the output of a kernel, interpreted, is what is expected."""
    rows = t.check(expected=expected)
    wrong = [row for row in rows if not row["equal"]]
    return bool(rows) and not wrong, f"off by up to {wrong[0]['max_abs']:.3g}" if wrong else "right for every element"


def _barriers(t: Trace) -> int:
    return len(re.findall(r"^\s*(?:@%p\d+ )?(?:bar|barrier)(?:\.cta)?\.(?:sync|arrive|red)", t.text("ptx"), re.MULTILINE))


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M5.1",
        text="How many elements does a thread of `add` load at a time (sizePerThread), for each dtype?",
        fields=tuple(Number(dtype) for dtype in DTYPES),
        make=by_dtype,
        truth=lambda traces: tuple(_per_thread(traces[dtype]) for dtype in DTYPES),
        hint="A load moves at most 128 bits. “TritonGPU IR” defines #blocked at its top.",
        where=lambda traces: at(traces["float32"], "ttgir", "#blocked ="),
        note="128 bits each time, whatever the dtype.",
        program=ADD,
    ),
    Question(
        id="M5.2",
        text="For which of these n does `add` load four numbers at a time (ld.global.v4 in the PTX)?",
        fields=(Choices(options=tuple(map(str, SIZES))),),
        make=by_size,
        truth=lambda traces: [str(n) for n, t in traces.items() if "ld.global.v4" in t.text("ptx")],
        hint="Triton compiles another kernel if n is divisible by 16.",
        where=lambda traces: at(traces[4096], "ptx", "ld.global.v4"),
        note="If n is divisible by 16, four neighbours are all inside or all outside of the mask.",
        program=ADD,
    ),
    Question(
        id="M5.3",
        text="A popular guide calls `shared_memory_kernel` one that uses shared memory. How many bytes of it does it use?",
        fields=(Number(),),
        make=buffer,
        truth=lambda t: t.kernels[0].resources["shared"],
        hint="What does tl.zeros make? The tab “Kernels” has the bytes of shared memory.",
        where=lambda t: at(t, "ttgir", ("tt.load", "arith.constant dense")),
        note="None: tl.zeros makes registers. Triton itself decides what goes through shared memory.",
        program=BUFFER,
    ),
    Question(
        id="M5.4",
        text="`total` asks for warp specialization of a loop over plain loads. On which GPUs does that take effect?",
        fields=(Choices(options=GPUS),),
        make=specialized,
        truth=lambda traces: [gpu for gpu, t in traces.items() if "ttg.warp_specialize(" in t.text("ttgir")],
        hint="Look for ttg.warp_specialize( in “TritonGPU IR”. What would the other warps do?",
        where=lambda traces: at(traces["b200"], "ttgir", "tt.load"),
        note="On none: there is no asynchronous copy and no tensor core to hand to other warps. And nothing says so.",
        program=SPECIALIZED,
    ),
    Question(
        id="M5.5",
        text="Which instruction does tl.dot of `matmul` become on each GPU, and on an H100 with BM=16?",
        fields=tuple(Choice(label, options=INSTRUCTIONS) for label in ("A100", "H100", "B200", "H100 with BM=16")),
        make=by_gpu,
        truth=lambda traces: tuple(map(_instruction, traces.values())),
        hint="Search “PTX”. wgmma multiplies at least 64 rows.",
        where=lambda traces: at(traces["h100, BM=16"], "ptx", "mma.sync"),
        note="Each generation has an instruction of its own, and the older one stays for small tiles.",
        program=MATMUL,
    ),
    Question(
        id="M5.6",
        text="`matmul` with tiles of 128 × 128 × 64 in float16 and 8 warps: with how many stages (num_stages)"
        " at most does it fit on an A100?",
        fields=(Number(),),
        make=by_stages,
        truth=lambda traces: _most(traces, _fits),
        hint='Each extra stage costs 32 KB of shared memory. k.resources["occupancy"] says how many blocks fit.',
        where=lambda traces: at(traces[_most(traces, _fits)], "ttgir", "ttg.local_alloc"),
        note="With one stage more the kernel compiles, and fits nowhere.",
        program=MATMUL,
    ),
    Task(
        id="M5.7",
        title="Find the overrun",
        text="`add_without_mask` adds 1000 numbers in a block of 1024, and reads outside of its tensors. Mend it.",
        takes="a Triton kernel (x, y, out, n, BLOCK): your_kernel",
        is_it=is_kernel,
        make=_sum_of,
        checks=(Check("the sum of each element", _adds),),
        par=Par("overrun", lambda t: findings(t, "outside"), start=3, par=0),
        hint="A load and a store take mask=….",
        where=lambda t: at(t, "kernel", "tl.load"),
        start=WITHOUT_MASK.text,
        program=WITHOUT_MASK,
    ),
    Task(
        id="M5.8",
        title="A softmax without a barrier",
        text="Compile `softmax` for rows of 1000 numbers without a single barrier. Options such as num_warps are allowed.",
        takes="a Triton kernel (x, out, columns, BLOCK): softmax",
        is_it=is_kernel,
        options=("num_warps", "num_stages"),
        make=_softmax_of,
        checks=(Check("the softmax of each row", is_softmax),),
        par=Par("barrier", _barriers, start=5, par=0),
        hint="A barrier lets warps wait for each other. How many warps need none?",
        where=lambda t: at(t, "ptx", ("bar.sync", "shfl.sync")),
        note="One warp exchanges its values by shuffles, and need not wait for another.",
        start=SOFTMAX.text,
        program=SOFTMAX,
    ),
    Question(
        id="M5.9",
        text="`softmax` of rows with 20 000 numbers (BLOCK=32768) on an H100: with how few warps does nothing spill?",
        fields=(Number(),),
        make=by_warps,
        truth=lambda traces: _fewest(traces, lambda t: not _spills(t)),
        hint="32768 values over 32 threads a warp: how many registers does a thread need, of at most 255?",
        where=lambda traces: at(traces[min(traces)], "ttgir", "#blocked ="),
        note="Half as many warps need twice the registers, and spill.",
        program=SOFTMAX,
    ),
)
