"""Right and wrong answers for every exercise of the workshop: for the tests, and for a script that answers the notebooks.

`RIGHT` has one entry per exercise, `ALSO_RIGHT` another solution of each puzzle, `WRONG` one or more: each is (values, options),
as `q(id).answer(*values, **options)` takes them. The wrong ones of a task are such that together every check of it fails once.
What depends on the machine is asked of the exercise itself by `right`.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

import explorer
from explorer.workshop.quiz.m5 import MATMUL

try:
    import triton
    import triton.language as tl
except ImportError:  # the exercises with kernels are left out then
    triton = None

TOY = Path(explorer.__file__).parents[1] / "notebooks" / "10_a_compiler_in_200_lines.ipynb"
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


def without_break_by_sign(a, b):
    sign = (b.sum() >= 0).to(b.dtype) * 2 - 1
    return a / (torch.abs(a) + 1) * (b * sign)


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


# P, in PyTorch -----------------------------------------------------------------------------------------------------------


def counted_by_python(x):
    return torch.relu(x * (1 + sum(range(16))))


def counted_by_hand(x):
    return (121 * x).relu()


def counted_by_a_tensor(x):
    return torch.relu(x + x * torch.arange(16).sum())


def counted_one_too_far(x):
    return torch.relu(x * (1 + sum(range(17))))


def counted_elsewhere(x):
    return torch.compiler.disable(counted_by_python)(x)


def mean_by_where(x):
    return torch.where(x > 0, x, 0).sum() / (x > 0).sum()


def mean_by_relu(x):
    return x.relu().sum() / (x > 0).count_nonzero()


def mean_by_nonzero(x):
    rows, columns = torch.nonzero(x > 0, as_tuple=True)
    return x[rows, columns].mean()


def mean_of_relu(x):
    return x.relu().mean()


def mean_with_one_element(x):
    return x.relu().sum().reshape(1) / (x > 0).sum()


def scaled_by_numbers(x):
    return x * 2.0 * 3.0 * 0.5


FACTOR = 3.0


def scaled_by_one_global(x):
    return x * FACTOR


FACTORS = {"first": 2.0, "second": 3.0, "third": 0.5}


def scaled_by_values(x):
    for factor in FACTORS.values():
        x = x * factor
    return x


def scaled_by_two(x):
    return x * 2.0


def scaled_in_place(x):
    return x.mul_(3.0)


def numbered_by_arange(x):
    return x * torch.arange(x.shape[0], dtype=x.dtype)[:, None]


def numbered_by_cumsum(x):
    return x * (torch.ones_like(x).cumsum(0) - 1)


def numbered_by_list(x):
    return x * torch.tensor([float(n) for n in range(x.shape[0])])[:, None]


def numbered_from_one(x):
    return x * torch.arange(1, x.shape[0] + 1, dtype=x.dtype)[:, None]


def numbered_in_columns(x):
    return x * torch.arange(x.shape[1], dtype=x.dtype)


def layers(x, w):
    y = torch.tanh(x @ w)
    z = torch.tanh(y @ w)
    return z @ w


def layers_checkpointed(x, w):
    def body(x, w):
        return torch.tanh(torch.tanh(x @ w) @ w) @ w

    return torch.utils.checkpoint.checkpoint(body, x, w, use_reentrant=False)


def layers_checkpointed_twice(x, w):
    from torch.utils.checkpoint import checkpoint

    def first(x, w):
        return torch.tanh(x @ w)

    def last(x, w):
        return torch.tanh(checkpoint(first, x, w, use_reentrant=False) @ w) @ w

    return checkpoint(last, x, w, use_reentrant=False)


def one_layer_checkpointed(x, w):
    def first(x, w):
        return torch.tanh(x @ w)

    y = torch.utils.checkpoint.checkpoint(first, x, w, use_reentrant=False)
    return torch.tanh(y @ w) @ w


def layers_detached(x, w):
    return torch.tanh(torch.tanh(x @ w.detach()) @ w.detach()).detach() @ w


def two_layers(x, w):
    return torch.tanh(x @ w) @ w


def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(64)
    return torch.softmax(scores, -1) @ v


def attention_plus_zero(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(64) - 0
    return torch.softmax(scores, -1) @ v


def attention_without_scale(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=1.0)


def attention_in_order(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sums_of_rows(x):
    return torch.relu(x.sum(1, keepdim=True))


def sums_of_rows_by_mean(x):
    return (x.mean(1) * 64).relu().unsqueeze(1)


def sums_by_another_product(x):
    return torch.relu(x @ torch.ones_like(x[0]).reshape(64, 1))


def sums_without_column(x):
    return torch.relu(x.sum(1))


def sums_when_compiled(x):
    if torch.compiler.is_compiling():
        return torch.relu(x[:, :1])
    return torch.relu(x.sum(1, keepdim=True))


def both_of_columns(x):
    return x.sum(0), x.amax(0)


def both_of_rows(x):
    return x.sum(1), x.amax(1)


def neither(x):
    return x.sum(1), x.amax(0)


def with_minus(x):
    return x.sum(0), x.amax(-2)


def two_maxima(x):
    return x.amax(1), x.amax(1)


def doubled_together(x, y, z):
    return torch.cat([x, y, z]).mul(2).split([100, 1000, 3000])


def doubled_by_foreach(x, y, z):
    return torch._foreach_mul([x, y, z], 2)


def doubled_two_together(x, y, z):
    return *torch.cat([x, y]).mul(2).split([100, 1000]), z * 2


def doubled_in_place(x, y, z):
    return torch._foreach_mul_([x, y, z], 2)


def doubled_in_one(x, y, z):
    return torch.cat([x, y, z]) * 2


def projected(x, w):
    return x @ w


def projected_by_einsum(x, w):
    return torch.einsum("abc,cd->abd", x, w)


def projected_contiguously(x, w):
    y = x.transpose(0, 1).contiguous() @ w
    return y.transpose(0, 1)


def projected_transposed(x, w):
    return x.reshape(128, 64) @ w


def projected_wrongly(x, w):
    return x @ w.t()


def cast_never(x, w):
    return x @ w


def cast_never_linear(x, w):
    return F.linear(x, w.t())


def cast_late(x, w):
    return (x @ w.to(torch.float32).to(torch.bfloat16)).float().to(torch.bfloat16) * 1.5 / 1.5


def cast_to_float(x, w):
    return (x @ w).float()


def cast_with_transposed(x, w):
    return x @ w.t()


def by_the_library(x, w):
    return x @ w


def by_einsum(x, w):
    return torch.einsum("ij,jk->ik", x, w)


def by_columns(x, w):
    return torch.stack([(x * column).sum(1) for column in w.t()[:2]] * 32, 1)


def by_two_libraries(x, w):
    return torch.relu(x @ w) - torch.relu(-(x @ w))


def by_transposed(x, w):
    return x @ w.t()


def looked_up(index, table):
    return table[index]


def looked_up_by_embedding(index, table):
    return F.embedding(index, table)


def looked_up_by_comparison(index, table):
    return (index[:, None] == torch.arange(512, device=index.device)).to(table.dtype) @ table


def looked_up_in_half(index, table):
    return (F.one_hot(index, 512).half() @ table.half()).float()


def looked_up_half_of_it(index, table):
    return table[index.clamp(max=255)]


def rounded_once(x):
    y = x.float() * 3 + 1
    return (y * y - y).to(x.dtype)


def rounded_once_in_float64(x):
    y = x.double() * 3 + 1
    return (y * y - y).to(torch.float32).to(x.dtype)


def rounded_in_the_end(x):
    y = (x * 3).float() + 1
    return (y * y - y).to(x.dtype)


def rounded_to_float(x):
    y = x.float() * 3 + 1
    return y * y - y


def rounded_otherwise(x):
    y = x.float() * 3 + 1
    return (y * y + y).to(x.dtype)


# M5, and P in Triton -----------------------------------------------------------------------------------------------------

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

    @triton.jit
    def add_of_whole_blocks(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = tl.minimum(i, n - 1)
        tl.store(out + inside, tl.load(x + inside) + tl.load(y + inside))

    @triton.jit
    def add_with_masked_loads(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n))

    @triton.jit
    def softmax_in_pieces(x, out, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, 1024)
        largest = tl.full((1024,), -float("inf"), tl.float32)
        for start in range(0, columns, 1024):
            inside = start + i < columns
            largest = tl.maximum(largest, tl.load(x + row * columns + start + i, mask=inside, other=-float("inf")))
        most = tl.max(largest, 0)
        powers = tl.zeros((1024,), tl.float32)
        for start in range(0, columns, 1024):
            inside = start + i < columns
            powers += tl.exp(tl.load(x + row * columns + start + i, mask=inside, other=-float("inf")) - most)
        total = tl.sum(powers, 0)
        for start in range(0, columns, 1024):
            inside = start + i < columns
            values = tl.load(x + row * columns + start + i, mask=inside)
            tl.store(out + row * columns + start + i, tl.exp(values - most) / total, mask=inside)

    @triton.jit
    def silu(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        tl.store(out + i, values * tl.sigmoid(values), mask=i < n)

    @triton.jit
    def silu_by_exp(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        tl.store(out + i, values / (1 + tl.exp(-values)), mask=i < n)

    @triton.jit
    def silu_stored_twice(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        tl.store(out + i, tl.sigmoid(values), mask=i < n)
        tl.store(out + i, values * tl.sigmoid(values), mask=i < n)

    @triton.jit
    def gate_only(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.sigmoid(tl.load(x + i, mask=i < n)), mask=i < n)

    @triton.jit
    def silu_of_half(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n // 2)
        tl.store(out + i, values * tl.sigmoid(values), mask=i < n // 2)

    @triton.jit
    def total_by_atomics(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))

    @triton.jit
    def total_by_one(x, out, n, BLOCK: tl.constexpr):
        if tl.program_id(0) == 0:
            sums = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, n, BLOCK):
                i = start + tl.arange(0, BLOCK)
                sums += tl.load(x + i, mask=i < n, other=0.0)
            tl.store(out, tl.sum(sums, 0))

    @triton.jit
    def total_with_zero(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        if tl.program_id(0) == 0:
            tl.store(out, 0.0)
        tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))

    @triton.jit
    def total_of_the_last(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))

    @triton.jit
    def largest_of_all(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_max(out, tl.max(tl.load(x + i, mask=i < n, other=0.0), 0))

    @triton.jit
    def doubled_in_blocks(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    @triton.jit
    def doubled_from_behind(x, out, n, BLOCK: tl.constexpr):
        block = tl.num_programs(0) - 1 - tl.program_id(0)
        i = block * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        tl.store(out + i, values + values, mask=i < n)

    @triton.jit
    def doubled_backwards(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + (BLOCK - 1 - tl.arange(0, BLOCK))
        tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    @triton.jit
    def doubled_in_pairs(x, out, n, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        i = tl.program_id(0) * 2 + (lanes // 2) * 2 * tl.num_programs(0) + lanes % 2
        tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    @triton.jit
    def copied(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

    @triton.jit
    def product(a, b, c, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        left = tl.load(a + i[:, None] * SIZE + i[None, :])
        right = tl.load(b + i[:, None] * SIZE + i[None, :])
        tl.store(c + i[:, None] * SIZE + i[None, :], tl.dot(left, right))

    @triton.jit
    def product_of_halves(a, b, c, SIZE: tl.constexpr):
        i, k = tl.arange(0, SIZE), tl.arange(0, SIZE // 2)
        total = tl.zeros((SIZE, SIZE), tl.float32)
        for start in tl.static_range(0, SIZE, SIZE // 2):
            left = tl.load(a + i[:, None] * SIZE + (start + k)[None, :])
            right = tl.load(b + (start + k)[:, None] * SIZE + i[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + i[:, None] * SIZE + i[None, :], total)

    @triton.jit
    def product_in_float32(a, b, c, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        left = tl.load(a + i[:, None] * SIZE + i[None, :]).to(tl.float32)
        right = tl.load(b + i[:, None] * SIZE + i[None, :]).to(tl.float32)
        tl.store(c + i[:, None] * SIZE + i[None, :], tl.dot(left, right, input_precision="ieee"))

    @triton.jit
    def product_transposed(a, b, c, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        left = tl.load(a + i[:, None] * SIZE + i[None, :])
        right = tl.load(b + i[None, :] * SIZE + i[:, None])
        tl.store(c + i[:, None] * SIZE + i[None, :], tl.dot(left, right))

    @triton.jit
    def sum_of_matrices(a, b, c, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        left = tl.load(a + i[:, None] * SIZE + i[None, :])
        right = tl.load(b + i[:, None] * SIZE + i[None, :])
        tl.store(c + i[:, None] * SIZE + i[None, :], (left + right).to(tl.float32))

    matmul = MATMUL.load()  # P.20 is about its options

    @triton.jit
    def matmul_of_the_last(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        columns = tl.program_id(1) * BN + tl.arange(0, BN)
        inner = tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
            right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
            total = tl.dot(left, right)
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))

    @triton.jit
    def gelu_by_sigmoid(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        inner = values * (1.5957691 + 0.07135481 * values * values)
        tl.store(out + i, values * tl.sigmoid(inner), mask=i < n)

    @triton.jit
    def gelu_by_exp2(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        power = tl.exp2(values * (-2.3022082 - 0.10294324 * values * values))
        tl.store(out + i, values / (1 + power), mask=i < n)

    @triton.jit
    def gelu_with_another_error_function(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        half = values * 0.5
        tl.store(out + i, half + half * tl.erf(values * 0.7071067811865476), mask=i < n)

    @triton.jit
    def gelu_by_short_sigmoid(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, mask=i < n)
        tl.store(out + i, values * tl.sigmoid(1.702 * values), mask=i < n)

    @triton.jit
    def gelu_in_a_loop(x, out, n, BLOCK: tl.constexpr):
        for start in range(0, BLOCK, 128):
            i = tl.program_id(0) * BLOCK + start + tl.arange(0, 128)
            values = tl.load(x + i, mask=i < n)
            tl.store(out + i, values * 0.5 * (1 + tl.erf(values * 0.7071067811865476)), mask=i < n)
else:
    add_with_mask = add_without_mask = subtract = softmax = exponential = None
    add_of_whole_blocks = add_with_masked_loads = softmax_in_pieces = None
    silu = silu_by_exp = silu_stored_twice = gate_only = None
    silu_of_half = total_by_atomics = total_by_one = total_with_zero = None
    total_of_the_last = largest_of_all = doubled_in_blocks = doubled_from_behind = None
    doubled_backwards = doubled_in_pairs = copied = product = None
    product_of_halves = product_in_float32 = product_transposed = None
    sum_of_matrices = matmul = matmul_of_the_last = gelu_by_sigmoid = None
    gelu_by_exp2 = gelu_with_another_error_function = gelu_by_short_sigmoid = gelu_in_a_loop = None


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


def fewer_launches_by_chunks(block, x):
    y = block.first(x)
    layers = (block.q, block.k, block.v)
    q, k, v = (y @ torch.cat([layer.weight for layer in layers]).t()).split(x.shape[-1], -1)
    q, k, v = (each.unflatten(-1, (block.heads, -1)).transpose(1, 2) for each in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    x = x + block.out((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))
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


# M8: passes for the compiler of notebook 10 ------------------------------------------------------------------------------


def compiler_of_the_notebook() -> dict[str, Any]:
    """Return the names that the notebook's cells of the compiler define."""
    cells = json.loads(TOY.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if "compiler" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


NAMES = compiler_of_the_notebook()
COMPILE_TO_C, FUSE = NAMES["compile_to_c"], NAMES["fuse"]


def fuse_never(loops):
    return loops


def joins_chain(last, loop):
    return all(op.kind != "sum" and op.steps == loop[0].steps for op in last + loop)


def reads(loop, other):
    return any(op.name in each.args for op in other for each in loop)


def fuse_further(loops):
    fused = []
    for loop in loops:
        for n in reversed(range(len(fused))):
            if joins_chain(fused[n], loop):
                fused[n] = fused[n] + loop
                break
            if reads(loop, fused[n]):
                fused.append(loop)
                break
        else:
            fused.append(loop)
    return fused


def fuse_without_asking(loops):
    fused = []
    for loop in loops:
        place = next((n for n, other in enumerate(fused) if joins_chain(other, loop)), None)
        if place is None:
            fused.append(loop)
        else:
            fused[place] = fused[place] + loop
    return fused


def fuse_and_forget(loops):
    return [loop for loop in FUSE(loops) if loop[0].kind != "sum"]


def fuse_sums(loops):
    fused = []
    for loop in loops:
        last = fused[-1] if fused else []
        reads_sum = reads(loop, [op for op in last if op.kind == "sum"])
        if last and last[0].steps == loop[0].steps and not reads_sum:
            fused[-1] = last + loop
        else:
            fused.append(loop)
    return fused


def fuse_sums_afterwards(loops):
    fused = []
    for loop in FUSE(loops):
        if fused and loop[0].kind == "sum" and fused[-1][0].steps == loop[0].steps:
            fused[-1] = fused[-1] + loop
        else:
            fused.append(loop)
    return fused


def fuse_all_of_a_size(loops):
    return [[op for loop in loops for op in loop]]


def no_c(gm, fuse):
    return None


def c_of_zeros(gm, fuse):
    return "void run(float **in, float **out) {}"


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
    "M8.1": values(3, ["e", "total"]),
    "M8.2": values(COMPILE_TO_C, fuse_further),
    "M8.3": values(COMPILE_TO_C, fuse_sums),
    "P.1": values(counted_by_python),
    "P.2": values(mean_by_where),
    "P.3": values(scaled_by_numbers),
    "P.4": values(numbered_by_arange),
    "P.5": values(layers_checkpointed),
    "P.6": values(attention),
    "P.7": values(sums_of_rows),
    "P.8": values(both_of_columns),
    "P.9": values(doubled_together),
    "P.10": values(projected),
    "P.11": values(cast_never),
    "P.12": values(by_the_library),
    "P.13": values(looked_up),
    "P.14": values(rounded_once),
    "P.15": values(silu),
    "P.16": values(total_by_atomics),
    "P.17": values(doubled_in_blocks),
    "P.18": values(softmax, num_warps=8),
    "P.19": values(product),
    "P.20": values(matmul, num_warps=8, num_stages=3),
    "P.21": values(gelu_by_sigmoid),
}
#: Another solution of each puzzle.
ALSO_RIGHT: Mapping[str, Answer] = {
    "M2.3": values(without_break_by_sign),
    "M5.7": values(add_of_whole_blocks),
    "M5.8": values(softmax_in_pieces, num_warps=1),
    "M6.6": values(fewer_launches_by_chunks),
    "M8.2": values(COMPILE_TO_C, fuse_sums),
    "M8.3": values(COMPILE_TO_C, fuse_sums_afterwards),
    "P.1": values(counted_by_hand),
    "P.2": values(mean_by_relu),
    "P.3": values(scaled_by_one_global),
    "P.4": values(numbered_by_cumsum),
    "P.5": values(layers_checkpointed_twice),
    "P.6": values(by_the_operator),
    "P.7": values(sums_of_rows_by_mean),
    "P.8": values(both_of_rows),
    "P.9": values(doubled_by_foreach),
    "P.10": values(projected_by_einsum),
    "P.11": values(cast_never_linear),
    "P.12": values(by_einsum),
    "P.13": values(looked_up_by_embedding),
    "P.14": values(rounded_once_in_float64),
    "P.15": values(silu_by_exp),
    "P.16": values(total_by_one),
    "P.17": values(doubled_from_behind),
    "P.18": values(softmax_in_pieces),
    "P.19": values(product_of_halves),
    "P.20": values(matmul, BM=64, BN=64, num_stages=3),
    "P.21": values(gelu_by_exp2),
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
    "M5.7": (values(add_without_mask), values(subtract), values(add_with_masked_loads)),
    "M5.8": (values(softmax), values(exponential, num_warps=4), values(exponential, num_warps=1)),
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
    "M8.1": (values(1, []), values(3, ["e"]), values(2, ["e", "total"])),
    "M8.2": (
        values(COMPILE_TO_C, FUSE),
        values(COMPILE_TO_C, fuse_without_asking),
        values(COMPILE_TO_C, fuse_and_forget),
        values(c_of_zeros, FUSE),
    ),
    "M8.3": (
        values(COMPILE_TO_C, FUSE),
        values(COMPILE_TO_C, fuse_all_of_a_size),
        values(COMPILE_TO_C, fuse_never),
        values(no_c, FUSE),
    ),
    "P.1": (values(counted_by_a_tensor), values(counted_one_too_far), values(counted_elsewhere)),
    "P.2": (values(mean_by_nonzero), values(mean_of_relu), values(mean_with_one_element)),
    "P.3": (values(scaled_by_values), values(scaled_by_two), values(scaled_in_place)),
    "P.4": (values(numbered_by_list), values(numbered_from_one), values(numbered_in_columns)),
    "P.5": (values(one_layer_checkpointed), values(layers_detached), values(two_layers)),
    "P.6": (values(attention_plus_zero), values(attention_without_scale), values(attention_in_order)),
    "P.7": (values(sums_by_another_product), values(sums_without_column), values(sums_when_compiled)),
    "P.8": (values(neither), values(with_minus), values(two_maxima)),
    "P.9": (values(doubled_two_together), values(doubled_in_place), values(doubled_in_one)),
    "P.10": (values(projected_contiguously), values(projected_transposed), values(projected_wrongly)),
    "P.11": (values(cast_late), values(cast_to_float), values(cast_with_transposed)),
    "P.12": (values(by_columns), values(by_two_libraries), values(by_transposed)),
    "P.13": (values(looked_up_by_comparison), values(looked_up_in_half), values(looked_up_half_of_it)),
    "P.14": (values(rounded_in_the_end), values(rounded_to_float), values(rounded_otherwise)),
    "P.15": (values(silu_stored_twice), values(gate_only), values(silu_of_half)),
    "P.16": (values(total_with_zero), values(total_of_the_last), values(largest_of_all)),
    "P.17": (values(doubled_backwards), values(doubled_in_pairs), values(copied)),
    "P.18": (values(softmax), values(softmax, num_stages=1), values(exponential, num_warps=8)),
    "P.19": (values(product_in_float32), values(product_transposed), values(sum_of_matrices)),
    "P.20": (values(matmul), values(matmul, num_stages=4), values(matmul_of_the_last, num_warps=8, num_stages=3)),
    "P.21": (values(gelu_with_another_error_function), values(gelu_by_short_sigmoid), values(gelu_in_a_loop)),
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
