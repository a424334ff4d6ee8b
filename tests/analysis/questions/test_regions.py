"""A region that is compiled once and invoked several times: what it launches counts once for each run of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import explorer
from explorer.analysis.questions.costs import kernel_rows
from explorer.analysis.questions.figures import figures
from explorer.stages.fx_graph import runs_inside
from explorer.tracing.traced import Trace

pytest.importorskip("triton")
pytestmark = pytest.mark.compile


class Block(nn.Module):
    """A layer norm and a linear layer, compiled as one region for all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 64)

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x)
        return x + torch.relu(self.up(normal))


class Blocks(nn.Module):
    """Three such layers."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.sum(-1)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The three layers on a named GPU: the wrapper calls one function of it three times."""
    return explorer.trace(Blocks(), torch.randn(32, 64), target="h100")


def test_what_a_region_launches_counts_for_each_run(trace: Trace) -> None:
    """The text has 3 kernels and 1 product; a call launches two of them and the product 3 times, as the wrapper's calls say."""
    (wrapper,) = trace.find("output_code")
    assert wrapper.text.count("= repeated_subgraph0(") == 3
    assert wrapper.text.count("extern_kernels.mm(") == 1
    assert "7 kernel launches and 3 library calls" in " ".join(repr(trace).split())  # it is wrapped
    launches = {row["kernel"]: row["launches"] for row in kernel_rows(trace)}
    assert sorted(launches.values()) == [1, 3, 3]
    said = {kernel.name for kernel in trace.kernels if ", compiled once, used 3 times;" in repr(kernel)}
    assert said == {name for name, number in launches.items() if number == 3}
    assert repr(trace.kernels).count("compiled once, used 3 times") == 2
    (product,) = trace.inductor.extern_calls
    assert (product["call"], product["launches"]) == ("extern_kernels.mm", 3)
    assert product["operations"] == 3 * 2 * 32 * 64 * 64
    assert figures(trace)["launches"] == 10


def test_the_call_of_a_region_costs_nothing_beside_what_it_launches(trace: Trace) -> None:
    """No row of the call's launches is the region itself, and the seconds of the rows are those of the two tables."""
    rows = trace.profile.launches
    assert len(rows) == 10
    assert {row["kernel"] for row in rows}.isdisjoint({"InvokeSubgraph"})
    tables = (*kernel_rows(trace), *trace.inductor.extern_calls)
    assert sum(row["seconds"] for row in rows) == pytest.approx(sum(row["seconds"] for row in tables))


def test_what_a_region_launches_has_its_operators_and_lines(trace: Trace) -> None:
    """The layer norm's kernel and the product inside the region are called by their operators, with their lines."""
    lines = {(row["what"], row["code"]) for row in trace.profile.launches}
    assert any(what.startswith("mm") and code == "return x + torch.relu(self.up(normal))" for what, code in lines)
    assert any("layer_norm" in what and code == "normal = self.norm(x)" for what, code in lines)


def test_a_graph_runs_as_often_as_nodes_invoke_it(trace: Trace) -> None:
    """The region runs three times, and a graph that nothing invokes as a region once."""
    (graph,) = trace.find("post_grad")
    assert runs_inside(graph, "repeated_subgraph0") == 3
    assert runs_inside(graph, "true_graph_0") == 1
