"""Graphs inside a graph: shown with their nodes, followed through every round of passes, and never taken for the outer graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.observe.nested import inner_graphs
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact
from explorer.stages.fx_graph import node_lines
from explorer.tracing.traced import Trace
from explorer.view.payload import payload


def branches(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A cond inside a cond, with nodes of the same names in every graph."""

    def inner(y: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            y.mean() > 0,
            lambda z: z.sin() + 1,
            lambda z: z.cos() + 2,
            (y,),
        )

    def other(y: torch.Tensor) -> torch.Tensor:
        return y.exp() + 3

    return torch.cond(p.sum() > 0, inner, other, (x * 2,)) + 4


@pytest.fixture(scope="module")
def trace() -> Trace:
    return explorer.trace(branches, torch.ones(2), torch.randn(8), target="h100")


def source_lines(trace: Trace, artifact: Artifact, line: int) -> set[str]:
    """The user's lines that a line comes from, without the calls that led there."""
    rows = [row for row in trace.follow(artifact.id, line).where(stage="source") if "called from" not in row["route"]]
    return {artifact_of(trace, row["artifact"]).lines[n - 1].strip() for row in rows for n in row["lines"]}


@pytest.mark.compile
def test_nodes_of_graphs_inside_have_the_paths_of_their_graphs(trace: Trace) -> None:
    """Each node of each nested graph is there, under its path and linked to its line; also in the graph that is drawn."""
    (graph,) = trace.find("post_grad")
    sines = [n for n in graph.inner if n["target"] == "aten.sin.default"]
    assert [n["name"] for n in sines] == ["true_graph_0.true_graph_0.sin"]
    assert sines[0]["inputs"] == ("true_graph_0.true_graph_0.arg0_1",)
    lines = node_lines(graph)
    assert {n["name"] for n in graph.inner if n["op"] == "call_function"} <= set(lines)
    assert source_lines(trace, graph, lines["true_graph_0.true_graph_0.add"]) == {"lambda z: z.sin() + 1,"}
    assert source_lines(trace, graph, lines["true_graph_0.false_graph_0.add"]) == {"lambda z: z.cos() + 2,"}
    drawn = next(a["nodes"] for a in payload(trace)["artifacts"] if a["id"] == graph.id)
    at = drawn["name"].index
    assert at("true_graph_0.output") in drawn["inputs"][at("true_graph_0")]
    assert at("true_graph_0.true_graph_0.sin") in drawn["inputs"][at("true_graph_0.true_graph_0.add")]


@pytest.mark.compile
def test_a_pass_over_a_graph_inside_is_not_taken_for_one_of_the_outer_graph(
    trace: Trace, not_covered: Callable[[Trace], object]
) -> None:
    """Every graph here has an `add`; each leads to its own line in the rounds of passes, and says in its title whose it is."""
    inside = {a.data["of"]: a for a in trace.find("pre_grad") if a.data["of"]}
    assert len(inside) == 4 and all(a.title == f"Pre-grad graph of {of}" for of, a in inside.items())
    innermost = [a for of, a in inside.items() if "." in of]
    expected = {"lambda z: z.sin() + 1,", "lambda z: z.cos() + 2,"}
    assert {line for a in innermost for line in source_lines(trace, a, node_lines(a)["add"])} == expected
    assert not_covered(trace) == []


@pytest.mark.compile
def test_a_kernel_of_a_graph_inside_leads_to_its_branch(trace: Trace) -> None:
    """The kernel of the innermost branch comes from that branch's line."""
    kernel = next(k.artifact for k in trace.kernels if "tl_math.cos" in k.source)
    line = next(n for n, text in enumerate(kernel.lines, 1) if "tl_math.cos" in text)
    assert source_lines(trace, kernel, line) == {"lambda z: z.cos() + 2,"}


@pytest.mark.compile
def test_what_autograd_traced_in_a_checkpoint_is_linked_to_the_checkpoints_node() -> None:
    """A checkpoint's body is flattened into the joint graph, where a name of Dynamo's may stand for a node of either graph."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.utils.checkpoint.checkpoint(lambda z: self.one(z).sin(), x, use_reentrant=False)
            return self.two(y)

    made = explorer.trace(Two(), torch.randn(2, 4), target="h100", train=True)
    (joint,) = made.find("joint")
    before = made.find("pre_grad")[-1]
    lines, traced = node_lines(before), node_lines(joint)
    links = [link for link in made.links if (link.source, link.how) == (joint.id, "from_node")]
    ends = {n: link.target_lines for link in links for n in link.source_lines}
    assert ends[traced["addmm"]] == (lines["wrap_body_0.linear"],) and ends[traced["addmm_1"]] == (lines["linear"],)


def test_a_module_without_graphs_inside_has_no_paths() -> None:
    """A graph without others has none."""
    graph = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    assert inner_graphs(graph) == []


@pytest.mark.compile
def test_a_graph_that_a_pass_makes_is_linked_to_that_pass() -> None:
    """torch makes a loop of a map in its last round of passes: the loop's body has nodes that no earlier graph has."""
    from torch._higher_order_ops.map import map as mapped

    def f(xs: torch.Tensor) -> torch.Tensor:
        return mapped(lambda x: x.sin() + 1, xs)

    refused = explorer.trace(f, torch.randn(5, 4), target="h100")
    assert "torch._dynamo.config.capture_scalar_outputs = True" in refused.failures[0].message
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        made = explorer.trace(f, torch.randn(5, 4), target="h100")
    (graph,) = made.find("post_grad")
    line = next(number for name, number in node_lines(graph).items() if name.endswith("_local_scalar_dense"))
    assert "made by" in {how for row in made.follow(graph.id, line).where(stage="fx_pass") for how in row["route"]}
    assert source_lines(made, graph, line) == {"return mapped(lambda x: x.sin() + 1, xs)"}
