"""M8, a compiler in 200 lines: which loops it makes, and passes that make fewer, judged by the C that it writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Question, Task, at, random_tensors, traced, traced_on, whole
from explorer.workshop.quiz.fields import Names, Number
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import Program, program
from explorer.workshop.quiz.run_c import run_c
from explorer.workshop.quiz.same_result import difference

SHARE = program(
    """
def share(x):
    e = torch.exp(x - 1)
    total = e.sum()
    return e / total
"""
)
TWO_CHAINS = program(
    """
def two_chains(x, y):
    a = torch.sin(x) * 2
    total = y.sum()
    b = torch.cos(a) + 1
    return total, b
"""
)
DEPENDENT = program(
    """
def dependent(x, y):
    a = torch.sin(x) * 2
    total = a.sum()
    b = torch.cos(total) + 1
    return total, b * y
"""
)
CENTRED = program(
    """
def centred(x, y):
    d = x - y
    total = (d * d).sum()
    return x - total
"""
)
#: The elements of each input.
SIZE = 1000
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
LOOP = re.compile(r"\b(?:for|while|do|goto)\b")
TEMPORARY = re.compile(r"\b\w*alloc\w*\s*\(|\b(?:float|double)\s+\w+\s*\[")


@dataclass(frozen=True)
class Compiled:
    """The C that the learner's compiler wrote for a program, and why its result is wrong, "" if it is right."""

    trace: Trace
    c: str
    why: str


def _compiled(one: Program, compile_to_c: Any, fuse: Any) -> Compiled:
    """Give the graph of a program to the learner's compiler, and compare what its C computes with eager."""
    texts: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        texts.append(compile_to_c(gm, fuse))
        return gm.forward

    make_inputs = random_tensors((SIZE,), (SIZE,))
    t = whole(traced_on(one.load(), make_inputs, backend=backend, fullgraph=True))
    (c,) = texts
    if not isinstance(c, str):
        raise InputError(f"the compiler gives back the C, as text, and not {type(c).__name__}")
    inputs = list(make_inputs())
    result = one.load()(*inputs)
    expected = result if isinstance(result, tuple) else (result,)
    return Compiled(t, c, difference(run_c(c, inputs, expected), expected))


def _of(*programs: Program) -> Any:
    """Return the `make` that gives these programs to the learner's compiler."""
    return lambda compile_to_c, fuse: tuple(_compiled(one, compile_to_c, fuse) for one in programs)


def _is_right(name: str, n: int) -> Check:
    """Make the check that the C of the n-th program computes what eager does."""
    return Check(f"the C computes {name}", lambda subject: (not subject[n].why, subject[n].why or "equal for random inputs"))


def _count(pattern: re.Pattern[str], subject: tuple[Compiled, ...]) -> int:
    """Count the matches in the C of the first program, without its comments."""
    return len(pattern.findall(COMMENT.sub(" ", subject[0].c)))


def _chains_and_sums(t: Trace) -> tuple[int, tuple[str, ...]]:
    """Count the loops of pointwise chains and sums, and name the values that stay in memory between them."""
    nodes = [node for graph in t.find("dynamo") for node in graph.nodes if node["op"].startswith("call_")]
    loop_of: dict[str, int] = {}
    loops, in_chain = 0, False
    for node in nodes:
        is_sum = node["target"] == "sum"
        loops += is_sum or not in_chain
        in_chain = not is_sum
        loop_of[node["name"]] = loops
    read = ((name, loop_of[node["name"]]) for node in nodes for name in node["inputs"])
    return loops, tuple(sorted({name for name, loop in read if loop_of.get(name, loop) != loop}))


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M8.1",
        text="Your compiler fuses pointwise chains. How many loops does it make of `share`, and which of its values are in"
        " memory between them?",
        fields=(Number("loops"), Names("values in memory")),
        make=traced(SHARE, (SIZE,), backend="eager"),
        truth=_chains_and_sums,
        hint="A sum is complete when its loop has ended. Who reads `e`, and in which loop?",
        where=lambda t: at(t, "dynamo", "total:"),
        note="A whole tensor goes through memory because of one number that is needed first.",
        program=SHARE,
    ),
    Task(
        id="M8.2",
        title="Make the two chains fuse",
        text="Write a pass with which your compiler makes two loops of `two_chains`, though a sum stands between its chains.",
        takes="your compiler and a pass (loops): compile_to_c, fuse_further",
        count=2,
        make=_of(TWO_CHAINS, DEPENDENT),
        checks=(_is_right("two_chains", 0), _is_right("dependent, whose second chain needs the sum", 1)),
        par=Par("loop", lambda subject: _count(LOOP, subject), start=3, par=2),
        hint="A loop may move up past another one if it reads nothing that the other one makes.",
        where=lambda subject: at(subject[0].trace, "dynamo", "total:"),
        note="Every scheduler asks that: who reads what is made here?",
        start="def fuse_further(loops):\n    return fuse(loops)",
        program=TWO_CHAINS,
    ),
    Task(
        id="M8.3",
        title="Lose a temporary",
        text="Write a pass with which `centred` has one temporary only, the sum: the squares go through no memory.",
        takes="your compiler and a pass (loops): compile_to_c, fuse_sums",
        count=2,
        make=_of(CENTRED),
        checks=(_is_right("centred", 0),),
        par=Par("temporary buffer", lambda subject: _count(TEMPORARY, subject), start=2, par=1),
        hint="A sum may end a chain of as many steps. Which loops may not be put behind it?",
        where=lambda subject: at(subject[0].trace, "dynamo", "total:"),
        note="Inductor does the same: it puts what is pointwise into the loop of a reduction.",
        start="def fuse_sums(loops):\n    return fuse(loops)",
        program=CENTRED,
    ),
)
