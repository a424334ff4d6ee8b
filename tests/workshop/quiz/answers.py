"""A right and a wrong answer for every exercise of the workshop: for the tests, and for a script that answers the notebooks.

`RIGHT` has one entry per exercise, `WRONG` one or more: each is (values, options), as `q(id).answer(*values, **options)` takes
them. The wrong ones of a task are such that together every check of it fails once. What depends on the machine is asked of the
exercise itself by `right`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

try:
    import triton
    import triton.language as tl
except ImportError:  # the exercises with kernels are left out then
    triton = None

Answer = tuple[tuple[Any, ...], dict[str, Any]]


def values(*given: Any, **options: Any) -> Answer:
    """One answer."""
    return given, options


# M1, M2 ------------------------------------------------------------------------------------------------------------------


def four_operators(x):
    return torch.tanh(torch.cos(torch.sin(x)) * 2)


def three_operators(x):
    return torch.cos(torch.sin(x)) * 2


def two_kernels(x):
    y = torch.relu(torch.cos(torch.sin(x)))
    torch._dynamo.graph_break()
    return torch.tanh(y * 2)


def random_numbers(x):
    return torch.relu(torch.cos(torch.sin(x)) * torch.rand_like(x))


def raises(*anything):
    raise RuntimeError("this function is not finished")


def without_break(a, b):
    x = a / (torch.abs(a) + 1)
    b = torch.where(b.sum() < 0, b * -1, b)
    return x * b


def with_break(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def other_branch(a, b):
    return a / (torch.abs(a) + 1) * b


def random_break_free(a, b):
    return a / (torch.abs(a) + 1) * b * torch.rand_like(b)


def talkative(x):
    y = x * 2
    if not torch.compiler.is_compiling():
        print("the shape is", y.shape)
    return torch.relu(y)


def breaking(x):
    y = x * 2
    print("the shape is", y.shape)
    return torch.relu(y)


def silent(x):
    return torch.relu(x * 2)


def idle(x):
    if not torch.compiler.is_compiling():
        print("the shape is", x.shape)
    return x


def mark(x):
    torch._dynamo.mark_dynamic(x, 0)


def mark_static(x):
    torch._dynamo.mark_static(x, 0)


def leave(x):
    return None


# M3, M4 ------------------------------------------------------------------------------------------------------------------


def recognised(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(64)
    weights = torch.softmax(scores, -1)
    return weights @ v


def not_recognised(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(64) + 1
    weights = torch.softmax(scores, -1)
    return weights @ v


def rewritten(q, k, v):
    products = torch.matmul(q, k.transpose(-2, -1)) * 0.3
    products = products.sin()
    weights = torch.softmax(products, -1)
    return weights @ v


def by_the_operator(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def pattern(search, replacement):
    """What applies a pattern of these two functions to a graph."""
    patterns = PatternMatcherPass(pass_name="mine")
    register_replacement(search, replacement, [torch.empty(4, 8)], fwd_only, patterns)
    return lambda graph: patterns.apply(graph)


def relu_of_relu(x):
    return torch.relu(torch.relu(x))


def one_relu(x):
    return torch.relu(x)


def sine(x):
    return torch.sin(x)


def tanh_of_relu(x):
    return torch.tanh(torch.relu(x))


def two_launches(x, w, b):
    return torch.tanh(torch.relu((x @ w) * 2 + b))


def three_launches(x, w, b):
    return torch.relu((torch.sin(x) @ w) * 2 + b)


def two_products(x, w, b):
    return torch.relu((x @ w) * 2 + b) @ w


def few_pointwise(x, w, b):
    return torch.relu(x @ w)


def random_product(x, w, b):
    return torch.tanh(torch.relu((x @ w) * 2 + b)) * torch.rand_like(b)


# M5 ----------------------------------------------------------------------------------------------------------------------

if triton is not None:

    @triton.jit
    def add_with_mask(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
        tl.store(out + i, total, mask=i < n)

    @triton.jit
    def add_without_mask(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i) + tl.load(y + i))

    @triton.jit
    def subtract(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.load(x + i, mask=i < n) - tl.load(y + i, mask=i < n)
        tl.store(out + i, total, mask=i < n)

    @triton.jit
    def softmax(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * columns + i, powers / tl.sum(powers, 0), mask=i < columns)

    @triton.jit
    def exponential(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
        tl.store(out + row * columns + i, tl.exp(values), mask=i < columns)
else:
    add_with_mask = add_without_mask = subtract = softmax = exponential = None


# M6 ----------------------------------------------------------------------------------------------------------------------


def counting(gm, inputs):
    print(sum(node.op.startswith("call_") for node in gm.graph.nodes), "call nodes")
    return gm.forward


def always_five(gm, inputs):
    print(5)
    return gm.forward


def counting_wrongly(gm, inputs):
    print(sum(node.op.startswith("call_") for node in gm.graph.nodes))
    return lambda *args: (args[0] * 0,)


def adding(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is operator.mul:
            node.target, node.args = operator.add, (node.args[0], node.args[0])
    gm.recompile()
    return gm.forward


def adding_one(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is operator.mul:
            node.target, node.args = operator.add, (node.args[0], 1)
    gm.recompile()
    return gm.forward


def leaving(gm, inputs):
    return gm.forward


def by_inductor(module):
    return torch.compile(module)


def by_eager(module):
    return torch.compile(module, backend="eager")


def not_the_module(module):
    return torch.compile(torch.nn.Sequential(module, torch.nn.Tanh()))


def fewer_launches(block, x):
    y = block.first(x)
    weight = torch.cat((block.q.weight, block.k.weight, block.v.weight))
    heads = (each.unflatten(-1, (block.heads, -1)).transpose(1, 2) for each in F.linear(y, weight).chunk(3, -1))
    x = x + block.out(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
    return x + block.down(F.gelu(block.up(block.second(x))))


def the_block(block, x):
    return block(x)


def half_the_block(block, x):
    return x + block.down(F.gelu(block.up(block.second(x))))


def random_block(block, x):
    return half_the_block(block, x) + torch.rand_like(x)


def other_sigmoid(source):
    (line,) = (line for line in source.splitlines() if "tl.sigmoid(" in line)
    name = line.partition("tl.sigmoid(")[2].partition(")")[0]
    return source.replace(f"tl.sigmoid({name})", f"(1 / (1 + tl.exp(-{name})))")


def comment_only(source):
    return f"{source}\n# nothing else"


def other_sum(source):
    return source.replace("tl.sum(", "1 + tl.sum(", 1)


def no_text(source):
    return 7


RIGHT: Mapping[str, Answer] = {
    "M0.2": values(44_000_000, 8_000_000),
    "M0.4": values(5, 1),
    "M1.1": values(2),
    "M1.2": values("23-25"),
    "M1.3": values(2, 1),
    "M1.4": values([10_001]),
    "M1.5": values(four_operators),
    "M1.6": values("post_grad"),
    "M2.1": values(3, 2),
    "M2.2": values(3, "Data-dependent branching"),
    "M2.3": values(without_break),
    "M2.4": values(talkative),
    "M2.5": values(3),
    "M2.6": values(mark),
    "M2.7": values(2, "n == 1"),
    "M2.8": values("Unsupported"),
    "M2.9": values(torch.zeros(4, dtype=torch.float64)),
    "M3.1": values("x", 4000),
    "M3.2": values(["mul", "erf", "add"]),
    "M3.3": values(["mul", "add", "relu", "relu"]),
    "M3.4": values(recognised, not_recognised),
    "M3.5": values(2),
    "M3.6": values(pattern(relu_of_relu, one_relu)),
    "M4.1": values(3, 1, 1),
    "M4.2": values("no", "no shared data", 3),
    "M4.3": values(4_194_304),
    "M4.4": values("no", "intermediate nodes between node1 & node2"),
    "M4.5": values("a library call", "a kernel that Inductor writes"),
    "M4.6": values("one Triton kernel for all", "a library call, and a kernel for the relu"),
    "M4.7": values(two_launches),
    "M4.8": values(8),
    "M5.1": values(2, 4, 8),
    "M5.2": values([4096, 4080, 1024]),
    "M5.3": values(0),
    "M5.4": values([]),
    "M5.5": values("mma.sync", "wgmma", "tcgen05", "mma.sync"),
    "M5.6": values(6),
    "M5.7": values(add_with_mask),
    "M5.8": values(softmax, num_warps=1),
    "M5.9": values(8),
    "M6.1": values(counting),
    "M6.2": values(by_inductor),
    "M6.3": values("dynamo", "forward", "kernel"),
    "M6.4": values("linalg.matmul"),
    "M6.5": values("no", "it changes its input"),
    "M6.6": values(fewer_launches),
    "M6.7": values(1, 1),
    "M6.8": values("the argument that it changes"),
    "M6.9": values(adding),
    "M7.1": values(other_sigmoid),
    "M7.2": values("compile error", "wrong result"),
    "M7.3": values("graph break", 3),
    "M7.4": values("memory", "memory", "arithmetic"),
}
WRONG: Mapping[str, tuple[Answer, ...]] = {
    "M0.2": (values(44_000_000, 4_000_000), values(40_000_000, 8_000_000)),
    "M0.4": (values(4, 1), values(5, 5)),
    "M1.1": (values(3), values(0)),
    "M1.2": (values([24]), values("17, 23-25")),
    "M1.3": (values(1, 1), values(2, 2)),
    "M1.4": (values([8, 10_001]), values([])),
    "M1.5": (values(three_operators), values(two_kernels), values(random_numbers), values(raises)),
    "M1.6": (values("dynamo"), values("ir_pre_fusion")),
    "M2.1": (values(2, 2), values(3, 3)),
    "M2.2": (values(4, "Data-dependent branching"), values(3, "print")),
    "M2.3": (values(with_break), values(other_branch), values(random_break_free), values(raises)),
    "M2.4": (values(breaking), values(silent), values(idle), values(raises)),
    "M2.5": (values(2), values(5)),
    "M2.6": (values(raises), values(leave), values(mark_static)),
    "M2.7": (values(3, "n == 1"), values(2, "the size of x")),
    "M2.8": (values("RuntimeError"), values("Data-dependent branching")),
    "M2.9": (values(torch.ones(4)), values(torch.zeros(4))),
    "M3.1": (values("the inner cos", 4000), values("x", 8000)),
    "M3.2": (values(["mul", "tanh", "add"]), values("gelu")),
    "M3.3": (values(["mul", "add", "relu"]), values(["relu"])),
    "M3.4": (
        values(not_recognised, not_recognised),
        values(recognised, recognised),
        values(recognised, rewritten),
        values(by_the_operator, not_recognised),
    ),
    "M3.5": (values(1), values(3)),
    "M3.6": (values(leave), values(pattern(relu_of_relu, sine)), values(pattern(tanh_of_relu, one_relu))),
    "M4.1": (values(4, 1, 1), values(3, 2, 2)),
    "M4.2": (values("yes", "no shared data", 3), values("no", "nothing refuses it", 2)),
    "M4.3": (values(0), values(8_388_608)),
    "M4.4": (values("yes", "nothing refuses it"), values("no", "no shared data")),
    "M4.5": (values("b", "b"), values("a", "a")),
    "M4.6": (values("b", "b"), values("a", "a")),
    "M4.7": (values(three_launches), values(two_products), values(few_pointwise), values(random_product), values(raises)),
    "M4.8": (values(4), values(16)),
    "M5.1": (values(4, 4, 4), values(2, 4, 4)),
    "M5.2": (values([4096]), values([4096, 4080, 1000, 1024])),
    "M5.3": (values(4096), values(1024)),
    "M5.4": (values(["h100", "b200"]), values("b200")),
    "M5.5": (values("wgmma", "wgmma", "wgmma", "wgmma"), values("mma.sync", "wgmma", "tcgen05", "wgmma")),
    "M5.6": (values(5), values(7)),
    "M5.7": (values(add_without_mask), values(subtract)),
    "M5.8": (values(softmax), values(exponential, num_warps=4)),
    "M5.9": (values(4), values(16)),
    "M6.1": (values(always_five), values(counting_wrongly), values(raises)),
    "M6.2": (values(by_eager), values(not_the_module), values(raises)),
    "M6.3": (values("forward", "forward", "kernel"), values("dynamo", "dynamo", "post_grad")),
    "M6.4": (values("linalg.generic"), values("aten.mm")),
    "M6.5": (values("yes", "it changes its input"), values("no", "it is too small")),
    "M6.7": (values(0, 1), values(3, 0)),
    "M6.8": (values("neither"), values("both")),
    "M6.9": (values(leaving), values(adding_one), values(raises)),
    "M7.1": (values(no_text), values(comment_only), values(other_sum)),
    "M7.2": (values("in place", "in place"), values("compile error", "in place")),
    "M7.3": (values("spills", 3), values("graph break", 2)),
    "M7.4": (values("memory", "memory", "memory"), values("arithmetic", "memory", "arithmetic")),
    "M6.6": (values(the_block), values(half_the_block), values(random_block), values(raises)),
}
#: Two wrong answers where the right one is that of the machine.
_OF_THE_MACHINE = ("M0.1", "M0.3", "M0.5")


def right(exercise: Any) -> Answer:
    """The right answer to an exercise of a quiz; where it is the machine's, what the truth is now."""
    if exercise.id not in _OF_THE_MACHINE:
        return RIGHT[exercise.id]
    (truth,) = exercise.item.truths(exercise.trace)
    return values(truth[0] if isinstance(truth, tuple) else truth)


def wrong(exercise: Any) -> tuple[Answer, ...]:
    """Wrong answers to an exercise of a quiz."""
    if exercise.id not in _OF_THE_MACHINE:
        return WRONG[exercise.id]
    (field,) = exercise.item.fields
    (truth,) = exercise.item.truths(exercise.trace)
    good = [field.options.index(each) for each in (truth if isinstance(truth, tuple) else (truth,))]
    # the farthest first: what is measured again may be found to be in the next bin
    far = sorted(set(range(len(field.options))).difference(good), key=lambda n: -min(abs(n - right) for right in good))
    return tuple(values(field.options[n]) for n in far)[:2]
