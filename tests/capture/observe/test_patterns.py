"""A pattern match is one that changed the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern

from explorer.capture.observe.patterns import pattern_matches
from explorer.tracing.recording.recorder import Recorder


def leaves(match: Any, x: Any) -> None:
    """Look at the match and change nothing, as for a view to another shape."""


def erases(match: Any, x: Any) -> None:
    match.output_node().replace_all_uses_with(x)
    match.erase_nodes()


def makes(match: Any, x: Any) -> None:
    with match.graph.inserting_before(match.output_node()):
        match.graph.call_function(torch.cos, (x,))


def takes_its_uses(match: Any, x: Any) -> None:
    match.output_node().replace_all_uses_with(x)


def changes_its_function(match: Any, x: Any) -> None:
    match.output_node().target = torch.cos


def marks(match: Any, x: Any) -> None:
    match.output_node().meta["is_cheap"] = True


@pytest.mark.parametrize(
    ("handler", "is_match"),
    [(leaves, False), (erases, True), (makes, True), (takes_its_uses, True), (changes_its_function, True), (marks, True)],
)
def test_a_pattern_that_changes_nothing_is_no_match(handler: Callable[..., None], is_match: bool) -> None:
    """Torch calls the handler of each pattern that fits; only one that changed the graph is recorded."""
    patterns = PatternMatcherPass()
    register_graph_pattern(CallFunction(torch.sin, KeywordArg("x")), pass_dict=patterns)(handler)
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.sin, (graph.placeholder("x"),)))
    for node in graph.nodes:
        node.meta["val"] = torch.empty(2, device="meta")
    recorder = Recorder()
    with pattern_matches(recorder):
        patterns.apply(torch.fx.GraphModule(torch.nn.Module(), graph))
    assert [event.data["pattern"] for event in recorder.events] == [handler.__name__] * is_match
    assert not recorder.failures
