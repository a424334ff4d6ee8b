"""Guards that a module of torch's reads have the line of the program that calls the module."""

from __future__ import annotations

import pytest

import explorer
from explorer.analysis.questions.guard_facts import guard_facts


@pytest.mark.compile
def test_a_layer_s_guards_name_the_call_of_the_layer() -> None:
    """The innermost line outside of torch is the reason, and torch's own line is kept."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.conv(images).relu()

    trace = explorer.trace(Net(), torch.randn(2, 3, 8, 8), backend="eager")
    (guards,) = trace.find("guards")
    (fact,) = (fact for fact in guard_facts(guards.data.rows) if fact["fact"].startswith("images: float32"))
    assert fact["code"] == "return self.conv(images).relu()" and "test_user_lines" in fact["place"]
    assert fact["inside"].startswith("conv.py:")
