"""The programs of the zoo, and the table of its traces: each program with its inputs, target, and settings of `explorer.trace`.

They are read through the fixture `zoo`, which `zoo.py` makes. Each trace is made with the same random numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.distributed import _functional_collectives as functional

import explorer
from explorer.tracing.traced import Trace
from tests.programs import Block

HERE = sys.modules[__name__]
Call = tuple[Callable[..., Any], tuple[Any, ...]]


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Draw the same numbers in the block each time, and leave torch's generator as it was."""
    with torch.random.fork_rng(devices=()), torch.enable_grad():
        torch.manual_seed(0)
        yield


@dataclass(frozen=True)
class Entry:
    """One trace: a function that makes the program and its arguments, what it is compiled for, and how."""

    call: Callable[[], Call]
    target: str
    train: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    sass: bool = False

    def __call__(self) -> Trace:
        """Compile the program."""
        with same_random_numbers():
            function, arguments = self.call()
            made = explorer.trace(function, *arguments, target=self.target, train=self.train, **self.settings)
            return made.attach("sass") if self.sass else made


def ones(*size: int) -> torch.Tensor:
    """Make a tensor."""
    return torch.ones(*size)


def without_data(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Make a tensor without data, of a size that real models have."""
    return torch.empty(*size, device="meta", dtype=dtype)


# Fusion ------------------------------------------------------------------------------------------------------------------


def scaled_softmax(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product and a softmax, which is one kernel."""
    y = torch.tanh(x @ w)
    z = torch.softmax(y, -1)
    return z * y.cos()


def two_products(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A product of enough work for any GPU, and a batch of small ones."""
    return x @ w, a @ b


def edited_softmax(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """`scaled_softmax` with a line above, and another operator after what is left alone."""
    # a line above
    y = torch.tanh(x @ w)
    z = torch.softmax(y, -1)
    return z * y.cos() + y.sum(0)


def silu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product, and one kernel behind it."""
    h = nn.functional.silu(x @ w)
    h = h * 2
    return h.sum(-1)


def broken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """`silu` with a graph break."""
    h = nn.functional.silu(x @ w)
    torch._dynamo.graph_break()
    h = h * 2
    return h.sum(-1)


def columns(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """`silu` with a scan, and a sort: several kernels."""
    h = nn.functional.silu(x @ w).cumsum(0)
    return torch.sort(h.sum(-1))[0]


def largest(y: torch.Tensor) -> torch.Tensor:
    """A line that two kernels compute."""
    return (y.sum() + y).amax()


def two_sums(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Two sums of one tensor, which one kernel can make."""
    return x.sum(-1), (x * x).sum(-1)


def waves(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two operators that forward and backward both compute, and a product."""
    h = x.exp()
    h = h.sin()
    return (h @ w).cos()


def split_sum(x: torch.Tensor) -> torch.Tensor:
    """A sum whose halves are two kernels."""
    return x.sum()


def two_norms(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, v: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Sums that a GPU of many multiprocessors splits otherwise, forward and backward."""
    inner = torch.nn.functional.layer_norm(x, (384,), w, b)
    return torch.nn.functional.layer_norm(inner.sin(), (384,), v, c).mean(dim=1)


def two_norms_inputs() -> tuple[torch.Tensor, ...]:
    return tuple(ones(*shape).requires_grad_() for shape in ((16, 196, 384), (384,), (384,), (384,), (384,)))


def transposed(x: torch.Tensor) -> torch.Tensor:
    """Two looks at one tensor."""
    return x + x.t()


def with_b(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A function whose last lines are the same however b is made."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.sin(x)
        b = make(y)
        c = a @ b
        return torch.relu(c) + a, b.sum()

    return function


def twice(y: torch.Tensor) -> torch.Tensor:
    """One b."""
    return y * 2


def thrice(y: torch.Tensor) -> torch.Tensor:
    """Another b."""
    return y * 3


def twice_rounded(y: torch.Tensor) -> torch.Tensor:
    """`twice`, rounded to half precision."""
    return (y * 2).half().float()


def activated(activation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A product behind an activation, squared."""
    return lambda x, w: activation(x @ w).square()


# Modules, calls and gradients --------------------------------------------------------------------------------------------


class NormedMlp(nn.Module):
    """Two linear layers with a GELU and a layer norm between them, whose reductions exchange numbers between threads."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.up(x))
        return self.down(self.norm(hidden))  # type: ignore[no-any-return]


class Inner(nn.Module):
    """A module of torch's, called by a line of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 16), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)  # type: ignore[no-any-return]


def encoder() -> nn.Module:
    """A compiled module of torch's own, in which no line is the user's."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class Layers(nn.Module):
    """PyTorch's own block of a transformer, and the one of transformers' GPT-2 behind it."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config
        from transformers.models.gpt2.modeling_gpt2 import GPT2Block

        self.torch = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, norm_first=True, batch_first=True)
        self.gpt2 = GPT2Block(GPT2Config(n_embd=16, n_head=2, attn_implementation="sdpa"), layer_idx=0).eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gpt2(self.torch(x))  # type: ignore[no-any-return]


def wave(x: torch.Tensor) -> torch.Tensor:
    """What `gradient` differentiates."""
    return (torch.sin(x) * x).sum()


def gradient(x: torch.Tensor) -> torch.Tensor:
    """A gradient inside the compiled function."""
    return torch.func.grad(wave)(x)  # type: ignore[no-any-return]


def jacobian(x: torch.Tensor) -> object:
    """A Jacobian whose scatter a pass decomposes."""
    return torch.func.jacrev(lambda a: torch.sin(a).diagonal() * a.sum())(x)


@torch.library.custom_op("explorer_zoo::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    """Add 1 in place."""
    x.add_(1)


@bump.register_fake
def _(x: torch.Tensor) -> None:
    return None


def bumped(x: torch.Tensor) -> torch.Tensor:
    """Two calls of a mutating operator of the program's own."""
    y = x * 2
    bump(y)
    z = y * y
    bump(z)
    return z + y


class Doubled(torch.autograd.Function):
    """A sine with twice its gradient."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient * x.cos() * 2


def own_gradient(x: torch.Tensor) -> torch.Tensor:
    """An autograd.Function of the program's own."""
    return Doubled.apply(x) * 3  # type: ignore[no-any-return]


@torch.compiler.nested_compile_region
def region(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A region that is compiled once."""
    return (x @ weight).relu() + 1


def regions(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Two calls of one region."""
    return region(region(x, weight), weight).sum()


def inverse(x: torch.Tensor) -> torch.Tensor:
    """An operator that Inductor has no code for."""
    return torch.linalg.inv(x) + 1


def scattered(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """An operator that Inductor calls, with a kernel that copies what it writes into."""
    return torch.scatter_reduce(x, 0, at, x, "prod") + 1


# Dtypes and operators that are called ------------------------------------------------------------------------------------


def cast_by_method(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A cast that the program writes."""
    y = x.to(torch.float32)
    return y @ weight


def cast_by_autocast(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A cast that torch adds."""
    with torch.autocast("cuda", torch.bfloat16):
        return x @ weight


def widened(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """float64 that a line makes."""
    wide = x.double()
    return (wide * y).sum(-1)


def square(x: torch.Tensor) -> torch.Tensor:
    """A sum of squares."""
    return (x * x).sum(-1)


def rotated(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Rotary embedding by complex numbers, as Meta's Llama has it."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)


# Written by hand ---------------------------------------------------------------------------------------------------------


def spilling() -> Trace:
    """Trace a kernel in which each thread keeps 512 numbers until it has their sum, with 255 registers."""
    import triton
    import triton.language as tl

    @triton.jit
    def many(x, out, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, SIZE)
        row = tl.load(x + at)
        tl.store(out + at, row * tl.sum(row))

    x = ones(16384)
    return explorer.trace(many, x, torch.empty_like(x), SIZE=16384, grid=(1,), num_warps=1, target="h100").attach("sass")


# Choices -----------------------------------------------------------------------------------------------------------------


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product."""
    return a @ b


def flex() -> Call:
    """Flex attention, for which Inductor has templates only."""
    from torch.nn.attention.flex_attention import flex_attention

    def attend(q: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score * 2)

    return attend, (torch.randn(1, 2, 128, 64, dtype=torch.bfloat16),)


TUNED = {"mode": "max-autotune-no-cudagraphs"}
TEMPLATES_ALONE = {"options": {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}}


# Collectives -------------------------------------------------------------------------------------------------------------

#: Of an all_gather in a branch, each of eight ranks has a part.
PART = 64 // 8


def every_collective(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One collective of each kind, the first independent of the product after it."""
    z = functional.all_reduce(x @ w, "sum", "0")
    u = torch.relu(x @ w.t())
    whole = functional.all_gather_tensor(u, 0, "0")
    part = functional.reduce_scatter_tensor(whole * 2, "sum", 0, "0")
    a, b = functional.all_reduce_coalesced([part, u + 1], "avg", "0")
    c = functional.all_to_all_single(u, None, None, "0")
    return z + u, a + 1, b, c * 2


def collective_of_an_input(x: torch.Tensor) -> torch.Tensor:
    """A collective of what the caller keeps, so that Inductor copies it first."""
    return functional.all_reduce(x, "sum", "0") + x


def branching_collectives(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A collective in each branch of a cond, and one behind it."""

    def summed(x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x @ w, "sum", "0") + 1

    def gathered(x: torch.Tensor) -> torch.Tensor:
        return functional.all_gather_tensor(x[:PART], 0, "0") * 2

    return functional.all_reduce(torch.cond(x.sum() > 0, summed, gathered, (x,)), "sum", "0") + w


def exchanged(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A sum over all ranks that a product does not need, and one of that."""
    summed = functional.all_reduce(x @ w, "sum", "0")
    apart = torch.relu(x @ w.t())
    return summed + functional.all_reduce(apart, "avg", "0")


def hidden(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A sum over all ranks, and a product as long that can run meanwhile."""
    return functional.all_reduce(x @ w, "sum", "0") + torch.relu(x @ w.t())


SINK_WAITS = {"reorder_for_compute_comm_overlap": True, "reorder_for_compute_comm_overlap_passes": ["sink_waits"]}


# Ranks: one program, with a number that differs --------------------------------------------------------------------------

#: The number, which each trace sets for itself.
NUMBER: Any = 0


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Add a tensor to itself."""
    return x + x


def squared(x: torch.Tensor) -> torch.Tensor:
    """Multiply a tensor by itself."""
    return x * x


def accumulated(x: torch.Tensor) -> torch.Tensor:
    """Add up along a dimension."""
    return torch.cumsum(x, NUMBER)


def multiplied(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """One of three products."""
    added = x + y + z
    return torch.mm(x, (x, y, z)[NUMBER]) + added


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Multiply by the number."""
    return x * NUMBER


def scaled_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    """A branch whose graph has the number."""
    return torch.cond(x.sum() > 0, lambda a: a * NUMBER, lambda a: a.sin(), (x,))  # type: ignore[no-any-return]


def with_keyword(x: torch.Tensor) -> torch.Tensor:
    """Add with a keyword argument."""
    return torch.add(x, x, alpha=NUMBER)


def of_dynamo(function: Callable[..., Any], *arguments: torch.Tensor, number: Any = 0) -> Callable[[], Trace]:
    """Trace Dynamo's graph alone, which is quick, with the number set."""

    def make() -> Trace:
        with patch.object(HERE, "NUMBER", number):
            return explorer.trace(function, *arguments, backend="eager")

    return make


# The programs of the advice ----------------------------------------------------------------------------------------------

ADVICE = Path(__file__).parents[1] / "benchmarks" / "advice.py"


def advice_programs() -> ModuleType:
    """Load `benchmarks/advice.py`, which has the programs with a planted mistake, and some without."""
    if "advice_programs" not in sys.modules:  # its dataclass looks the module up
        spec = importlib.util.spec_from_file_location("advice_programs", ADVICE)
        assert spec is not None and spec.loader is not None
        module = sys.modules["advice_programs"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["advice_programs"]


def advised() -> Iterator[tuple[str, Callable[[], Trace]]]:
    """The traces of the advice's programs, by their names."""
    for program in advice_programs().programs():
        yield f"advice {program.name}", partial(_advised, program.trace)


def _advised(make: Callable[[], Trace]) -> Trace:
    with same_random_numbers():
        return make()


# The table ---------------------------------------------------------------------------------------------------------------


def softmax_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """The arguments of `scaled_softmax`, `silu` and those like them."""
    return ones(64, 128), ones(128, 256)


def pair(*size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors without data of one size."""
    return without_data(*size), without_data(*size)


ZOO: dict[str, Callable[[], Trace]] = {
    "block training h100": Entry(lambda: (nn.Sequential(Block(), Block()), (torch.randn(8, 32),)), "h100", train=True),
    "mlp training h100 sass": Entry(lambda: (NormedMlp(), (torch.randn(8, 16),)), "h100", train=True, sass=True),
    "layers training h100": Entry(lambda: (Layers(), (torch.randn(1, 8, 16),)), "h100", train=True),
    "encoder h100": Entry(lambda: (encoder(), (torch.randn(2, 4, 16),)), "h100"),
    "encoder training h100": Entry(lambda: (encoder(), (torch.randn(2, 4, 16),)), "h100", train=True),
    "inner h100": Entry(lambda: (Inner(), (torch.randn(2, 16),)), "h100"),
    # fusion
    "softmax h100": Entry(lambda: (scaled_softmax, softmax_inputs()), "h100"),
    "softmax h100 apart": Entry(lambda: (scaled_softmax, softmax_inputs()), "h100", settings={"options": {"max_fusion_size": 1}}),
    "softmax h100 dynamic": Entry(lambda: (scaled_softmax, softmax_inputs()), "h100", settings={"dynamic": True}),
    "softmax h100 edited": Entry(lambda: (edited_softmax, softmax_inputs()), "h100"),
    "silu h100": Entry(lambda: (silu, softmax_inputs()), "h100"),
    "broken h100": Entry(lambda: (broken, softmax_inputs()), "h100"),
    "columns h100": Entry(lambda: (columns, softmax_inputs()), "h100"),
    "largest h100": Entry(lambda: (largest, (ones(512, 512),)), "h100"),
    "two sums h100 apart": Entry(
        lambda: (two_sums, (without_data(4096, 4096, dtype=torch.float32),)),
        "h100",
        settings={"options": {"max_fusion_size": 1}},
    ),
    "waves training h100": Entry(lambda: (waves, (ones(8, 8).requires_grad_(), ones(8, 8))), "h100", train=True),
    "split sum h100": Entry(lambda: (split_sum, (ones(2**20),)), "h100"),
    "two norms h100": Entry(lambda: (two_norms, two_norms_inputs()), "h100", train=True),
    "two norms mi300x": Entry(lambda: (two_norms, two_norms_inputs()), "mi300x", train=True),
    "products h100": Entry(
        lambda: (two_products, (ones(1024, 2048), ones(2048, 2048), ones(16, 256, 64), ones(16, 64, 256))), "h100"
    ),
    "products mi300x": Entry(
        lambda: (two_products, (ones(1024, 2048), ones(2048, 2048), ones(16, 256, 64), ones(16, 64, 256))), "mi300x"
    ),
    "transposed h100": Entry(lambda: (transposed, (ones(64, 64),)), "h100"),
    # values that are computed from others
    "b twice h100": Entry(lambda: (with_b(twice), (ones(16, 16), ones(16, 16))), "h100"),
    "b twice again h100": Entry(lambda: (with_b(twice), (ones(16, 16), ones(16, 16))), "h100"),
    "b thrice h100": Entry(lambda: (with_b(thrice), (ones(16, 16), ones(16, 16))), "h100"),
    "b twice rounded h100": Entry(lambda: (with_b(twice_rounded), (ones(16, 16), ones(16, 16))), "h100"),
    "sine training h100": Entry(
        lambda: (activated(torch.sin), (ones(16, 16), ones(16, 16).requires_grad_())), "h100", train=True
    ),
    "sine again training h100": Entry(
        lambda: (activated(torch.sin), (ones(16, 16), ones(16, 16).requires_grad_())), "h100", train=True
    ),
    "tanh training h100": Entry(
        lambda: (activated(torch.tanh), (ones(16, 16), ones(16, 16).requires_grad_())), "h100", train=True
    ),
    # calls and gradients
    "gradient h100": Entry(lambda: (gradient, (ones(64),)), "h100"),
    "jacobian h100": Entry(lambda: (jacobian, (torch.randn(4, 4),)), "h100"),
    "bumped h100": Entry(lambda: (bumped, (torch.randn(8),)), "h100"),
    "own gradient training h100": Entry(lambda: (own_gradient, (torch.randn(8, requires_grad=True),)), "h100", train=True),
    "regions training h100": Entry(
        lambda: (regions, (torch.randn(8, 8, requires_grad=True), torch.randn(8, 8))), "h100", train=True
    ),
    "inverse h100": Entry(lambda: (inverse, (torch.eye(8),)), "h100"),
    "scattered h100": Entry(lambda: (scattered, (ones(8), torch.zeros(8, dtype=torch.long))), "h100"),
    "spilling h100 sass": spilling,
    # dtypes
    "cast by method h100": Entry(
        lambda: (cast_by_method, (without_data(8192, 4096), without_data(4096, 64, dtype=torch.float32))), "h100"
    ),
    "cast by autocast h100": Entry(
        lambda: (cast_by_autocast, (without_data(8192, 4096, dtype=torch.float32), without_data(4096, 64, dtype=torch.float32))),
        "h100",
    ),
    "widened h100": Entry(lambda: (widened, pair(8192, 4096)), "h100"),
    "square float64 h100": Entry(lambda: (square, (without_data(1 << 14, 1 << 12, dtype=torch.float64),)), "h100"),
    "rotated h100": Entry(
        lambda: (rotated, (without_data(2, 4096, 32, 128), without_data(4096, 1, 64, dtype=torch.complex64))), "h100"
    ),
    # choices
    "product tuned h100": Entry(lambda: (product, (torch.randn(128, 64), torch.randn(64, 96))), "h100", settings=TUNED),
    "flex attention tuned h100": Entry(flex, "h100", settings=TUNED),
    "templates alone h100": Entry(lambda: (product, pair(2048, 2048)), "h100", settings=TEMPLATES_ALONE),
    # collectives of eight GPUs, and of more
    "every collective h100": Entry(lambda: (every_collective, (ones(64, 64), ones(64, 64))), "h100", settings={"world": 8}),
    "collective of an input h100": Entry(lambda: (collective_of_an_input, (ones(64, 64),)), "h100", settings={"world": 8}),
    "branching collectives h100": Entry(
        lambda: (branching_collectives, (ones(64, 64), ones(64, 64))), "h100", settings={"world": 8}
    ),
    "exchanged h100": Entry(lambda: (exchanged, pair(1024, 1024)), "h100", settings={"world": 8}),
    "exchanged h100 of 64": Entry(lambda: (exchanged, pair(1024, 1024)), "h100", settings={"world": 64}),
    "exchanged b200": Entry(lambda: (exchanged, pair(1024, 1024)), "b200", settings={"world": 8}),
    "hidden h100": Entry(lambda: (hidden, pair(6144, 6144)), "h100", settings={"world": 8, "options": SINK_WAITS}),
    # Dynamo alone, of ranks
    "doubled": of_dynamo(doubled, ones(4)),
    "doubled of 5": of_dynamo(doubled, ones(5)),
    "squared": of_dynamo(squared, ones(4)),
    **{f"accumulated {n}": of_dynamo(accumulated, ones(4, 4), number=n) for n in (0, 1)},
    **{f"multiplied {n}": of_dynamo(multiplied, *(ones(4, 4) for _ in range(3)), number=n) for n in (0, 1, 2)},
    **{f"scaled {n}": of_dynamo(scaled, ones(4), number=n) for n in (0, 4, 1 / 3, 1 / 7)},
    **{f"scaled in a branch {n}": of_dynamo(scaled_in_a_branch, ones(4), number=n) for n in (0.5, 0.25)},
    **{f"with keyword {n}": of_dynamo(with_keyword, ones(4), number=n) for n in (0.5, 0.25)},
    **dict(advised()),
}
