"""Targets: which there are, which work here, and why the others do not."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import says


def test_targets_say_what_works_here() -> None:
    """The CPU works; CUDA works where torch sees a GPU, and else says why not."""
    rows = {row["target"]: row for row in explorer.targets()}
    assert rows["cpu"]["works"] and rows["auto"]["works"]
    assert rows["cuda"]["works"] == torch.cuda.is_available()
    assert bool(rows["cuda"]["why"]) != rows["cuda"]["works"]


@pytest.mark.compile
def test_the_cpu_target_and_auto_are_the_same_for_cpu_arguments() -> None:
    """With arguments on the CPU, "auto" and "cpu" trace for the CPU and give the same graph."""
    x = torch.randn(4)
    traces = [explorer.trace(torch.sin, x, target=t, backend="eager") for t in ("auto", "cpu")]
    assert {t.meta["target"] for t in traces} == {"cpu"}
    assert traces[0].text("dynamo") == traces[1].text("dynamo")


@pytest.mark.compile
def test_a_torch_device_is_a_target_too() -> None:
    """A device of torch's stands for its type; a GPU by number is refused, and it is said what to do."""
    x = torch.randn(4)
    assert explorer.trace(torch.sin, x, target=torch.device("cpu"), backend="eager").meta["target"] == "cpu"  # type: ignore[arg-type]
    with pytest.raises(explorer.errors.InputError, match=says("'cuda:1'", "arguments", "target='auto'")):
        explorer.trace(torch.sin, x, target="cuda:1")
