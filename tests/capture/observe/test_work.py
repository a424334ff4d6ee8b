"""What scheduler nodes move and compute: bytes and operations, held to counts by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.analysis.questions.costs import loop_operations
from explorer.analysis.questions.figures import estimated
from explorer.stages.triton.instructions import SASS_INSTRUCTION

pytestmark = pytest.mark.compile

#: Enough to count by; kernels need not be compiled further.
STAGES = tuple(s for s in explorer.types.STAGES if s.name in ("dynamo", "fusion", "post_grad", "ir_pre_fusion", "ir_post_fusion"))
BF16 = torch.bfloat16


def rand(*size: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(*size).to(dtype).requires_grad_(grad)


def groups(function: Callable[..., Any], *arguments: Any, **how: Any) -> list[Any]:
    """The groups of a trace for an H100 that run something."""
    trace = explorer.trace(function, *arguments, target="h100", stages=STAGES, **how)
    assert not trace.failures
    return [row for row in trace.fusion.groups if row["kind"] not in ("nop", "output of a call")]


def moved(function: Callable[..., Any], *arguments: Any, **how: Any) -> list[tuple[int, int]]:
    return [(row["read"], row["written"]) for row in groups(function, *arguments, **how)]


# Bytes -----------------------------------------------------------------------------------------------------------------


def sgd(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> None:
    m.mul_(0.9).add_(g)
    p.sub_(m, alpha=0.1)


@pytest.mark.parametrize(
    ("function", "sizes", "read", "written"),
    [
        (sgd, [(64, 64)] * 3, 3 * 16384, 2 * 16384),  # each tensor once, not the one that is made and used inside
        (lambda x, y: x.copy_(y * 2), [(64, 64)] * 2, 16384, 16384),  # x is written, not read
        (lambda x: x[:, :8] + x[:, 32:40], [(64, 64)], 2 * 64 * 8 * 4, 64 * 8 * 4),  # two slices, not the whole
        (lambda x: x[:, ::4] + 1, [(64, 64)], 16384, 4096),  # every sector of 32 bytes is touched
        # the even and the odd elements of two thirds of each row stand in the same sectors
        (lambda x: x[:, :64:2] * x[:, 1:64:2] + x[:, 64:128:2] * x[:, 65:128:2], [(64, 192)], 64 * 128 * 4, 8192),
        (lambda x: x.softmax(-1), [(64, 64)], 16384, 16384),  # three passes over the same numbers
        (lambda x, b: x + b, [(64, 64), (64,)], 16384 + 256, 16384),  # what is broadcast is read once
    ],
)
def test_a_kernel_moves_what_its_loops_address_once(function: Any, sizes: Any, read: int, written: int) -> None:
    """Each buffer counts as far as it is addressed, however many fused loops read it; what stays in registers does not count."""
    assert moved(function, *(rand(*size) for size in sizes)) == [(read, written)]


def test_a_gather_moves_its_rows_and_not_the_table() -> None:
    """64 rows of 128 floats are read of 50,000, with their 64 numbers of 8 bytes; a single float costs its sector."""
    places = torch.randint(0, 50_000, (64,))
    assert moved(lambda i, w: w[i] * 2, places, rand(50_000, 128)) == [(64 * 512 + 64 * 8, 64 * 512)]
    assert moved(lambda i, w: w[i] * 2, places, rand(50_000)) == [(64 * 32 + 64 * 8, 64 * 4)]


def test_a_scatter_that_adds_reads_what_it_writes() -> None:
    """The copy of the table, then 64 rows that are read, added to and written."""
    places = torch.randint(0, 1000, (64,))
    rows = moved(lambda x, i, s: x.index_add(0, i, s), rand(1000, 128), places, rand(64, 128))
    assert rows == [(512_000, 512_000), (2 * 64 * 512 + 64 * 8, 64 * 512)]


def test_a_size_that_only_the_run_knows_is_named() -> None:
    """Neither bytes nor seconds are given for what depends on it; the table and the sum say why."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        trace = explorer.trace(lambda x: (x[x > 0] * 2).sin(), rand(8, 8), target="h100")
    assert [row["unsized"] for row in trace.fusion.groups if row["kind"] == "alone"] == [(), ("u0",)]
    first, last = trace.kernels.table
    assert first["seconds"] > 0 and last["seconds"] is last["read"] is None and "u0" in last["seconds_known"]
    assert [row["seconds"] for row in trace.inductor.extern_calls if row["call"].endswith("index.Tensor")] == [None]
    assert "u0" in estimated(trace)


