"""Compare the parts of a warm call with the measured call, and the part that `advise()` names with a planted cost.

    python benchmarks/call_cost.py                      12 programs on this CPU, then six planted costs
    python benchmarks/call_cost.py --repeats 5 --only "300 guards"
    python benchmarks/call_cost.py --device cuda        the same on an attached GPU, and with CUDA graphs

Each program is traced, and `t.live.cost()` is asked several times; the figures are medians. "parts" is the sum of all parts but
"not attributed", as a ratio to the call. A planted cost is a program whose time goes mostly to one known part.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import explorer

REST = "not attributed"


@dataclass(frozen=True)
class Program:
    """A function with its arguments. `planted` is the kind of verdict that it should get; "" for none in particular."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    planted: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)


class Square(torch.autograd.Function):
    """A square with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        """Twice the input."""
        return 2 * ctx.saved_tensors[0] * grads[0]


class Attributes(torch.nn.Module):
    """A module that reads many of its attributes."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        for n in range(count):
            setattr(self, f"a{n}", float(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add them all."""
        for n in range(self.count):
            x = x + getattr(self, f"a{n}")
        return x


def deep(module: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what calls a module."""
    return lambda x: module(x)


def with_breaks(x: torch.Tensor) -> torch.Tensor:
    """Break the graph after each of a few small steps."""
    for _ in range(4):
        x = x.sin()
        torch._dynamo.graph_break()
    return x


def summed(x: torch.Tensor, lists: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """Add up the tensors of a list of dicts."""
    return x + sum(each["a"] * each["b"] for each in lists)


def many_outputs(x: torch.Tensor) -> list[torch.Tensor]:
    """Return 64 tensors."""
    return [x + n for n in range(64)]


def added(x: torch.Tensor, numbers: dict[str, int]) -> torch.Tensor:
    """Add up the numbers of a dict."""
    for name in numbers:
        x = x + numbers[name]
    return x


def sizes() -> Callable[[], torch.Tensor]:
    """Return what calls one compiled function with eight sizes, so that it has eight cache entries, or meets the limit."""
    step = torch.compile(lambda x: x.sin() + x.shape[0], dynamic=False)
    inputs = [torch.randn(n + 2) for n in range(8)]

    def called() -> torch.Tensor:
        return torch.stack([step(x).sum() for x in inputs])

    return torch.compiler.disable(called)


def from_outside(function: Callable[[], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a program that calls a function which is compiled by itself."""
    return lambda x: x.cos() + function().sum()


def programs(device: str) -> Iterator[Program]:
    """The 12 programs, and on a GPU one whose kernels are launched by CUDA graphs."""
    torch.manual_seed(0)
    linears = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(24)))
    block = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    small, large = torch.randn(8), torch.randn(1024, 1024)
    tensors = [{"a": torch.randn(8), "b": torch.randn(8)} for _ in range(32)]
    numbers = {f"k{n}": n for n in range(300)}
    yield Program("24 small linears", deep(linears), (torch.randn(4, 8),))
    yield Program("transformer block", block, (torch.randn(2, 16, 64),), settings={"train": True})
    yield Program("300 guards", added, (small, numbers))
    yield Program("dynamic shapes", lambda x: (x @ x.T).softmax(-1), (torch.randn(32, 16),), settings={"dynamic": True})
    yield Program("many cache entries", from_outside(sizes()), (small,))
    yield Program("graph breaks", with_breaks, (small,))
    yield Program("after the recompile limit", from_outside(sizes()), (small,), config={"recompile_limit": 2})
    yield Program("large matmul", torch.mm, (large, large))
    yield Program("custom autograd function", Square.apply, (small.clone().requires_grad_(),), settings={"train": True})
    yield Program("many outputs", many_outputs, (small,))
    yield Program("module with 200 attributes", Attributes(200), (small,))
    yield Program("list of dicts", summed, (small, tensors))
    if device == "cuda":
        yield Program("CUDA graphs", deep(linears), (torch.randn(4, 8),), settings={"mode": "reduce-overhead"})


def planted() -> Iterator[Program]:
    """Six programs whose dominant part is known."""
    torch.manual_seed(0)
    small, large = torch.randn(8), torch.randn(1024, 1024)
    linears = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(24)))
    tensors = [torch.randn(8) for _ in range(400)]
    yield Program("many short kernel calls", deep(linears), (torch.randn(4, 8),), "launch bound")
    yield Program("a small function", torch.sin, (small,), "Dynamo")
    yield Program("graph breaks", with_breaks, (small,), "Dynamo")
    yield Program("after the recompile limit", from_outside(sizes()), (small,), "Dynamo", config={"recompile_limit": 2})
    yield Program("400 tensors in a list", lambda xs: [x + 1 for x in xs[:1]] + [x.numel() for x in xs], (tensors,), "guards")
    yield Program("kernels alone", torch.mm, (large, large), "")


def measured(program: Program, repeats: int) -> tuple[dict[str, float], float, float, str]:
    """Trace a program and return the median seconds of its parts, of its call, of eager mode, and the first verdict's kind."""
    torch.compiler.reset()
    with torch._dynamo.config.patch(program.config):
        trace = explorer.trace(program.function, *program.args, **program.settings)
        tables = [trace.live.cost() for _ in range(repeats)]
    parts: dict[str, list[float]] = {}
    for table in tables:
        for row in table:
            if row["kind"] == "part":
                parts.setdefault(row["part"], []).append(row["seconds"] / table[0]["seconds"])
    call, eager = (statistics.median(table[n]["seconds"] for table in tables) for n in (0, 1))
    kinds = {"guards", "cache entries", "Dynamo", "AOTAutograd's wrappers", "output code", "launch bound"}
    named = [verdict.kind for verdict in trace.attach(tables[-1]).advise() if verdict.kind in kinds]
    return {name: statistics.median(shares) for name, shares in parts.items()}, call, eager, named[0] if named else ""


def main() -> None:
    """Print a row for each program, then one for each planted cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="the name of one program")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where the tensors are")
    options = parser.parse_args()
    with torch.device(options.device):
        costs, faults = list(programs(options.device)), list(planted())
    print("| program | call µs | eager µs | parts / call | the three largest parts |")
    print("| --- | --- | --- | --- | --- |")
    for program in costs:
        if options.only in ("", program.name):
            parts, call, eager, _ = measured(program, options.repeats)
            largest = sorted((name for name in parts if name != REST), key=lambda name: -parts[name])[:3]
            words = ", ".join(f"{name} {parts[name]:.0%}" for name in largest)
            print(f"| {program.name} | {call * 1e6:.1f} | {eager * 1e6:.1f} | {1 - parts[REST]:.3f} | {words} |", flush=True)
    print("\n| planted | expected | named |\n| --- | --- | --- |")
    for program in faults:
        if options.only in ("", program.name):
            named = measured(program, options.repeats)[3]
            print(f"| {program.name} | {program.planted or 'none'} | {named or 'none'} |", flush=True)


if __name__ == "__main__":
    main()
