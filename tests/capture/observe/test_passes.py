"""What is recorded of passes, patterns and buffers, held to the texts that show the same."""

from __future__ import annotations

import pytest
import torch

import explorer
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
