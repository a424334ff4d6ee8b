"""Plant causes of numerical drift in small programs: does `t.drift()` name them, and nothing where none is planted?

    python benchmarks/drift.py [--target NAME] [--only WORD …]

Sixteen programs: eleven have a cause that is known, five have none. By default the kernels are those of an H100, interpreted.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import explorer

HALF = torch.bfloat16
FUSION = "fusion keeps intermediates in float32"


def cast_between(x: Any, w: Any, v: Any) -> Any:
    """One matrix product of three is in bfloat16."""
    hidden = torch.relu(x @ w)
    narrow = hidden.to(torch.bfloat16)
    return narrow.float() @ v


def running_sum(rows: Any) -> Any:
    """A sum of 150 equal numbers is kept in bfloat16: beside the sum they have few digits."""
    total = torch.zeros_like(rows[0])
    for row in rows:
        total = total + row
    return total


def large_sum(x: Any) -> Any:
    """A million numbers are added up in float16, whose largest number is 65504."""
    scaled = x * 0.5
    return scaled.sum() / x.numel()


def bare_softmax(x: Any) -> Any:
    """The largest number is not subtracted before exp."""
    weights = torch.exp(x)
    return weights / weights.sum(-1, keepdim=True)


def twice_rounded(x: Any, y: Any) -> Any:
    """Eager rounds to bfloat16 after each operator, a fused kernel once."""
    moved = x + y
    moved = moved * 1.01
    moved = moved + y
    moved = moved * 0.99
    moved = moved + x
    return moved * 1.02


def one_pass_variance(x: Any) -> Any:
    """The variance as the mean of the squares less the square of the mean."""
    mean = x.mean(-1)
    squares = (x * x).mean(-1)
    return squares - mean * mean


def there_and_back(a: Any, b: Any) -> Any:
    """A large number is added and subtracted."""
    shifted = a + b
    return shifted - a


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attention in bfloat16, by a fused kernel."""
    return F.scaled_dot_product_attention(q, k, v)


def small_expm1(x: Any) -> Any:
    """Expm1 of small numbers, which a user decomposes into exp(x) - 1."""
    return torch.expm1(x) * 2


@torch.library.custom_op("drift_benchmark::by_batch", mutates_args=())
def by_batch(x: torch.Tensor) -> torch.Tensor:
    """A row's sum, in another order for a single row, as a library chooses another kernel for it."""
    return x[:, ::2].sum(-1) + x[:, 1::2].sum(-1) if x.shape[0] == 1 else x.sum(-1)


@by_batch.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[:1])


@torch.library.custom_op("drift_benchmark::by_chance", mutates_args=())
def by_chance(x: torch.Tensor) -> torch.Tensor:
    """A sum whose order is drawn anew in each call, as atomics of a GPU add."""
    order = torch.tensor(sorted(range(x.shape[-1]), key=lambda _: os.urandom(4)))
    return x[:, order].sum(-1)


@by_chance.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[:1])


def batch_dependent(x: Any) -> Any:
    """The order of the sum depends on the size of the batch."""
    centred = x - 0.5
    return by_batch(centred) * 2


def chance_dependent(x: Any) -> Any:
    """The order of the sum depends on chance."""
    centred = x - 0.5
    return by_chance(centred) * 2


def biased_attention() -> tuple[Any, ...]:
    """All keys but the first have weights just above a half, which the fused kernel rounds to a half."""
    q, k = torch.zeros(1, 1, 512, 32, dtype=HALF), torch.zeros(1, 1, 512, 32, dtype=HALF)
    q[..., 0], k[..., 0, 0] = 1, 3.9
    return q, k, torch.rand(1, 1, 512, 32, dtype=HALF)


@contextmanager
def decomposed_expm1() -> Iterator[None]:
    """Register a decomposition of expm1 that cancels for small numbers."""
    from torch._inductor import decomposition

    operator = torch.ops.aten.expm1.default
    decomposition.decompositions[operator] = lambda x: torch.exp(x) - 1
    decomposition.fast_random_decomps.cache_clear()
    try:
        yield
    finally:
        del decomposition.decompositions[operator]
        decomposition.fast_random_decomps.cache_clear()


@dataclass(frozen=True)
class Planted:
    """A program, what must be said of it, and the code of the line that must be named with it; "" for none.

    `cause` is the beginning of a cause, or a question whose answer must be no. `also` are causes that are true as well.
    """

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    cause: str = ""
    code: str = ""
    also: tuple[str, ...] = ()
    within: Callable[[], Any] = nullcontext
    train: bool = False


