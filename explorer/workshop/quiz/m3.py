"""M3, AOTAutograd, decompositions and patterns: what is saved, what is left, what is recognised."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.model.values import text_lines
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import (
    Check,
    Item,
    Place,
    Question,
    Task,
    at,
    random_tensors,
    source_of,
    traced,
    traced_on,
    whole,
)
from explorer.workshop.quiz.fields import Choice, Names, Number
from explorer.workshop.quiz.m1 import is_same
from explorer.workshop.quiz.programs import program

TWICE = program(
    """
def twice(x):
    y = torch.cos(x)
    return torch.cos(y)
"""
)
GELU = program(
    """
def gelu(x):
    return F.gelu(x)
"""
)
WASTEFUL = program(
    """
def wasteful(x):
    y = x.reshape(8, 8).t().t() * 1 + 0
    return torch.relu(torch.relu(y.to(torch.float32))).reshape(64).reshape(8, 8)
"""
)
ATTENTION = program(
    """
def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(64)
    return torch.softmax(scores, -1) @ v
"""
)
RELU_OF_RELU = program(
    """
def twice_relu(x):
    return torch.relu(torch.relu(x))
"""
)
#: The shape of query, key and value: batch, heads, sequence, and the size of a head.
HEADS = (2, 8, 128, 64)
SAVED = ("nothing", "x", "the inner cos", "x and the inner cos")
#: How a pattern for scaled dot product attention is called.
SFDP = "_sfdp"
#: More than torch has of them.
MAX_PATTERNS = 40


@dataclass(frozen=True)
class Pair:
    """Two functions that the learner wrote, traced, and their sources."""

    first: Trace
    second: Trace
    sources: tuple[str, str]


def _names(label: str = "", *, counted: bool = False) -> Names:
    return Names(label, prefixes=("torch.ops.", "torch.", "aten."), counted=counted)


def calls(t: Trace, stage: str) -> list[str]:
    """The operators that a graph calls, without namespace and overload: "mul" for "aten.mul.Tensor"."""
    nodes = [node for graph in t.find(stage) for node in graph.nodes if node["op"] == "call_function"]
    return [operator(node["target"]) for node in nodes]


def operator(target: str) -> str:
    """The operator that a target names, without namespace and overload."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else target


def trace_twice() -> Trace:
    """A training step of cos(cos(x))."""
    return whole(traced_on(TWICE.load(), random_tensors((1000,), requires_grad=True), target="h100", train=True))


def _saved(t: Trace) -> tuple[str, int]:
    rows = t.memory.saved
    inputs = any(row["kind"] == "input" for row in rows)
    computed = any(row["kind"] != "input" for row in rows)
    return SAVED[inputs + 2 * computed], sum(row["bytes"] for row in rows)


def _decomposed(t: Trace) -> list[str]:
    (row,) = t.inductor.decompositions.where(operator="aten.gelu.default")
    targets = {node["name"]: node["target"] for graph in t.find("forward") for node in graph.nodes}
    return [operator(targets[name]) for name in row["nodes"]]


def on_heads(function: Any, **options: Any) -> Trace:
    """Trace a function of query, key and value, in float16 for an H100."""
    return traced_on(function, random_tensors(HEADS, HEADS, HEADS, dtype="float16"), target="h100", **options)


def attention() -> Trace:
    """A trace of attention in three lines."""
    return whole(on_heads(ATTENTION.load()))


def recognised(t: Trace) -> list[str]:
    """The patterns for attention that fired."""
    return [match["pattern"] for match in t.inductor.matches if match["pattern"].startswith(SFDP)]


def _switched_off(t: Trace) -> int:
    """How many patterns are switched off, one after the other, before none fires."""
    off: list[str] = []
    while (names := recognised(t)) and len(off) < MAX_PATTERNS:
        off.append(names[0])
        t = on_heads(ATTENTION.load(), without_pattern=tuple(off))
    return len(off)


def _pair(one: Any, other: Any) -> Pair:
    return Pair(on_heads(one), on_heads(other), (source_of(one), source_of(other)))


def _is_recognised(pair: Pair) -> tuple[bool, str]:
    names = recognised(pair.first)
    return bool(names), ", ".join(names) or "no pattern fired"


def _is_not_recognised(pair: Pair) -> tuple[bool, str]:
    names = recognised(pair.second)
    return not names, ", ".join(names) or "no pattern fired"


def _in_steps(pair: Pair) -> tuple[bool, str]:
    """Whether both are attention written out: a softmax, and no operator for all of it at once."""
    for t, which in ((pair.first, "the first"), (pair.second, "the second")):
        targets = [node["target"] for graph in t.find("dynamo") for node in graph.nodes]
        if not any("softmax" in target for target in targets):
            return False, f"{which} has no softmax"
        if any("scaled_dot_product" in target for target in targets):
            return False, f"{which} calls scaled_dot_product_attention itself"
    return True, "both have a softmax and products"


