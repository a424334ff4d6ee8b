"""What is recorded of passes, patterns and buffers, held to the texts that show the same."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.fx_passes.group_batch_fusion import group_batch_fusion_passes

import explorer
from explorer.capture.observe.passes import user_name
from explorer.model.trace_data import artifact_of
from explorer.model.values import jsonable
from explorer.sources.files.upgrades import upgraded
from explorer.tracing.traced import Trace

pytest.importorskip("triton")

pytestmark = pytest.mark.compile


@pytest.fixture(scope="module")
def trace() -> Trace:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(torch.softmax(x @ w, -1).permute(1, 0).permute(1, 0), 0.5).sum(0)

    return explorer.trace(function, torch.randn(8, 8), torch.randn(8, 8, requires_grad=True), target="h100", train=True)


def test_the_nodes_of_each_pass_are_those_of_its_lines(trace: Trace) -> None:
    """Each line but the output's has the name and the target that are recorded for it."""
    passes = trace.find("fx_pass")
    assert len(passes) > 2
    for a in passes:
        lines = [line for line in a.lines if not line.startswith("output = output ")]
        assert len(lines) == len(a.data["names"]) == len(a.data["targets"])
        for line, name, target in zip(lines, a.data["names"], a.data["targets"], strict=True):
            assert line.startswith(f"{name} = ") and f"{target}(" in line


def test_what_is_recorded_is_what_the_texts_say(trace: Trace) -> None:
    """What is recorded now is what would be read from the texts of a recording of format 1."""
    for stage, keys in (("fx_pass", ("names", "targets")), ("pattern_match", ("matched_targets", "made_targets"))):
        assert trace.find(stage)
        for a in trace.find(stage):
            older = upgraded("event", stage, {**a.data, "text": a.text}, 1)
            assert {key: tuple(older[key]) for key in keys} == {key: tuple(a.data[key]) for key in keys}
    (a, *_) = trace.find("ir_post_fusion")
    older = upgraded("event", "ir_post_fusion", {**a.data, "text": a.text}, 1)
    layouts = [jsonable(node["layouts"]) for node in a.nodes]
    assert any(layouts) and [jsonable(node["layouts"]) for node in older["nodes"]] == layouts


def test_a_pattern_says_in_which_round_it_fired(trace: Trace) -> None:
    """Patterns of the joint graph fire before Inductor is handed a graph, those of post-grad after it."""
    sections = {a.data["section"] for a in trace.find("pattern_match")}
    assert sections <= {"pre_grad", "joint", "post_grad"} and "joint" in sections
    assert {a.graph for a in trace.find("pattern_match") if a.data["section"] == "joint"} == {"joint"}


def halves(graph: torch.fx.Graph) -> None:
    """A pass of the user's that changes an argument where it is."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
        node.args = (node.args[0], 0.5)


class Cosines(CustomGraphPass):  # type: ignore[misc]
    """A pass of the user's, as an object, that replaces one operator by another."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            with graph.inserting_after(node):
                made = graph.call_function(torch.ops.aten.cos.default, node.args)
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)

    def uuid(self) -> str:
        """What stands for the pass in the key of a cache."""
        return "cosines"


def test_a_users_pass_has_its_own_name_and_keeps_the_links() -> None:
    """A function and an object are called by their own names; what they made or changed leads to the user's line."""
    with inductor_config.patch(post_grad_custom_pre_pass=halves, post_grad_custom_post_pass=Cosines()):
        trace = explorer.trace(lambda x: torch.sin(x * 2), torch.randn(64), target="h100")
    titles = {a.data["name"]: a.title for a in trace.find("fx_pass")}
    assert titles["halves (post_grad_custom_pre_pass)"].endswith("1 node changed")
    assert titles["Cosines (post_grad_custom_post_pass)"].endswith("+1 −1 nodes")
    (kernel,) = trace.find("kernel")
    cosine = next(n for n, line in enumerate(kernel.lines, 1) if "tl_math.cos(" in line)
    passes = {row["artifact"] for row in trace.follow(kernel.id, cosine) if row["stage"] == "fx_pass"}
    assert any("Cosines" in artifact_of(trace, name).title for name in passes)
    assert any("torch.sin(x * 2)" in row["text"] for row in trace.follow(kernel.id, cosine, "source"))


def test_torchs_own_pass_under_the_name_of_the_users_is_not_called_the_users() -> None:
    """Torch runs a pass of its own as "post_grad_custom_pre_pass" too."""
    assert user_name(partial(group_batch_fusion_passes, pre_grad=False)) == ""
    assert user_name(partial(halves)) == "halves"
    assert user_name(Cosines()) == "Cosines"
