"""Nodes of Dynamo's graph that state no line themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import explorer
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced import Trace

pytestmark = pytest.mark.compile


def test_a_module_of_torchs_own_is_linked_to_its_lines(not_covered: Callable[[Trace], object]) -> None:
    """Dynamo writes no stack inside torch's modules; where nothing else is traced, nodes lead to the modules' source."""
    made = explorer.trace(nn.Sequential(nn.Linear(8, 8), nn.GELU()), torch.randn(4, 8), target="h100", train=True)
    assert not_covered(made) == []
    titles = [a.title.partition(" ")[0] for a in made.find("source")]
    assert {"Sequential.forward", "Linear.forward", "GELU.forward"} <= set(titles) and len(titles) == len(set(titles))
    line = next(n for n, text in enumerate(made.kernels[0].source.splitlines(), 1) if "libdevice.erf" in text)
    reached = {row["artifact"] for row in made.follow(made.kernels[0].artifact.id, line).where(stage="source")}
    assert "GELU.forward" in {artifact_of(made, id).title.partition(" ")[0] for id in reached}
    assert len(made.follow("0")) and len(made.follow("1"))


def test_what_dynamo_switches_is_linked_to_the_line_that_asks_for_it() -> None:
    """Autocast and vmap leave nodes without a stack; they lead to the line of the program that asked for them."""

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.mm(x, x)
        return torch.vmap(torch.sum)(y)

    made = explorer.trace(f, torch.randn(4, 4), target="h100")
    (row,) = made.coverage("dynamo")
    assert "_enter_autocast" in made.text("dynamo") and "_vmap_decrement_nesting" in made.text("dynamo")
    assert row["missing"] == ()
