"""P, the puzzles in PyTorch: rewrite a short program, so that the compiler makes less of it and the result is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from explorer.lab.live.protocol import needs_live
from explorer.model.values import text_lines
from explorer.studies.varying.called import Variations, vary
from explorer.studies.varying.vary import Vary
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Place, Subject, Task, at, random_tensors, source_of, traced_on, whole
from explorer.workshop.quiz.m1 import operators
from explorer.workshop.quiz.m2 import compiles
from explorer.workshop.quiz.m4 import launches
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import program, undisturbed
from explorer.workshop.quiz.same_result import difference, gives

COUNTED = program(
    """
def counted(x):
    total = x
    for n in range(16):
        total = total + n * x
    return torch.relu(total)
"""
)
MEAN_OF_POSITIVE = program(
    """
def mean_of_positive(x):
    positive = x[x > 0]
    return positive.sum() / positive.numel()
"""
)
SCALED = program(
    """
SCALES = {"first": 2.0, "second": 3.0, "third": 0.5}

def scaled(x):
    for name in ("first", "second", "third"):
        x = x * SCALES[name]
    return x
"""
)
NUMBERED = program(
    """
def numbered(x):
    rows = [row * n for n, row in enumerate(x)]
    return torch.stack(rows)
"""
)
LAYERS = program(
    """
def layers(x, w):
    y = torch.tanh(x @ w)
    z = torch.tanh(y @ w)
    return z @ w
"""
)
ATTENTION = program(
    """
def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(64) + 0
    return torch.softmax(scores, -1) @ v
"""
)
ROW_SUMS = program(
    """
def row_sums(x):
    ones = x.new_ones(64, 1)
    return torch.relu(x @ ones)
"""
)
TWO_SUMS = program(
    """
def two_sums(x):
    return x.sum(0), x.amax(1)
"""
)
DOUBLED = program(
    """
def doubled(x, y, z):
    return x * 2, y * 2, z * 2
"""
)
PROJECTED = program(
    """
def projected(x, w):
    rows = x.transpose(0, 1).reshape(128, 64)
    y = rows @ w
    return y.reshape(16, 8, 64).transpose(0, 1)
"""
)
CAST = program(
    """
def cast(x, w):
    y = x.float() @ w.float()
    return y.to(torch.bfloat16)
"""
)
WRITTEN_OUT = program(
    """
def written_out(x, w):
    products = x[:, :, None] * w[None]
    return products.sum(1)
"""
)
LOOKED_UP = program(
    """
def looked_up(index, table):
    hot = F.one_hot(index, 512).to(table.dtype)
    return hot @ table
"""
)
ROUNDED = program(
    """
def rounded(x):
    y = x * 3 + 1
    return y * y - y
"""
)
SIDE = 64
HEADS = (1, 2, 32, 64)
BATCHES = (4, 6, 7, 9)

square = random_tensors((SIDE, SIDE))
square_and_weight = random_tensors((SIDE, SIDE), (SIDE, SIDE))
half_square_and_weight = random_tensors((SIDE, SIDE), (SIDE, SIDE), dtype="bfloat16")
leaves = random_tensors((SIDE, SIDE), (SIDE, SIDE), requires_grad=True)
heads = random_tensors(HEADS, HEADS, HEADS, dtype="float16")
three_sizes = random_tensors((100,), (1000,), (3000,))


@dataclass(frozen=True)
class Batches:
    """A function, traced, and what became of calls with batches of other sizes."""

    trace: Trace
    calls: Variations


@dataclass(frozen=True)
class Written:
    """A function, traced, and its source."""

    trace: Trace
    source: str


def _indices() -> list[Any]:
    """256 rows to look up in a table of 512."""
    import torch

    return [torch.randint(0, 512, (256,)), torch.randn(512, SIDE)]


def _for_h100(make_inputs: Callable[[], Iterable[Any]], **options: Any) -> Callable[[Any], Trace]:
    """Return a function that traces another for an H100, as one graph."""
    return lambda function: whole(traced_on(function, make_inputs, target="h100", fullgraph=True, **options))


def _by_dynamo(function: Any) -> Trace:
    return whole(traced_on(function, square, backend="eager", fullgraph=True))


def _in_graphs(function: Any) -> Trace:
    return whole(traced_on(function, square, backend="eager"))


def _batches(function: Any) -> Batches:
    """Trace a function of a batch, and call it with batches of other sizes."""
    first, *others = BATCHES
    t = whole(traced_on(function, random_tensors((first, SIDE)), backend="eager", fullgraph=True))
    with undisturbed():
        (x,) = random_tensors((first, SIDE))()
        p = vary(function, x, backend="eager", variations=[])
        return Batches(t, p.sequence(Vary("x", size={0: n}) for n in others))


def _last_guards(subject: Batches) -> Place:
    """The guard of the last compile that holds its size."""
    last = max(n for n, row in enumerate(subject.calls.table) if row["outcome"] in ("compiled", "recompiled"))
    return at(subject.calls[last], "guards", "size=[")


def _of_trace(check: Check) -> Check:
    """Make a check of a subject's trace from a check of a trace."""
    return Check(check.name, lambda subject: check.test(subject.trace))