PROGRAMS = (
    Planted(
        "one cast to bfloat16",
        cast_between,
        lambda: (torch.randn(32, 64), torch.randn(64, 64), torch.randn(64, 16)),
        "cast to bfloat16",
        "narrow = hidden.to(torch.bfloat16)",
        (FUSION,),
    ),
    Planted(
        "a running sum in bfloat16",
        running_sum,
        lambda: (torch.full((150, 64), 0.11, dtype=HALF),),
        "roundings to bfloat16",
        "total = total + row",
        (FUSION,),
    ),
    Planted(
        "a sum of a million in float16",
        large_sum,
        lambda: (torch.rand(1_000_000, dtype=torch.float16),),
        "float16 overflows",
        "return scaled.sum() / x.numel()",
        (FUSION, "the decomposition"),
    ),
    Planted(
        "softmax without the maximum",
        bare_softmax,
        lambda: (torch.randn(8, 64, dtype=torch.float16) * 8,),
        "float16 overflows",
        "weights = torch.exp(x)",
        (FUSION,),
    ),
    Planted(
        "rounded once, not six times",
        twice_rounded,
        lambda: (torch.randn(64, 64, dtype=HALF), torch.randn(64, 64, dtype=HALF)),
        FUSION,
    ),
    Planted(
        "a variance in one pass",
        one_pass_variance,
        lambda: (torch.randn(16, 512) + 1000,),
        "cancellation",
        "return squares - mean * mean",
    ),
    Planted(
        "a large number and back",
        there_and_back,
        lambda: (torch.full((256,), 1e6), torch.rand(256)),
        "cancellation",
        "return shifted - a",
    ),
    Planted(
        "fused attention",
        attention,
        biased_attention,
        "fused attention",
    ),
    Planted(
        "a registered decomposition",
        small_expm1,
        lambda: (torch.rand(64, 64) * 1e-4,),
        "the decomposition of aten.expm1.default",
        within=decomposed_expm1,
    ),
    Planted(
        "a kernel by the batch",
        batch_dependent,
        lambda: (torch.rand(8, 1000),),
        "batch of 1",
        "return by_batch(centred) * 2",
    ),
    Planted(
        "a kernel by chance",
        chance_dependent,
        lambda: (torch.rand(8, 1000),),
        "run to run",
        "return by_chance(centred) * 2",
    ),
    Planted("pointwise", lambda x: torch.sigmoid(x) * x + 1, lambda: (torch.randn(64, 64),)),
    Planted("softmax", lambda x: torch.softmax(x, -1), lambda: (torch.randn(16, 256),)),
    Planted("layer norm and gelu", lambda x: F.gelu(F.layer_norm(x, (64,))), lambda: (torch.randn(32, 64),), train=True),
    Planted(
        "two layers", nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), lambda: (torch.randn(16, 64),), train=True
    ),
    Planted(
        "a bfloat16 layer", lambda x, w: F.silu(x @ w), lambda: (torch.randn(16, 64, dtype=HALF), torch.randn(64, 64, dtype=HALF))
    ),
)
#: Programs whose first row may have other bits alone: a library chooses its kernel by the batch.
QUESTIONS = ("batch of 1", "run to run")


def said(drift: Any) -> list[tuple[str, str]]:
    """List what was said: causes with the code of their lines, and questions whose answer is no."""
    causes = [(str(row["cause"]), str(row["code"])) for row in drift.causes]
    return [*causes, *((str(row["question"]), str(row["code"])) for row in drift.questions if row["equal"] is False)]


def verdict(program: Planted, drift: Any) -> str:
    """Say whether the planted cause was named with its line, and nothing else that is not true."""
    words = said(drift)
    hit = any(cause.startswith(program.cause) and program.code in ("", code) for cause, code in words)
    standing = [row for row in drift.table if row["stands_out"]]
    if not program.cause:
        false = standing or any(cause not in (FUSION, "batch of 1") for cause, _ in words)
        return "FALSE" if false else "right"
    others = [c for c, _ in words if not c.startswith((program.cause, *program.also)) and c not in QUESTIONS]
    return "MISSED" if not hit else "FALSE BESIDE IT" if others else "found"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each program, and the totals."""
    parser = argparse.ArgumentParser(description="Find planted causes of numerical drift.")
    parser.add_argument("--only", nargs="*", default=(), help="the names of the programs to try")
    parser.add_argument("--target", default="h100", help="whose kernels are compared")
    given = parser.parse_args(arguments)
    write = sys.stdout.write
    write("| program | planted | drift() | says | eager | compiled | seconds |\n| --- | --- | --- | --- | --- | --- | --- |\n")
    verdicts: list[str] = []
    for program in PROGRAMS:
        if given.only and program.name not in given.only:
            continue
        torch.manual_seed(0)
        torch._dynamo.reset()
        inputs = [x.requires_grad_(program.train and x.is_floating_point()) for x in program.inputs()]
        with program.within():
            trace = explorer.trace(program.function, *inputs, target=given.target, train=program.train)
            began = time.perf_counter()
            drift = trace.drift()
        verdicts.append(verdict(program, drift))
        words = "; ".join(dict.fromkeys(f"{cause} ({code})" if code else cause for cause, code in said(drift))) or "nothing"
        eager, compiled = (max((row[c] for row in drift.results if row[c] is not None), default=math.nan) for c in ERRORS)
        seconds = time.perf_counter() - began
        planted = program.cause or "nothing"
        write(f"| {program.name} | {planted} | {verdicts[-1]} | {words} | {eager:.2g} | {compiled:.2g} | {seconds:.1f} |\n")
        sys.stdout.flush()
    counted = {word: verdicts.count(word) for word in ("found", "MISSED", "FALSE BESIDE IT", "right", "FALSE")}
    write(f"\n{len(verdicts)} programs: {', '.join(f'{count} {word}' for word, count in counted.items())}\n")


#: The columns of `Drift.results` with errors.
ERRORS = ("eager_error", "compiled_error")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