def _differs_little(pair: Pair) -> tuple[bool, str]:
    one, other = (_body(source) for source in pair.sources)
    removed = [line for line in difflib.ndiff(one, other) if line.startswith("- ")]
    added = [line for line in difflib.ndiff(one, other) if line.startswith("+ ")]
    changed = max(len(removed), len(added))
    return changed == 1, f"{changed} lines differ"


def _body(source: str) -> Sequence[str]:
    """The lines of a function without its first, and of a lambda the whole."""
    lines = [line.strip() for line in text_lines(source) if line.strip()]
    return lines[1:] if len(lines) > 1 else lines


def _with_pass(apply: Any) -> Trace:
    return traced_on(RELU_OF_RELU.load(), random_tensors((8, 8)), target="h100", options={"joint_custom_pre_pass": apply})


def _own_match(t: Trace) -> tuple[bool, str]:
    own = [match["pattern"] for match in t.inductor.matches if not match["file"].startswith("torch/")]
    return bool(own), ", ".join(own) or "no pattern of yours fired"


def _one_relu(t: Trace) -> tuple[bool, str]:
    names = calls(t, "post_grad")
    return names.count("relu") == 1, f"post_grad has {', '.join(names) or 'no operator'}"


def _at(stage: str, *signs: str) -> Callable[[Trace], Place]:
    return lambda t: at(t, stage, signs)


EXERCISES: tuple[Item, ...] = (
    Question(
        id="M3.1",
        text="What does the forward of `twice`, cos(cos(x)), save for the backward? How many bytes, for 1000 float32 numbers?",
        fields=(Choice("saved", options=SAVED), Number("bytes")),
        make=trace_twice,
        truth=_saved,
        hint="The backward needs x and the inner cos. Is there an aten.cos in “Backward graph”, or is it saved?",
        where=_at("backward", "aten.cos"),
        note="The inner cos is computed again in the backward: that is cheaper than to write and read it.",
        program=TWICE,
    ),
    Question(
        id="M3.2",
        text='Which operators does `gelu` decompose into? Name each once, such as "add".',
        fields=(_names(),),
        make=traced(GELU, (64,), target="h100"),
        truth=_decomposed,
        hint="Click the line of `gelu`: the nodes that light up in “Forward graph” are what it became.",
        where=_at("forward", "aten.erf", "aten.mul"),
        note="x · 0.5 · (1 + erf(x / √2)), in operators that Inductor can lower one by one.",
        program=GELU,
    ),
    Question(
        id="M3.3",
        text="Which operators of `wasteful` are left in post_grad? Name each once per occurrence.",
        fields=(_names(counted=True),),
        make=traced(WASTEFUL, (8, 8), target="h100"),
        truth=lambda t: calls(t, "post_grad"),
        hint="Open “Post-grad graph”. Views to the same shape go. Is there a pattern for relu(relu(x))? And for + 0 on floats?",
        where=_at("post_grad", "aten.relu"),
        note="No pattern knows relu(relu(x)). And x + 0 is not x for every float: -0.0 + 0 is 0.0.",
        program=WASTEFUL,
    ),
    Task(
        id="M3.4",
        text="Write attention in a few lines, so that a pattern recognises it for an H100: t.inductor.matches has a name with"
        " _sfdp. Then change one line, so that none does.",
        takes="two functions of q, k and v: recognised, not_recognised",
        make=_pair,
        count=2,
        checks=(
            Check("written out in steps", _in_steps),
            Check("the first is recognised", _is_recognised),
            Check("the second is not", _is_not_recognised),
            Check("one line differs", _differs_little),
        ),
        hint="A pattern is exact: softmax(q @ kᵀ / √d) @ v. Add something to the scores.",
        where=lambda pair: at(pair.first, "post_grad", ("scaled_dot_product", "softmax", "aten.bmm")),
        note="Everything that the search function does not take as an argument is part of the pattern.",
        start="def recognised(q, k, v):\n    ...\n\ndef not_recognised(q, k, v):\n    ...",
        program=ATTENTION,
    ),
    Question(
        id="M3.5",
        text="How many patterns must be switched off, one after the other, before `attention` is computed step"
        " by step on an H100?",
        fields=(Number(),),
        make=attention,
        truth=_switched_off,
        hint="w = t.what_if(without_pattern=…): which pattern is in w.after.inductor.matches now, or in its tab “Passes”?",
        where=_at("post_grad", "scaled_dot_product"),
        note='One more pattern matches the same program. without_pattern="_sfdp_*" leaves out all of them.',
        program=ATTENTION,
    ),
    Task(
        id="M3.6",
        text="Write a pattern that makes relu(relu(x)) one relu, and give the function that applies it to a graph.",
        takes='a function of a graph, for options={"joint_custom_pre_pass": …}: apply_mine',
        make=_with_pass,
        checks=(
            Check("a pattern of yours fires", _own_match),
            Check("one relu is left", _one_relu),
            Check("the same result as eager", is_same),
        ),
        hint="PatternMatcherPass, register_replacement with a search and a replacement function, and apply:"
        " notebook 04, section 4.",
        where=_at("post_grad", "aten.relu"),
        note="Search and replacement are traced like a program: the graphs of both are the pattern.",
        program=RELU_OF_RELU,
    ),
)