def _guards(t: Trace) -> int:
    """Count the guards on values that the program reads, beside those of its tensors."""
    tensors = {guard["source"] for guard in t.dynamo.guards if guard["kind"] == "TENSOR_MATCH"}
    return sum(bool(guard["source"]) and guard["source"] not in tensors for guard in t.dynamo.guards)


def _saved(t: Trace) -> int:
    return sum(row["bytes"] for row in t.memory.saved if row["kind"] != "input")


def _same_gradients(t: Trace) -> tuple[bool, str]:
    """Whether the gradients of a traced function of x and w are those of `layers`."""
    import torch

    mine = needs_live(t, "its gradients").call.function  # type: ignore[attr-defined]
    with undisturbed():
        inputs = list(leaves())
        found, expected = (torch.autograd.grad(each(*inputs).sum(), inputs, allow_unused=True) for each in (mine, LAYERS.load()))
    for name, one, other in zip("xw", found, expected, strict=True):
        if why := difference(one, other):
            return False, f"the gradient of {name}: {why}"
    return True, "equal"


def _written(function: Any) -> Written:
    return Written(_for_h100(square)(function), source_of(function))


def _one_character(subject: Written) -> tuple[bool, str]:
    """Whether a function's lines below its first are the program's but for one character."""
    one, other = (_body(source) for source in (subject.source, TWO_SUMS.text))
    if len(one) != len(other):
        return False, f"the line has {len(one)} characters, and had {len(other)}"
    changed = sum(a != b for a, b in zip(one, other, strict=True))
    return changed == 1, f"{changed} {'character is' if changed == 1 else 'characters are'} another"


def _body(source: str) -> str:
    """The lines of a function below its first, without spaces around them."""
    return "\n".join(line.strip() for line in text_lines(source)[1:] if line.strip())


def _two_results(subject: Written) -> tuple[bool, str]:
    """Whether a function still gives a sum and a maximum."""
    names = operators(subject.trace)
    return sorted(names) == ["amax", "sum"], ", ".join(names) or "no operator"


def _peak(t: Trace) -> int:
    return sum(row["bytes"] for row in t.memory.peak)


def _differing(t: Trace) -> int:
    """Count the outputs of a compiled function that are not eager's to the last bit."""
    return sum(row["max_abs"] != 0 for row in t.check())


def _calls_a_library(t: Trace) -> tuple[bool, str]:
    calls = [row["call"] for row in t.inductor.extern_calls]
    return bool(calls), ", ".join(calls) or "no library call"


def _at(stage: str, *signs: str) -> Callable[[Subject], Place]:
    return lambda t: at(t, stage, signs)


