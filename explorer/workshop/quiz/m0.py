"""M0, why compile at all: eager against compiled, in seconds and in bytes."""

from __future__ import annotations

from typing import Any

from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Item, Place, Question, at, traced
from explorer.workshop.quiz.fields import AnyOf, Choice, Number
from explorer.workshop.quiz.programs import program

IDENTITY = program(
    """
def identity(x):
    return torch.sin(x) ** 2 + torch.cos(x) ** 2
"""
)
#: How many numbers, and how many bytes each has.
SIZE, BYTES = 1_000_000, 4
#: How often the speed is measured: a laptop does other things too, so every answer that one of them gives is right.
TIMES = 3
SPEEDS = ("less than 2 times", "2 to 4 times", "4 to 8 times", "more than 8 times")
CALLS = ("fewer than 100", "100 to 1,000", "1,000 to 10,000", "more than 10,000")
EQUAL = ("no, they differ", "yes, up to rounding", "yes, to the last bit")

trace = traced(IDENTITY, (SIZE,), target="cpu")


def _ratio(t: Trace) -> float:
    seconds = {row["what"]: row["seconds"] for row in t.benchmark(10)}
    return float(seconds["eager"] / seconds["compiled"])


def _speed(t: Trace) -> AnyOf:
    """Every bin from the slowest to the fastest of several measurements."""
    bins = sorted(sum(ratio >= bound for bound in (2, 4, 8)) for ratio in (_ratio(t) for _ in range(TIMES)))
    return AnyOf(SPEEDS[n] for n in range(bins[0], bins[-1] + 1))


def _calls(t: Trace) -> AnyOf:
    """The bin of the calls after which the compile has paid, and its neighbour where that is within a factor of two."""
    seconds = {row["what"]: row["seconds"] for row in t.benchmark(10)}
    saved = seconds["eager"] - seconds["compiled"]
    calls = sum(row["seconds"] for row in t.compiler.phases if row["depth"] == 0) / saved if saved > 0 else float("inf")
    near = {sum(calls * factor >= bound for bound in (100, 1_000, 10_000)) for factor in (0.5, 1, 2)}
    return AnyOf(CALLS[n] for n in sorted(near))


def _bytes(t: Trace) -> tuple[int, int]:
    """What eager's operators read and write, of the graph of ATen operators, and what the fused kernels do."""
    nodes = [node for node in t.find("forward")[0].nodes if node["op"] == "call_function"]
    eager = sum(len(node["inputs"]) + 1 for node in nodes) * BYTES * SIZE
    return eager, sum(group["read"] + group["written"] for group in t.fusion.groups)


def _operators_and_kernels(t: Trace) -> tuple[int, int]:
    """How many operators eager runs, and how many kernels the compiled function has."""
    nodes = [node for node in t.find("forward")[0].nodes if node["op"] == "call_function"]
    return len(nodes), len(t.kernels)


def _equal(t: Trace) -> str:
    row = t.check()[0]
    return EQUAL[0 if not row["equal"] else 1 if row["max_abs"] > 0 else 2]


def _kernel(words: str) -> Any:
    def where(t: Trace) -> Place:
        return at(t, "kernel", (words, "for(int64_t"))

    return where


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M0.1",
        text="`identity` computes sin² + cos² of a million numbers. How many times faster is it compiled, on your machine?",
        fields=(Choice(options=SPEEDS),),
        make=trace,
        truth=_speed,
        hint="Eager runs five kernels, one after the other. Compiled, how many are there?",
        where=_kernel("for("),
        note="One loop in the place of five, and vector instructions for the sines.",
        program=IDENTITY,
    ),
    Question(
        id="M0.2",
        text="How many bytes do the five operators of eager read and write for a million float32 numbers, and"
        " how many the fused kernel?",
        fields=(Number("eager", tolerance=0.01), Number("fused", tolerance=0.01)),
        make=trace,
        truth=_bytes,
        hint="A float32 has 4 bytes. Each eager operator reads and writes a whole tensor; the addition reads two.",
        where=_kernel("::loadu("),
        note="The fused kernel reads x and writes the result. All between them stays in registers.",
        program=IDENTITY,
    ),
    Question(
        id="M0.3",
        text="Is the compiled result the same as eager's? To the last bit?",
        fields=(Choice(options=EQUAL),),
        make=trace,
        truth=_equal,
        hint="Both are right to within the rounding of float32. But is it the same sine? t.check() compares.",
        where=_kernel(".sin()"),
        note="Another sine: a vectorised one, which may round the last bit otherwise.",
        program=IDENTITY,
    ),
    Question(
        id="M0.4",
        text="How many operators does eager run for `identity`, one after the other, and how many kernels has it compiled?",
        fields=(Number("operators"), Number("kernels")),
        make=trace,
        truth=_operators_and_kernels,
        hint="sin, cos, two powers and a sum. The tab “Kernels” has what was generated.",
        where=_kernel('extern "C"'),
        note="Each operator is a kernel of its own in eager mode. Compiled, all of them are one loop.",
        program=IDENTITY,
    ),
    Question(
        id="M0.5",
        text="Compiling `identity` takes time, once. After how many calls with a million numbers has it paid, on your machine?",
        fields=(Choice(options=CALLS),),
        make=trace,
        truth=_calls,
        hint="The tab “Compiler” has the seconds of the compile. How much does one call save, by t.benchmark()?",
        where=lambda t: at(t, "phase", ("dynamo",)),
        note="The next process compiles in less time: Inductor keeps its kernels on the disk.",
        program=IDENTITY,
    ),
)
