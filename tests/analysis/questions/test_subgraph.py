"""The eager subgraph of a kernel: held to what the kernel wrote of the arguments that it was launched with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import explorer
from explorer.analysis.questions.subgraph import NAMES, Subgraph, all_wrappers, graph_of, regions, subgraph, subgraphs
from explorer.capture.splice.launches import RecordedLaunch
from explorer.lab.live.protocol import needs_live
from explorer.tracing.traced import Trace
from tests.facts import untold

pytestmark = pytest.mark.compile  # the launches are of what was compiled


class Block(nn.Module):
    """A layer of a transformer without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.norm(functional.gelu(self.up(x)))).softmax(-1) + x


def views(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x.softmax(-1) * y).view(-1, 4).sum(0), x.t() + 1, x.shape[0] * y


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.sin(), y.cos()], 1).relu() @ y.t().repeat(2, 1)


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(12, 16), torch.randn(12, 16)


def recorded(trace: Trace) -> dict[tuple[str, int], RecordedLaunch]:
    """The launches of all kernels, each by its name and its number among those of that name."""
    live = needs_live(trace, "")
    names = [(w.file, k.name) for w in live.wrappers for k in trace.kernels if f"{k.name} = " in w.text]
    launches: dict[tuple[str, int], RecordedLaunch] = {}
    for launch in live.launches(names):
        launches[launch.kernel, sum(name == launch.kernel for name, _ in launches)] = launch
    return launches


def number_of(length: str, values: dict[str, int]) -> int:
    return int(eval(length, {}, values))


def value_at(port: Any, launch: RecordedLaunch, symbols: dict[str, int]) -> torch.Tensor:
    tensor = (launch.after if port.after else launch.before)[port.argument]
    shape = [number_of(length, symbols) for length in port.shape]
    return tensor.as_strided(shape, [number_of(step, symbols) for step in port.stride])


def holds(part: Subgraph, launches: dict[tuple[str, int], RecordedLaunch], symbols: dict[str, int]) -> int:
    """Compare what the code gives with what the kernels wrote; how many outputs were compared."""
    by_step = [launches[step.name, step.occurrence] for step in part.steps]
    inputs = [value_at(port, by_step[port.step], symbols).clone() for port in part.inputs]
    sizes = []
    for size in part.sizes:
        step, argument, dimension = size.sources[0]
        value = by_step[step].before[argument]
        sizes.append(value if dimension is None else value.shape[dimension])
    space: dict[str, Any] = {}
    exec(NAMES + part.code, space)
    outputs = [port for port in part.outputs if not port.why_not]
    for port, value in zip(outputs, space["eager"](*inputs, *sizes), strict=True):
        written = by_step[port.step].after[port.argument]
        shape = [number_of(length, symbols) for length in port.shape]
        written = written.as_strided(shape, [number_of(step, symbols) for step in port.stride])
        assert torch.allclose(written, value, atol=1e-5), (part.name, port)
    return len(outputs)


@pytest.mark.parametrize(
    ("make", "train", "target"),
    [
        (lambda: (Block(), (torch.randn(8, 16),)), True, "h100"),
        (lambda: (views, matrices()), False, "h100"),
        (lambda: (joined, matrices()), False, "h100"),
        (lambda: (views, matrices()), False, "cpu"),
        (lambda: (Block(), (torch.randn(8, 16),)), True, "cpu"),
    ],
    ids=["block", "views", "joined", "views in C++", "block in C++"],
)
def test_a_subgraph_computes_what_its_kernel_does(
    make: Callable[[], tuple[Any, tuple[Any, ...]]], train: bool, target: str
) -> None:
    """On the arguments of each launch the code gives what the kernel wrote, in forward and backward."""
    function, arguments = make()
    trace = explorer.trace(function, *arguments, train=train, target=target)
    launches = recorded(trace)
    compared = 0
    for wrapper in all_wrappers(trace):
        for part in regions(trace, wrapper):
            assert part.whole, (part.name, part.unmatched, part.unnamed)
            if not any(step.is_library for step in part.steps):
                compared += holds(part, launches, {})
    assert compared >= len(trace.kernels)


def test_a_dynamic_size_is_taken_from_the_launch() -> None:
    """A size that the graph computes with is an argument of the code, and comes from the launch's sizes or shapes."""
    trace = explorer.trace(views, *matrices(), dynamic=True, target="h100")
    launches = recorded(trace)
    (wrapper,) = all_wrappers(trace)
    parts = subgraphs(trace, wrapper)
    assert [size.symbol for part in parts for size in part.sizes] == ["s77"]
    assert sum(holds(part, launches, {"s77": 12, "s27": 16}) for part in parts) >= 4


def test_halves_of_a_split_reduction_are_taken_together() -> None:
    """Partial sums have no FX node: the kernel alone has no whole subgraph, together with the next it has."""
    trace = explorer.trace(lambda x: (x * 2).sum(), torch.randn(1 << 20), target="h100")
    (wrapper,) = all_wrappers(trace)
    first, second = subgraphs(trace, wrapper)
    assert len(first.unnamed) == 1 and not first.whole and not second.whole
    (both,) = regions(trace, wrapper)
    assert both.whole and [step.name for step in both.steps] == [first.steps[0].name, second.steps[0].name]
    assert both.nodes == ("mul", "sum_1")
    assert holds(both, recorded(trace), {}) == 1


def test_what_depends_on_random_numbers_is_not_compared() -> None:
    """An output that a kernel draws says so, and the others are computed without it."""
    trace = explorer.trace(lambda x: (functional.dropout(x, 0.5), x + 1), torch.randn(64), target="h100")
    (kernel,) = trace.kernels
    part = subgraph(trace, kernel.artifact)
    assert {port.node: bool(port.why_not) for port in part.outputs} == {"mul_1": True, "add": False}
    assert "random" not in part.code and holds(part, recorded(trace), {}) == 1


def test_a_launch_that_is_not_there_is_said_so() -> None:
    """The subgraph of a third launch, of a kernel with one, has no code and says why."""
    trace = explorer.trace(torch.sin, torch.randn(64), target="h100")
    part = subgraph(trace, trace.kernels[0].artifact, 2)
    assert not part.whole and not part.code and not untold(part.unmatched[0], "2", trace.kernels[0].name)
    assert graph_of(trace, trace.kernels[0].artifact).sites[0].arguments[0] == "arg0_1"
