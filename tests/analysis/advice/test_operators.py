"""Operators that are called: a view that Inductor calls the operator for moves nothing, and is no costly fallback."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from explorer.analysis.advice import operators
from explorer.analysis.questions.fusion import fusion_of
from explorer.tracing.traced import Trace


def test_a_called_view_costs_nothing_and_a_called_product_does(zoo: Callable[[str], Trace]) -> None:
    """The oracle is eager's memory: an operator whose result lies in its argument's storage moves nothing."""
    trace = zoo("rotated h100")
    groups = [group for graph in fusion_of(trace).graphs for group in graph.groups() if group["calls"]]
    calls = {call.operator: (call.view, group) for group in groups for call in group["calls"] or ()}
    assert set(calls) == {"aten.view_as_complex", "aten.mul", "aten.view_as_real"}
    for name, (view, group) in calls.items():
        assert bool(view) == in_place(name), name
        assert (group["read"] + group["written"] == 0) == in_place(name), name
    called = [verdict.title for verdict in trace.advise() if verdict.kind == "fallback"]
    assert called and all("aten.mul" in title for title in called)


def in_place(name: str) -> bool:
    """Whether eager's result of an operator lies in the storage of its argument."""
    argument = torch.randn(4, 2) if "complex" in name else torch.randn(4, 2, dtype=torch.complex64)
    operator = getattr(torch.ops.aten, name.removeprefix("aten."))
    result = operator(argument, argument) if name == "aten.mul" else operator(argument)
    return bool(result.untyped_storage().data_ptr() == argument.untyped_storage().data_ptr())


@pytest.mark.parametrize(
    ("hint", "options"),
    [
        (
            "Reduction over non-contiguous dims.\nConsider setting config.triton.tile_reductions to True.",
            {"triton.tile_reductions", "triton.prefer_nd_tiling"},
        ),
        ("Found optimal tiling with 3 tiles but torch._inductor.config.triton.max_tiles set to 2.", {"triton.max_tiles"}),
        ("something else", set()),
    ],
)
def test_a_hint_names_the_options_that_prove_it(hint: str, options: set[str]) -> None:
    """The options are those that Inductor's own sentence says to set; another sentence names none."""
    assert set(operators.options_named(hint)) == options
