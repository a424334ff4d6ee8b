"""M4, lowering and fusion: what becomes one kernel, what cannot, and what that costs in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Place, Question, Task, at, random_tensors, traced, traced_on, whole
from explorer.workshop.quiz.fields import Choice, Number
from explorer.workshop.quiz.m1 import is_same
from explorer.workshop.quiz.m3 import calls
from explorer.workshop.quiz.programs import program, undisturbed

SOFTMAX = program(
    """
def softmax(x):
    return torch.softmax(x, -1)
"""
)
ROWS_AND_COLUMNS = program(
    """
def rows_and_columns(x):
    return x.sum(0), x.sum(1)
"""
)
TWO_REDUCTIONS = program(
    """
def two_reductions(x):
    return x.sum(1), x.amax(1)
"""
)
GATED = program(
    """
def gated(x, w):
    a = torch.sin(x)
    return a * (a @ w)
"""
)
RUNNING = program(
    """
def running(x):
    return torch.cumsum(x, 0)
"""
)
RELU_OF_PRODUCT = program(
    """
def relu_of_product(w, x):
    return torch.relu(w @ x)
"""
)
CHAIN = program(
    """
def chain(x):
    return torch.tanh(torch.cos(torch.sin(x))) + x
"""
)
SQUARE = (1024, 1024)
YES_NO = ("yes", "no")
#: Some of the scheduler's reasons, in its own words.
RULES = ("no shared data", "intermediate nodes between node1 & node2", "numel/rnumel mismatch (reduce)", "nothing refuses it")
KERNEL_OR_CALL = ("a kernel that Inductor writes", "a library call")
PRODUCTS = ("one Triton kernel for all", "a library call, and a kernel for the relu")
#: The operators that are products of matrices; M4.7 wants one of them.
MATMULS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "dot"})
VIEWS = frozenset({"permute", "view", "expand", "unsqueeze", "squeeze", "transpose", "t", "_unsafe_view", "reshape"})
MIN_POINTWISE, LAUNCHES = 4, 2

trace_softmax = traced(SOFTMAX, SQUARE, target="h100")
trace_rows = traced(ROWS_AND_COLUMNS, SQUARE, target="h100")
trace_reductions = traced(TWO_REDUCTIONS, SQUARE, target="h100")
trace_chain = traced(CHAIN, SQUARE, target="h100")


def trace_gated() -> Trace:
    """A trace of `gated` with the request to fuse sin and mul."""
    return traced_on(GATED.load(), random_tensors(SQUARE, SQUARE), target="h100", fuse=("sin", "mul"))


def running() -> Mapping[str, Trace]:
    """A trace of `running` for the CPU and one for an H100."""
    return {target: traced(RUNNING, SQUARE, target=target)() for target in ("cpu", "h100")}


def products() -> Mapping[str, Trace]:
    """A trace of a product with a vector, and one with two columns, in bfloat16."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        w = torch.randn(512, 512, dtype=torch.bfloat16)
        shapes = {"vector": (512,), "two columns": (512, 2)}
        made = {name: torch.randn(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}
        return {name: whole(trace(RELU_OF_PRODUCT.load(), w, x, target="h100")) for name, x in made.items()}


def _nodes_and_kernels(t: Trace) -> tuple[int, int, int]:
    before, after = (sum(len(a.nodes) for a in t.find(stage)) for stage in ("ir_pre_fusion", "ir_post_fusion"))
    return before, after, len(t.kernels)


def _why_apart(t: Trace) -> tuple[str, str, int]:
    why = t.why("sum_1", "sum_2")
    return _yes(why.fused), why.rule or RULES[-1], len(t.kernels)


def _yes(value: object) -> str:
    return YES_NO[not value]


def _cost_of_keeping_apart(t: Trace) -> int:
    changed = t.what_if(keep_apart=("sum_1", "amax"))
    return int(changed.figure("bytes_read")["change"])


def _forced(t: Trace) -> tuple[str, str]:
    why = t.why("sin", "mul")
    return _yes(why.fused), why.rule or RULES[-1]


def _how(t: Trace) -> str:
    """Whether the group that computes the cumsum is a call."""
    group = next(group for group in t.fusion.groups if "cumsum" in group["fx_nodes"])
    return KERNEL_OR_CALL[group["kind"] == "extern"]


def _of_product(t: Trace) -> str:
    return PRODUCTS[any(group["kind"] == "extern" for group in t.fusion.groups)]


def launches(t: Trace) -> int:
    """The launches of kernels and the calls of libraries in one run."""
    return sum(len(kernel.launches) for kernel in t.kernels) + len(t.inductor.extern_calls)


def _of_three(function: Any) -> Trace:
    return traced_on(function, random_tensors((64, 64), (64, 64), (64,)), target="h100")


def _one_product(t: Trace) -> tuple[bool, str]:
    found = [name for name in calls(t, "forward") if name in MATMULS]
    return len(found) == 1, ", ".join(found) or "no product"


def _pointwise(t: Trace) -> tuple[bool, str]:
    found = [name for name in calls(t, "forward") if name not in MATMULS | VIEWS]
    return len(found) >= MIN_POINTWISE, f"{len(found)}: {', '.join(found)}" if found else "none"


def _two_launches(t: Trace) -> tuple[bool, str]:
    kernels = sum(len(kernel.launches) for kernel in t.kernels)
    return launches(t) == LAUNCHES, f"{kernels} of kernels and {len(t.inductor.extern_calls)} calls of a library"


def _in(name: str, stage: str, *signs: str) -> Callable[[Mapping[str, Trace]], Place]:
    return lambda traces: at(traces[name], stage, signs)


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M4.1",
        text="`softmax` on an H100: how many nodes has the scheduler before fusion, how many after, and how"
        " many kernels are there?",
        fields=(Number("nodes before"), Number("nodes after"), Number("kernels")),
        make=trace_softmax,
        truth=_nodes_and_kernels,
        hint="A reduction ends a loop. On a GPU the maximum and the sum are one reduction. The tab “Fusion” draws the nodes.",
        where=lambda t: at(t, "ir_pre_fusion", "op", view="fusion"),
        note="On a CPU there are four nodes before fusion: without the online softmax, maximum and sum are two reductions.",
        program=SOFTMAX,
    ),
    Question(
        id="M4.2",
        text="`rows_and_columns` on an H100: are the two sums one kernel? What is the scheduler's reason? How"
        " many kernels are there?",
        fields=(Choice("one kernel", options=YES_NO), Choice("reason", options=RULES), Number("kernels")),
        make=trace_rows,
        truth=_why_apart,
        hint="Which element does each of them read at which step? And a long sum with few results is done in two halves.",
        where=lambda t: at(t, "ir_pre_fusion", ("op2:", "op0:"), view="fusion"),
        note="Both read x, but in another order. The long sum over the columns is split, so that there are three kernels.",
        program=ROWS_AND_COLUMNS,
    ),
    Question(
        id="M4.3",
        text="`two_reductions` of 1024 × 1024 float32 numbers is one kernel on an H100. How many bytes more"
        " are read with sum and amax kept apart?",
        fields=(Number("bytes", tolerance=0.01),),
        make=trace_reductions,
        truth=_cost_of_keeping_apart,
        hint="Apart, each of the two reads x.",
        where=lambda t: at(t, "kernel", "tl.load", view="fusion"),
        note="x once more: 1024 · 1024 · 4 bytes.",
        program=TWO_REDUCTIONS,
    ),
    Question(
        id="M4.4",
        text="`gated`: can sin and mul be one kernel if `fuse=` asks for it? What is the scheduler's reason?",
        fields=(Choice("one kernel", options=YES_NO), Choice("reason", options=RULES)),
        make=trace_gated,
        truth=_forced,
        hint="Draw the graph: what does mul need, and what does that need?",
        where=lambda t: at(t, "post_grad", "aten.mm", view="fusion"),
        note="The product stands between them: it needs all of sin, and mul needs all of it.",
        program=GATED,
    ),
    Question(
        id="M4.5",
        text="`running`, a cumsum: a kernel that Inductor writes, or a library call? On a CPU, and on an H100?",
        fields=(Choice("CPU", options=KERNEL_OR_CALL), Choice("H100", options=KERNEL_OR_CALL)),
        make=running,
        truth=lambda traces: (_how(traces["cpu"]), _how(traces["h100"])),
        hint="A scan needs support of the back end: Triton has it, and the C++ that Inductor writes has not.",
        where=_in("cpu", "output_code", "ops.aten.cumsum.default("),
        note="Inductor writes scans in Triton, and none in C++: there it falls back to ATen.",
        program=RUNNING,
    ),
    Question(
        id="M4.6",
        text="`relu_of_product` in bfloat16 on an H100, w being 512 × 512: what is it with x a vector, and"
        " with x of two columns?",
        fields=(Choice("vector", options=PRODUCTS), Choice("two columns", options=PRODUCTS)),
        make=products,
        truth=lambda traces: (_of_product(traces["vector"]), _of_product(traces["two columns"])),
        hint="A product with a vector is a sum for each row. Who decides between a library call and a reduction?",
        where=_in("vector", "post_grad", "aten.mul", "aten.mv"),
        note="With a vector it is decomposed into a product and a sum, which the relu is fused with. Two"
        " columns go to the library.",
        program=RELU_OF_PRODUCT,
    ),
    Task(
        id="M4.7",
        text="Write a function of x, w (64 × 64) and b (64) with one matrix product and at least 4 pointwise operators,"
        " which takes exactly 2 launches on an H100.",
        takes="a function of three tensors: your_function",
        make=_of_three,
        checks=(
            Check("one matrix product", _one_product),
            Check("at least 4 pointwise operators", _pointwise),
            Check("exactly 2 launches", _two_launches),
            Check("the same result as eager", is_same),
        ),
        hint="The product is a library call. Put all pointwise operators on one side of it.",
        where=lambda t: at(t, "output_code", ("extern_kernels.", ".run(")),
        start="def mine(x, w, b):\n    return ...",
    ),
    Question(
        id="M4.8",
        text="`chain` computes tanh(cos(sin(x))) + x for 1024 × 1024 float32 numbers on an H100. What is the"
        " peak of its memory, in MiB?",
        fields=(Number("MiB", tolerance=0.02),),
        make=trace_chain,
        truth=lambda t: sum(row["bytes"] for row in t.memory.peak) / 2**20,
        hint="What is in memory at the same time? The tab “Memory” draws it. What is inside of one kernel is not in it.",
        where=lambda t: at(t, "output_code", "buf0 = ", view="memory"),
        note="The input and the output, 4 MiB each.",
        program=CHAIN,
    ),
)
