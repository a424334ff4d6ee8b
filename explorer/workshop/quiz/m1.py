"""M1, one function through every stage: guards, links, loops, the tail, one kernel, and where the target comes in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from explorer.model.wording import quantity
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Place, Question, Task, at, random_tensors, traced, traced_on
from explorer.workshop.quiz.fields import Choice, Choices, Lines, Number
from explorer.workshop.quiz.m0 import IDENTITY
from explorer.workshop.quiz.programs import program

TWO_LINES = program(
    """
def two_lines(x):
    y = torch.sin(x) ** 2
    return y + torch.cos(x) ** 2
"""
)
SOFTMAX_OF_SINE = program(
    """
def softmax_of_sine(x):
    return torch.softmax(torch.sin(x), -1)
"""
)
SIZES = (8, 10_000, 10_001, 10_016)
#: The stages that may be the first to know the target, in the compiler's order.
STAGES = ("dynamo", "forward", "inductor_input", "post_grad", "ir_pre_fusion")
MIN_OPERATORS = 4

trace = traced(IDENTITY, (10_000,), target="cpu")
trace_two_lines = traced(TWO_LINES, (10_000,), target="h100")


def by_size() -> Mapping[int, Trace]:
    """A trace of `identity` for each size."""
    return {n: traced(IDENTITY, (n,), target="cpu")() for n in SIZES}


def for_both() -> Mapping[str, Trace]:
    """A trace for the CPU and one for an H100."""
    return {target: traced(SOFTMAX_OF_SINE, (64, 128), target=target)() for target in ("cpu", "h100")}


def _guards(t: Trace) -> int:
    return sum(guard["kind"] == "ID_MATCH" and guard["source"].startswith("G['torch'].") for guard in t.dynamo.guards)


def _lines_of_sine(t: Trace) -> tuple[int, ...]:
    """The kernel's lines that are linked to line 2 of the source, without the one that defines the kernel."""
    rows = t.follow(t.find("source")[0], 2).where(stage="kernel")
    return tuple(n for row in rows for n in row["lines"] if "define_kernel" not in row["route"])


def _loads(t: Trace) -> tuple[int, int]:
    return t.text("ir_post_fusion").count("ops.load("), t.kernels[0].text().count("::loadu(")


def _has_tail(t: Trace) -> bool:
    return str(t.kernels[0].text()).count("::loadu(") > 1


def _masked(t: Trace, stage: str) -> str:
    """A stage's text without the device's name."""
    return re.sub(r"\bcuda:\d+|\bcuda\b|\bcpu\b", "DEVICE", t.text(stage))


def _first_that_differs(traces: Mapping[str, Trace]) -> str:
    one, other = traces["cpu"], traces["h100"]
    return next(stage for stage in STAGES if _masked(one, stage) != _masked(other, stage))


def _of_sizes(traces: Mapping[int, Trace]) -> Place:
    return at(traces[10_001], "kernel", ("::loadu(tmp", "tail", "::loadu("))


def _trace_of(function: Any) -> Trace:
    return traced_on(function, random_tensors((1000,)), target="cpu")


def operators(t: Trace) -> list[str]:
    """The operators of Dynamo's graphs, by their targets."""
    return [n["target"] for graph in t.find("dynamo") for n in graph.nodes if n["op"].startswith("call_")]


def is_same(t: Trace) -> tuple[bool, str]:
    """Whether the compiled function gives what it gives in eager mode; for a check."""
    rows = t.check()
    wrong = [row["output"] for row in rows if not row["equal"]]
    return bool(rows) and not wrong, f"{wrong[0]} differs from eager" if wrong else f"{len(rows)} outputs, equal to eager"


def number_of_kernels(wanted: int) -> Check:
    """The check that a trace has so many kernels."""
    plural = "kernel" if wanted == 1 else "kernels"
    return Check(f"{wanted} {plural}", lambda t: (len(t.kernels) == wanted, quantity(len(t.kernels), "kernel")))


def _enough(t: Trace) -> tuple[bool, str]:
    names = operators(t)
    return len(names) >= MIN_OPERATORS, f"{len(names)} in Dynamo's graph"


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M1.1",
        text="`identity` calls two functions of `torch`. How many guards protect functions of the module `torch`?",
        fields=(Number(),),
        make=trace,
        truth=_guards,
        hint="What if somebody replaced torch.sin? Look for ID_MATCH in the tab “Guards & breaks”.",
        where=lambda t: at(t, "guards", "G['torch'].sin"),
        note="One for torch.sin and one for torch.cos: replaced, they would make the compiled code wrong.",
        program=IDENTITY,
    ),
    Question(
        id="M1.2",
        text="Which lines of the Triton kernel of `two_lines`, for an H100, come from the line with `sin`?"
        " Leave the `def` line out.",
        fields=(Lines(stage="kernel"),),
        make=trace_two_lines,
        truth=_lines_of_sine,
        hint="Click the line with `sin` in the view, and read which lines of the kernel light up.",
        where=lambda t: at(t, "kernel", "tl_math.sin"),
        note="The load of x, the sine and its square. The load serves the line with `cos` too.",
        program=TWO_LINES,
    ),
    Question(
        id="M1.3",
        text="How often does the loop body of `identity` (“IR after fusion”) load x, and how often the vectorised C++ kernel?",
        fields=(Number("loop body"), Number("C++ kernel")),
        make=trace,
        truth=_loads,
        hint="“IR after fusion” still has a load for each use. What is used twice is merged only when the kernel is written.",
        where=lambda t: at(t, "ir_post_fusion", "ops.load("),
        note="Lowering wrote one load for sin and one for cos. Code generation found that they are the same.",
        program=IDENTITY,
    ),
    Question(
        id="M1.4",
        text="For which of these numbers of elements does the C++ kernel of `identity` have a tail, a branch for the rest?",
        fields=(Choices(options=tuple(map(str, SIZES))),),
        make=by_size,
        truth=lambda traces: [str(n) for n, t in traces.items() if _has_tail(t)],
        hint="A vector has 8 or 16 numbers. Which sizes are a multiple of it?",
        where=_of_sizes,
        note="Only what is left over after whole vectors needs a tail.",
        program=IDENTITY,
    ),
    Task(
        id="M1.5",
        text="Write a function of one tensor with at least four operators that becomes exactly one kernel.",
        takes="a function of one tensor: your_function",
        make=_trace_of,
        checks=(number_of_kernels(1), Check("at least 4 operators", _enough), Check("the same result as eager", is_same)),
        hint="Pointwise operators of one shape share a loop.",
        where=lambda t: at(t, "kernel"),
        start="def mine(x):\n    return ...",
    ),
    Question(
        id="M1.6",
        text="`softmax_of_sine` is compiled for the CPU and for an H100. Which stage is the first whose text differs?"
        " The device's name does not count.",
        fields=(Choice(options=STAGES),),
        make=for_both,
        truth=_first_that_differs,
        hint="In the tab “Diff” choose a stage of one and the same stage of the other, from the first of them on.",
        where=lambda traces: at(traces["h100"], "post_grad", "prims.prepare_softmax_online"),
        note="A pattern for the online softmax fires on the GPU only. All before it is the same for both.",
        program=SOFTMAX_OF_SINE,
    ),
)
