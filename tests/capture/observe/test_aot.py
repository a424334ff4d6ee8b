"""What AOTAutograd makes, for every backend that uses it."""

from __future__ import annotations

import pytest
import torch

import explorer

pytestmark = pytest.mark.compile


def test_modules_without_a_line_of_the_users_are_linked_in_training_by_any_backend() -> None:
    """Without Inductor too the joint graph has its nodes: the backward of a bare container leads to the call of the container."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    trace = explorer.trace(model, torch.randn(4, 8), backend="aot_eager", train=True)
    (joint,) = trace.find("joint")
    assert joint.nodes
    shares = {row["stage"]: row["share"] for row in trace.coverage()}
    assert [shares[stage] for stage in ("joint", "forward", "backward")] == [1.0, 1.0, 1.0]
