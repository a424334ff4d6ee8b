"""Graphs that run on the CPU for a GPU you don't have: DDP's buckets are compiled for it, and each run is noted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import explorer
from explorer.capture.observe.eager_collectives import Running
from explorer.model.records import typed
from explorer.stages.torch_compile.eager_collective import EagerCollectives, name_of
from tests.one_rank import TRAINING, group_of_one_rank

pytestmark = TRAINING
WIDTH, LAYERS = 512, 2


class Layers(nn.Module):
    """Layers as large as a bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


@pytest.fixture
def model() -> Iterator[DistributedDataParallel]:
    """A model in DDP, in a group of one rank."""
    torch._dynamo.reset()  # what an earlier test compiled is not recorded
    torch.manual_seed(0)
    with group_of_one_rank():
        yield DistributedDataParallel(Layers(), bucket_cap_mb=1)


def gradients(model: nn.Module, steps: int) -> list[torch.Tensor]:
    """What the steps leave in `grad`."""
    for _ in range(steps):
        model.zero_grad()
        model(torch.ones(4, WIDTH)).sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def test_the_buckets_are_compiled_for_the_gpu_and_run_between_their_collectives(model: DistributedDataParallel) -> None:
    """Each has Triton kernels; the step that was recorded last has forwards, then each backward and its bucket."""
    expected = gradients(model, 1)
    with explorer.record("h100") as recording:
        found = gradients(torch.compile(model), 3)
    for left, right in zip(expected, found, strict=True):
        torch.testing.assert_close(left, right)
    trace = recording.trace
    assert not trace.failures
    assert {kernel.language for kernel in trace.kernels} == {"triton"}
    (artifact,) = trace.find("eager_collective")
    sent = typed(EagerCollectives, artifact.data)
    names = [name_of(sent.graphs[-1 - each]) if each < 0 else sent.rows[each].operator for each in sent.order]
    frame = trace.kernels.table[0]["frame"]
    forwards = [f"{frame} forward", *(f"{frame} forward {n + 1}" for n in range(1, LAYERS))]
    backwards = [name.replace("forward", "backward") for name in reversed(forwards)]
    step = [*forwards, *(name for backward in backwards for name in (backward, "all_reduce"))]
    assert names[-len(step) :] == step


def test_an_error_of_explorers_leaves_the_training_as_it_is(
    model: DistributedDataParallel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradients are eager's, and a Failure says what was lost."""
    expected = gradients(model, 1)

    def broken(*args: object) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(Running, "began", staticmethod(broken))
    with explorer.record("h100") as recording:
        found = gradients(torch.compile(model), 2)
    for left, right in zip(expected, found, strict=True):
        torch.testing.assert_close(left, right)
    assert any("injected" in failure.message for failure in recording.trace.failures)