EXERCISES: tuple[Item, ...] = (
    Task(
        id="P.1",
        title="Shrink the graph",
        text="`counted` puts more than thirty operators into Dynamo's graph. Let Python do the counting.",
        takes="a function of one tensor: your_function",
        make=_by_dynamo,
        checks=(gives(COUNTED, square),),
        par=Par("operator", lambda t: len(operators(t)), start=33, par=2),
        hint="Dynamo unrolls the loop. What number multiplies x in the end?",
        where=_at("dynamo", "mul"),
        note="Python numbers cost nothing in a graph: Dynamo computes them while it traces.",
        start=COUNTED.text,
        program=COUNTED,
    ),
    Task(
        id="P.2",
        title="Select without a size",
        text="`mean_of_positive` breaks the graph: how many elements are positive is not known. Write it as one graph.",
        takes="a function of one tensor: your_function",
        make=_in_graphs,
        checks=(gives(MEAN_OF_POSITIVE, square),),
        par=Par("graph break", lambda t: len(t.dynamo.graph_breaks), start=1, par=0),
        hint="A mask keeps the shape of x. What may stand where x is not positive?",
        where=_at("source", "x[x > 0]"),
        note="A mask has the size of x, and zeros do not change a sum.",
        start=MEAN_OF_POSITIVE.text,
        program=MEAN_OF_POSITIVE,
    ),
    Task(
        id="P.3",
        title="Half the guards",
        text="Each call of `scaled` checks a guard for everything that it reads from `SCALES`. Keep at most half of these.",
        takes="a function of one tensor: your_function",
        make=_by_dynamo,
        checks=(gives(SCALED, square),),
        par=Par("guard", _guards, start=4, par=2),
        hint="A guard protects what could change: a global can, a number in the function cannot.",
        where=_at("guards", "SCALES"),
        note="A constant of the code needs no guard: Dynamo guards the code object once.",
        start=SCALED.text,
        program=SCALED,
    ),
    Task(
        id="P.4",
        title="One program for any batch",
        text=f"`numbered` is compiled anew for each of {len(BATCHES)} sizes of a batch. Make two compiles do for all.",
        takes="a function of one tensor: your_function",
        make=_batches,
        checks=(_of_trace(gives(NUMBERED, *(random_tensors((n, SIDE)) for n in (4, 7, 11)))),),
        par=Par("compile", lambda subject: compiles(subject.calls), start=4, par=2),
        hint="A loop over rows needs their number. Which operator makes the numbers 0, 1, 2 … of any size?",
        where=_last_guards,
        note="The first compile has the size as a constant, the second has a symbol, which fits every later batch.",
        start=NUMBERED.text,
        program=NUMBERED,
    ),
    Task(
        id="P.5",
        title="Keep nothing for the backward",
        text="The forward of `layers` saves two activations for the backward. Save none beside the inputs.",
        takes="a function of two tensors: your_function",
        make=_for_h100(leaves, train=True),
        checks=(gives(LAYERS, leaves), Check("the same gradients", _same_gradients)),
        par=Par("byte", _saved, start=32768, par=0),
        hint="torch.utils.checkpoint computes them once more in the backward.",
        where=_at("forward", "tanh"),
        note="Memory for time: the backward runs the forward's products again.",
        start=LAYERS.text,
        program=LAYERS,
    ),
    Task(
        id="P.6",
        title="Let the pattern fire",
        text="`attention` is computed step by step, since no pattern recognises it. Make it one launch.",
        takes="a function of q, k and v: your_function",
        make=_for_h100(heads),
        checks=(gives(ATTENTION, heads),),
        par=Par("launch", launches, start=3, par=1),
        hint="A pattern is exact. Which part of the line does nothing?",
        where=_at("post_grad", "softmax", "scaled_dot_product"),
        note="Adding 0 is an operator like any other to a pattern.",
        start=ATTENTION.text,
        program=ATTENTION,
    ),
    Task(
        id="P.7",
        title="Make it one kernel",
        text="`row_sums` sums rows by a product with ones. Compute it in one launch, without a library.",
        takes="a function of one tensor: your_function",
        make=_for_h100(square),
        checks=(gives(ROW_SUMS, square),),
        par=Par("launch", launches, start=3, par=1),
        hint="Which operator sums rows? Mind the shape of the result.",
        where=_at("output_code", "extern_kernels.", ".run("),
        note="A reduction and the relu behind it share a kernel. A library call shares with nobody.",
        start=ROW_SUMS.text,
        program=ROW_SUMS,
    ),
    Task(
        id="P.8",
        title="Fuse by one character",
        text="The two reductions of `two_sums` are two kernels. Change one character, and they are one.",
        takes="a function of one tensor: your_function",
        make=_written,
        checks=(Check("one character is another", _one_character), Check("a sum and a maximum", _two_results)),
        par=Par("launch", lambda subject: launches(subject.trace), start=2, par=1),
        hint="Loops fuse if they read x in the same order.",
        where=lambda subject: at(subject.trace, "ir_pre_fusion", "op1:", view="fusion"),
        note="Now both reduce the same dimension, so one loop reads x for both.",
        start=TWO_SUMS.text,
        program=TWO_SUMS,
    ),
    Task(
        id="P.9",
        title="Save two launches",
        text="`doubled` launches a kernel for each of three tensors of different sizes. Make it one launch.",
        takes="a function of three tensors: your_function",
        make=_for_h100(three_sizes),
        checks=(gives(DOUBLED, three_sizes),),
        par=Par("launch", launches, start=3, par=1),
        hint="One kernel has one size. Put the tensors one behind the other first, and take them apart in the end.",
        where=_at("output_code", ".run("),
        note="A concatenation is fused like any pointwise operator, and taking apart is a view.",
        start=DOUBLED.text,
        program=DOUBLED,
    ),
    Task(
        id="P.10",
        title="A view that costs a copy",
        text="`projected` copies x before its product, since the rows are not where a view could find them. Avoid the copy.",
        takes="a function of two tensors: your_function",
        make=_for_h100(random_tensors((8, 16, SIDE), (SIDE, SIDE))),
        checks=(gives(PROJECTED, random_tensors((8, 16, SIDE), (SIDE, SIDE))),),
        par=Par("launch", launches, start=2, par=1),
        hint="Does the order of the rows matter to the product?",
        where=_at("output_code", ".run(", "extern_kernels."),
        note="Each row is multiplied alone, so the two transpositions undo each other.",
        start=PROJECTED.text,
        program=PROJECTED,
    ),
    Task(
        id="P.11",
        title="A cast that costs a kernel",
        text="`cast` multiplies bfloat16 numbers in float32. Compute the same, up to rounding, in one launch.",
        takes="a function of two tensors: your_function",
        make=_for_h100(half_square_and_weight),
        checks=(gives(CAST, half_square_and_weight),),
        par=Par("launch", launches, start=4, par=1),
        hint="In which type do tensor cores add up products of bfloat16 numbers?",
        where=_at("output_code", ".run("),
        note="A product of bfloat16 matrices is summed in float32 and rounded once, without casts.",
        start=CAST.text,
        program=CAST,
    ),
    Task(
        id="P.12",
        title="Make Inductor call a library",
        text="Inductor writes a kernel for `written_out`, which is a matrix product. Have it call the library instead.",
        takes="a function of two tensors: your_function",
        make=_for_h100(square_and_weight),
        checks=(gives(WRITTEN_OUT, square_and_weight), Check("a library call", _calls_a_library)),
        par=Par("kernel", lambda t: len(t.kernels), start=1, par=0),
        hint="Inductor calls a library for an operator, and does not find a product in a sum.",
        where=_at("post_grad", "sum"),
        note="Inductor recognises operators, not mathematics: say that it is a product.",
        start=WRITTEN_OUT.text,
        program=WRITTEN_OUT,
    ),
    Task(
        id="P.13",
        title="Cut the peak",
        text="`looked_up` makes a matrix of zeros and ones to look up rows. Compute it without more memory than its tensors.",
        takes="a function of the index and the table: your_function",
        make=_for_h100(_indices),
        checks=(gives(LOOKED_UP, _indices),),
        par=Par("byte", _peak, start=722_944, par=198_656),
        hint="Indexing reads the rows that it needs, and no others.",
        where=_at("output_code", "empty_strided"),
        note="The index, the table and the result are all that is in memory.",
        start=LOOKED_UP.text,
        program=LOOKED_UP,
    ),
    Task(
        id="P.14",
        title="The same bits as eager",
        text="In bfloat16 the compiled `rounded` does not give eager's bits. Write it so that both round at the same places.",
        takes="a function of one tensor: your_function",
        make=_for_h100(random_tensors((SIDE, SIDE), dtype="bfloat16")),
        checks=(gives(ROUNDED, random_tensors((SIDE, SIDE), dtype="bfloat16")),),
        par=Par("differing output", _differing, start=1, par=0),
        hint="Eager rounds after every operator. A kernel computes in float32, and rounds when it stores.",
        where=_at("kernel", ".to(tl.float32)"),
        note="With the casts in the program, eager computes in float32 too, and both round once.",
        start=ROUNDED.text,
        program=ROUNDED,
    ),
)
