"""The runnable FX graph: torch's program, in the same order in each process."""

from __future__ import annotations

from explorer.model.shared import Text
from explorer.model.values import Event
from explorer.stages.inductor.fx_graph_runnable import STAGE

PROGRAM = """import torch
torch._inductor.config.triton.store_cubin = False
torch._inductor.config.cpp.threads = 1
torch._functorch.config.unlift = True

z = 2
a = 1
torch._dynamo.config.verbose = True
"""


def test_only_settings_beside_each_other_are_sorted() -> None:
    """All other lines stay where they are."""
    lines = PROGRAM.split("\n")
    made = STAGE.artifact_of(Event("fx_graph_runnable", 0.0, "0/0", data=Text(text=PROGRAM)), "id")
    assert list(made.text.split("\n")) == [lines[0], lines[3], lines[2], lines[1], *lines[4:]]
