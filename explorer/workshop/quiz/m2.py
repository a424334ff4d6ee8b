"""M2, Dynamo: graph breaks, recompiles, dynamic shapes and stances."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any

from explorer.model.values import text_lines
from explorer.studies.varying.called import Variations, vary
from explorer.studies.varying.vary import Vary
from explorer.tracing.recording.record import record
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Place, Question, Task, at, source_of, traced_on
from explorer.workshop.quiz.exercises import text as words
from explorer.workshop.quiz.fields import Choice, Line, Number
from explorer.workshop.quiz.m1 import is_same, number_of_kernels
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import program, undisturbed

TOY_EXAMPLE = program(
    """
def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b
"""
)
SCALE = program(
    """
def scale(x):
    return x * 2
"""
)
TIMES = program(
    """
def times(x, n):
    return x * n
"""
)
SIZES, MARKED_SIZES = (4, 4, 6, 7, 1), (4, 6, 7)
GUARDS = ("n == 1", "n == 2", "the size of x", "the dtype of x")


@dataclass(frozen=True)
class Printing:
    """A function that was traced, and what it prints when it is called without torch.compile."""

    trace: Trace
    printed: str
    source: str


@dataclass(frozen=True)
class Refused:
    """What became of a call under a stance, and of the same call under none."""

    outcome: str
    note: str
    guard: str
    trace: Trace


def _toy(**options: Any) -> Any:
    """What makes a trace of the toy example on random numbers and ones."""

    def make() -> Trace:
        return _traced_toy(TOY_EXAMPLE.load(), **options)

    return make


def _traced_toy(function: Any, **options: Any) -> Trace:
    return traced_on(function, _numbers_and_ones, **options)


def _numbers_and_ones() -> tuple[Any, Any]:
    import torch

    return torch.randn(10), torch.ones(10)


trace = _toy(backend="eager")
trace_whole = _toy(backend="eager", fullgraph=True)


def sizes() -> Variations:
    """Calls of `scale` with tensors of other sizes."""
    import torch

    with undisturbed():
        p = vary(SCALE.load(), torch.randn(SIZES[0]), backend="eager", variations=[])
        return p.sequence(Vary("x", size={0: n}) for n in SIZES[1:])


def numbers() -> Variations:
    """Calls of `times` with n = 1, 2, 3."""
    import torch

    with undisturbed():
        p = vary(TIMES.load(), torch.randn(4), 1, backend="eager", variations=[])
        return p.sequence(Vary("n", value=n) for n in (2, 3))


def compiles(p: Variations) -> int:
    """How many calls of a probe compiled something."""
    return sum(row["outcome"] in ("compiled", "recompiled") for row in p.table)


def _last_guards(p: Variations) -> Place:
    """The guard that the last compile has instead: of the size, or of the number."""
    last = max(n for n, row in enumerate(p.table) if row["outcome"] in ("compiled", "recompiled"))
    return at(p[last], "guards", ("L['n']", "size=["))


def _guard_of_number(p: Variations) -> Place:
    """The guard of the first compile that fails when n is another."""
    return at(p[0], "guards", ("L['n'] == 1", "L['n']"))


def _compiles_and_guard(p: Variations) -> tuple[int, str]:
    guard = next(str(row["guard"]) for row in p.table if row["outcome"] == "recompiled")
    sorts = {"n == 1": ("['n'] == 1", "n == 1"), "n == 2": ("['n'] == 2", "n == 2"), "the dtype of x": ("dtype",)}
    named = next((option for option, signs in sorts.items() if any(sign in guard for sign in signs)), GUARDS[2])
    return compiles(p), named


def _functions(t: Trace) -> tuple[int, int]:
    return len(t.dynamo.functions), sum(bool(row["compiled"]) for row in t.dynamo.functions)


def _break(t: Trace) -> tuple[int, str]:
    return t.dynamo.graph_breaks[0]["line"], t.dynamo.graph_breaks[0]["reason"]


def no_break(t: Trace) -> tuple[bool, str]:
    """Whether a trace has no graph break; for a check."""
    breaks = t.dynamo.graph_breaks
    return not breaks, f"line {breaks[0]['line']}: {breaks[0]['reason']}" if breaks else "no graph break"


def _printing(function: Any) -> Printing:
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            function(torch.randn(8))
            t = trace(function, torch.randn(8), backend="eager")
        return Printing(t, printed.getvalue(), source_of(function))


def _prints(subject: Printing) -> tuple[bool, str]:
    printed = subject.printed.strip()
    return (
        bool(printed) and "print" in subject.source,
        f"without torch.compile it prints {text_lines(printed)[0]!r}" if printed else "it prints nothing",
    )


def _has_graph(t: Trace) -> tuple[bool, str]:
    nodes = [node["name"] for graph in t.find("dynamo") for node in graph.nodes if node["op"].startswith("call_")]
    return bool(nodes), ", ".join(nodes[:6]) or "no graph: nothing was computed"


def _with_prepared(prepare: Any) -> Trace:
    """Record calls of `scale` with tensors of three sizes; `prepare` gets each before the call."""
    import torch

    compiled = torch.compile(SCALE.load(apart=True), backend="eager")
    with undisturbed(), record() as recording:
        for n in MARKED_SIZES:
            x = torch.randn(n)
            prepare(x)
            compiled(x)
    return recording.trace


def _one_compile(t: Trace) -> tuple[bool, str]:
    return len(t.compile_ids) == 1, f"{len(t.compile_ids)} compiles for the sizes {', '.join(map(str, MARKED_SIZES))}"


def _is_dynamic(t: Trace) -> tuple[bool, str]:
    symbols = [f"{row['symbol']} in {row['vr']}" for row in t.dynamo.symbols]
    return bool(symbols), ", ".join(symbols) or "the size is a constant"


def _refused(given: Any) -> Refused:
    """Call `scale` with a tensor of 4 numbers, then with the given tensor under the stance, and once more without it."""
    import torch

    with undisturbed():
        p = vary(SCALE.load(), torch.randn(4), backend="eager", variations=[])
        last = p.sequence([Vary("x", value=given) & Vary(stance="fail_on_recompile")])
        free = p.sequence([Vary("x", value=given)])
    row, guard = last.table[-1], str(free.table[-1]["guard"] or "")
    return Refused(str(row["outcome"]), str(row["note"]), guard, last[0])


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _as_toy(t: Trace) -> tuple[bool, str]:
    """Whether a trace's result is the toy example's, for ones and for a sum below 0."""
    import torch

    original = TOY_EXAMPLE.load()
    with undisturbed():
        a = torch.randn(10)
        for b in (torch.ones(10), -torch.ones(10)):
            if not torch.allclose(t.live.run(a, b), original(a, b)):
                return False, f"for b = {b[0].item():g} it differs"
    return True, "equal, whichever branch is taken"


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M2.1",
        text="How many functions does Dynamo make of `toy_example`, resume functions included? How many are"
        " compiled at the first call?",
        fields=(Number("functions"), Number("compiled")),
        make=trace,
        truth=_functions,
        hint="One for each side of the `if`, and the part before it. A function is compiled when it first runs.",
        where=lambda t: at(t, "dynamo_bytecode", "__resume_at", frame="0/0"),
        note="b was all ones, so the call took one branch, and only its resume function was compiled.",
        program=TOY_EXAMPLE,
    ),
    Question(
        id="M2.2",
        text="On which line of `toy_example` does the graph break (its `def` is line 1), and what is the reason called?",
        fields=(Line("line", stage="source"), words("reason")),
        make=trace,
        truth=_break,
        hint="Which line needs the value of a tensor? A card in the tab “Guards & breaks” has the reason in Dynamo's words.",
        where=lambda t: at(t, "source", "if b.sum()"),
        note="Python's `if` needs True or False, and while compiling there is no value.",
        program=TOY_EXAMPLE,
    ),
    Task(
        id="M2.3",
        title="Lose the graph break",
        text="Write `toy_example` without a graph break: the same result, in one kernel.",
        takes="a function of two tensors: your_function",
        make=lambda function: _traced_toy(function, target="cpu"),
        checks=(
            number_of_kernels(1),
            Check("the same result as eager", is_same),
            Check("the same result as toy_example", _as_toy),
        ),
        par=Par("graph break", lambda t: len(t.dynamo.graph_breaks), start=1, par=0),
        hint="torch.where chooses, element by element, without asking for a value.",
        where=lambda t: at(t, "source", ("if ", "return")),
        note="Both sides are computed, and a select takes one of them: no value is needed while compiling.",
        start="def without_break(a, b):\n    x = a / (torch.abs(a) + 1)\n    ...\n    return x * b",
        program=TOY_EXAMPLE,
    ),
    Task(
        id="M2.4",
        text="Write a function of one tensor that prints something for debugging, and yet has no graph break.",
        takes="a function of one tensor: your_function",
        make=_printing,
        checks=(
            Check("prints without torch.compile", _prints),
            Check("no graph break", lambda subject: no_break(subject.trace)),
            Check("computes something", lambda subject: _has_graph(subject.trace)),
        ),
        hint="torch.compiler has a function that says whether it is compiling now.",
        where=lambda subject: at(subject.trace, "source", "print"),
        note="Dynamo knows the answer to torch.compiler.is_compiling(), and leaves the branch out.",
        start="def talkative(x):\n    y = x * 2\n    print('the shape is', y.shape)\n    return torch.relu(y)",
    ),
    Question(
        id="M2.5",
        text="`scale` is called with tensors of 4, 4, 6, 7 and 1 numbers. How many compiles are there?",
        fields=(Number(),),
        make=sizes,
        truth=compiles,
        hint="After the second size, the size is a symbol. But 0 and 1 are special.",
        where=_last_guards,
        note="One for 4, one with a symbol for 6 and 7, and one for 1, since broadcasting may depend on a size of 1.",
        program=SCALE,
    ),
    Task(
        id="M2.6",
        text="Make the sizes 4, 6 and 7 of `scale` one compile: write a function that gets each tensor before the call.",
        takes="a function of one tensor, which is called with x before compiled(x): prepare",
        make=_with_prepared,
        checks=(Check("one compile", _one_compile), Check("the size is a symbol", _is_dynamic)),
        hint="mark_dynamic, before the first call.",
        where=lambda t: at(t, ("recompile" if t.find("recompile") else "guards")),
        note="Dynamo need not find out by a recompile what you tell it.",
        start="def prepare(x):\n    ...",
        program=SCALE,
    ),
    Question(
        id="M2.7",
        text="`times(x, n)` is called with the int n = 1, 2 and 3. How many compiles are there? Which guard fails?",
        fields=(Number("compiles"), Choice("guard", options=GUARDS)),
        make=numbers,
        truth=_compiles_and_guard,
        hint="An int becomes a symbol too, once it has changed.",
        where=_guard_of_number,
        note="The first compile has n as a constant, the second as a symbol.",
        program=TIMES,
    ),
    Question(
        id="M2.8",
        text="`toy_example` is compiled with fullgraph=True. What is the error that Dynamo raises called (the failure's `step`)?",
        fields=(words("step"),),
        make=trace_whole,
        truth=lambda t: t.failures[0].step,
        hint="t.failures has it. With fullgraph=True there must not be a second graph.",
        where=lambda t: at(t, "source", "if b.sum()"),
        note="Where a graph would break, fullgraph=True is an error: a test that nothing falls back to Python.",
        program=TOY_EXAMPLE,
    ),
    Task(
        id="M2.9",
        text='`scale` was compiled for 4 float32 numbers, and then the stance is "fail_on_recompile". Find an input that raises.',
        takes="a tensor: x",
        is_it=_is_tensor,
        make=_refused,
        checks=(
            Check("the call raises", lambda refused: (refused.outcome == "raises", refused.note or refused.outcome)),
            Check("a guard is to blame", lambda refused: (bool(refused.guard), refused.guard or "no guard fails")),
        ),
        hint="What does TENSOR_MATCH in the tab “Guards & breaks” hold? Change one of these things.",
        where=lambda refused: at(refused.trace, "guards", "TENSOR_MATCH"),
        note="A stance turns a silent recompile into an error, such as in a server that is warm.",
        start="x = torch.randn(4)",
        program=SCALE,
    ),
)