# Operations ------------------------------------------------------------------------------------------------------------


def e4m3(*size: int) -> torch.Tensor:
    return torch.randn(*size).to(torch.float8_e4m3fn)


def int8(*size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.int8)


ENDS = torch.tensor([16, 32, 48, 64], dtype=torch.int32)
ONE = torch.ones(())
sdpa = F.scaled_dot_product_attention


#: A function, its arguments, the dtype of the operands, and the operations.
CALLS: tuple[tuple[Any, tuple[Any, ...], str, int], ...] = (
    (torch.mm, (rand(32, 16), rand(16, 48)), "float32", 2 * 32 * 16 * 48),
    (torch.mm, (rand(32, 16).double(), rand(16, 24).double()), "float64", 2 * 32 * 16 * 24),
    (torch.addmm, (rand(48, dtype=BF16), rand(32, 24, dtype=BF16), rand(24, 48, dtype=BF16)), "bfloat16", 2 * 32 * 24 * 48),
    (torch.baddbmm, (rand(4, 32, 48), rand(4, 32, 16), rand(4, 16, 48)), "float32", 2 * 4 * 32 * 16 * 48),
    (torch._int_mm, (int8(32, 32), int8(32, 32)), "int8", 2 * 32**3),
    (
        lambda a, b, s: torch._scaled_mm(a, b, s, s, out_dtype=BF16),
        (e4m3(32, 32), e4m3(32, 32).t(), ONE),
        "float8_e4m3fn",
        2 * 32**3,
    ),
    (
        lambda a, b, e: F.grouped_mm(a, b, offs=e),
        (rand(64, 32, dtype=BF16), rand(4, 32, 16, dtype=BF16), ENDS),
        "bfloat16",
        2 * 64 * 32 * 16,
    ),
    (lambda x, w: F.conv2d(x, w, padding=1), (rand(2, 8, 6, 6), rand(16, 8, 3, 3)), "float32", 2 * 2 * 36 * 16 * 8 * 9),
    (lambda x, w: F.conv2d(x, w, groups=8), (rand(2, 8, 6, 6), rand(8, 1, 3, 3)), "float32", 2 * 2 * 16 * 8 * 9),
    (lambda x, w: F.conv_transpose2d(x, w, stride=4), (rand(2, 8, 6, 6), rand(8, 4, 4, 4)), "float32", 2 * 2 * 36 * 8 * 4 * 16),
    (lambda q: sdpa(q, q, q), (rand(1, 2, 32, 16, dtype=BF16),), "bfloat16", 2 * 2 * 2 * 32 * 32 * 16),
    (lambda q: sdpa(q, q, q, is_causal=True), (rand(1, 2, 32, 16, dtype=BF16),), "bfloat16", 2 * 2 * 2 * 16 * (32 * 33 // 2)),
)


def test_a_call_has_its_operations_and_the_dtype_of_its_operands() -> None:
    """Products, convolutions of every kind and attention; not the layout copies beside a convolution, nor anything else."""

    def every(arguments: Any) -> list[Any]:
        return [function(*given) for (function, *_), given in zip(CALLS, arguments, strict=True)]

    rows = [call for row in groups(every, [given for _, given, *_ in CALLS]) for call in row["calls"]]
    assert Counter((call["dtype"], call["operations"]) for call in rows) == Counter((dtype, count) for *_, dtype, count in CALLS)


def test_backward_counts_both_gradients() -> None:
    """A convolution's backward is twice its forward, attention's five products to two."""
    conv = groups(lambda x, w: F.conv2d(x, w, padding=1), rand(2, 8, 6, 6, grad=True), rand(16, 8, 3, 3, grad=True), train=True)
    forward = 2 * 2 * 36 * 16 * 8 * 9
    assert [call["operations"] for row in conv for call in row["calls"]] == [forward, 2 * forward]
    operands = [rand(1, 2, 32, 16, dtype=BF16, grad=True) for _ in "qkv"]
    product = 2 * 2 * 32 * 32 * 16
    assert [call["operations"] for row in groups(sdpa, *operands, train=True) for call in row["calls"]] == [
        2 * product,
        5 * product,
    ]


def test_dynamic_sizes_count_as_they_are_in_the_call() -> None:
    """A product of symbolic sizes has the operations and bytes of the traced call."""
    (row,) = groups(torch.mm, rand(32, 16), rand(16, 48), dynamic=True)
    assert [call["operations"] for call in row["calls"]] == [2 * 32 * 16 * 48]
    assert (row["read"], row["written"]) == (4 * (32 * 16 + 16 * 48), 4 * 32 * 48)


def test_a_transposing_copy_says_how_short_its_rows_are() -> None:
    """Of three channels that become the innermost 12 bytes lie side by side, of 64 columns 256; a plain loop has none."""
    assert [row["run"] for row in groups(lambda x: x.permute(0, 2, 1).contiguous() + 1, rand(4, 3, 64))] == [12]
    assert [row["run"] for row in groups(lambda x: x.t().contiguous() + 1, rand(64, 64))] == [256]
    assert [(row["run"], row["rows"]) for row in groups(lambda x: x + 1, rand(64, 64))] == [(None, None)]
    assert [(row["run"], row["rows"]) for row in groups(lambda x: x.sum(1), rand(64, 96))] == [(None, 64)]


def test_what_is_looked_up_or_added_to_is_listed() -> None:
    """A gather of single floats, one of rows, and an atomic addition: how many places, bytes at each, and the buffer's bytes."""
    places, add = torch.randint(0, 1000, (64,)), {"adds": True, "count": 64, "run": 512, "buffer": 512_000}
    (row,) = groups(lambda i, w: w[i] * 2, places, rand(1000))
    assert [dict(each) for each in row["lookups"]] == [{"adds": False, "count": 64, "run": 4, "buffer": 4000}]
    (row,) = groups(lambda i, w: w[i] * 2, places, rand(1000, 128))
    assert [(each.count, each.run) for each in row["lookups"]] == [(64, 512)]
    rows = groups(lambda x, i, s: x.index_add(0, i, s), rand(1000, 128), places, rand(64, 128))
    assert [dict(each) for row in rows for each in row["lookups"]] == [add]
    assert [row["lookups"] for row in groups(lambda x: F.interpolate(x[None, None], scale_factor=2), rand(8, 8))] == [()]


def test_a_second_pass_over_a_row_reads_it_again() -> None:
    """A norm needs the whole row before it scales it. One pass takes a sum, or a variance with its several results."""
    x = rand(64, 8192)
    assert [row["reread"] for row in groups(lambda x: F.rms_norm(x, (8192,)), x)] == [64 * 8192 * 4]
    assert [row["reread"] for row in groups(lambda x: x.sum(-1), x)] == [0]
    assert [row["reread"] for row in groups(lambda x: x.var(-1), x)] == [0]
    assert [row["reread"] for row in groups(lambda x: x.logsumexp(-1), x.double())] == [64 * 8192 * 8]


def test_a_reduction_over_rows_is_strided() -> None:
    """The elements of a column lie a row apart; those of a row lie side by side."""
    x = rand(512, 512)
    assert [row["strided"] for row in groups(lambda x: x.sum(0), x)][-1] is True
    assert [row["strided"] for row in groups(lambda x: x.sum(1), x)] == [False]


def test_double_precision_loops_are_counted_as_such() -> None:
    """The operations of a loop body, in the dtype that they run in; loads and stores are none of double precision."""
    (row,) = groups(lambda x: x * 2 + 1, rand(64).double())
    assert dict(row["elementwise"]) == {"float64": 128}
    (row,) = groups(lambda x: x * 2 + 1, rand(64))
    assert dict(row["elementwise"]) == {"float32": 256}


# Operations of loops ---------------------------------------------------------------------------------------------------


def counted(function: Callable[..., Any], *arguments: Any) -> float:
    """The operations that one element of the first argument costs, counted in the kernel as it was written."""
    (group,) = groups(function, *arguments)
    return float(sum(loop_operations(group).values())) / int(arguments[0].numel())


def test_a_norm_counts_its_root_once_a_row() -> None:
    """By hand an element: a load and a conversion, a sum, x - mean, its square and their sum, and of the last pass five more.

    These are the product with the root, weight, bias, conversion and store. The division and the root are once a row.
    """
    x, w = rand(512, 1024, dtype=BF16), rand(1024, dtype=BF16)
    assert counted(lambda x, w: F.layer_norm(x, (1024,), w, w), x, w) == pytest.approx(2 + 4 + 5, abs=0.1)


def test_a_sort_counts_the_steps_of_its_network() -> None:
    """A bitonic network of 256 elements has 8 · 9 / 2 steps, one of 300 is that of 512; then a load and a store."""
    assert counted(lambda x: x.sort(-1).values, rand(64, 256)) == 13 * 36 + 2
    assert counted(lambda x: x.sort(-1).values, rand(64, 300)) == pytest.approx((13 * 45 + 2) * 512 / 300, rel=0.001)


def test_a_block_computes_the_lanes_that_a_row_leaves_idle() -> None:
    """A row of 768 takes a block of 1024 lanes, so that each element costs a third more."""
    softmax = lambda x: x.softmax(-1)  # noqa: E731
    assert counted(softmax, rand(64, 768)) == pytest.approx(counted(softmax, rand(64, 1024)) * 4 / 3, rel=0.001)


def test_double_precision_takes_more_instructions() -> None:
    """ptxas writes 18 of double precision for an exponential, where single precision has one of its own."""
    assert counted(torch.exp, rand(64).double()) == 18
    assert counted(torch.exp, rand(64)) == 9 + 2


@pytest.mark.parametrize(("width", "each"), [(1024, 1 + 14 + 7 + 1), (8192, 1 + 32 + 15 * 2048 / 8192 + 1 + 1 + 9 + 7 + 1)])
def test_a_reduction_with_several_results_is_counted_once(width: int, each: float) -> None:
    """The largest of a row and its sum of exponentials come of one pass.

    In a block: a load, max, difference, exponential and sum; then a division and a store. In a loop the running sum is scaled,
    and the last pass loads and computes anew.
    """
    assert counted(lambda x: x.softmax(-1), rand(64, width)) == pytest.approx(each, abs=0.1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(-1),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: x.float().var(-1),
        F.gelu,
        torch.tanh,
    ],
    ids=["softmax", "log softmax", "layer norm", "var", "gelu", "tanh"],
)
def test_operations_are_those_that_the_assembler_writes(function: Callable[..., Any]) -> None:
    """SASS without a loop, an instruction each: what is counted is within a half of it, by the text of ptxas and not our own."""
    trace = explorer.trace(function, torch.empty(8192, 1024, dtype=BF16, device="meta"), target="h100")
    (kernel,), (group,) = trace.kernels, [group for group in trace.fusion.groups if group["kernels"]]
    lines = [line for line in kernel.text("sass").splitlines() if SASS_INSTRUCTION.match(line) and "NOP" not in line]
    warps = next(row["num_warps"] for row in kernel.candidates.table if row["taken"])
    (blocks, *_) = kernel.launches[0]["grid"]
    an_element = len(lines) * blocks * warps * 32 / (8192 * 1024)
    assert sum(loop_operations(group).values()) / (8192 * 1024) == pytest.approx(an_element, rel=0.5)
