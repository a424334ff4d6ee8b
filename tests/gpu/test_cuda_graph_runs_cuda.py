"""On an attached NVIDIA GPU: how often torch records each CUDA graph, and why again, against torch's own trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.analysis.advice.launches import AGAIN
from explorer.stages.inductor.cuda_graph import MOVED_INPUT, NEW_SIZE, RECORDED, RECORDED_AGAIN, REPLAYED, WARMED_UP

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def new_trees() -> Iterator[None]:
    """No CUDA graph of another test."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def recordings_of_torch() -> int:
    """How many CUDA graphs torch has recorded since the trees were new."""
    from torch._inductor import cudagraph_trees

    manager = cudagraph_trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    return next(manager.graph_counter) if manager else 0  # the number of the next one; asked at the end of a test


def counts(trace: explorer.Trace) -> dict[str, int]:
    """How often calls did each thing with a CUDA graph."""
    counted: dict[str, int] = {}
    for row in trace.inductor.cuda_graphs:
        if row.get("count") is not None:
            counted[row["decision"]] = counted.get(row["decision"], 0) + row["count"]
    return counted


def recorded(program: Callable[[], Any]) -> explorer.Trace:
    with explorer.record(fresh=True) as recording:
        program()
    assert not recording.trace.failures
    return recording.trace


def test_a_steady_function_is_recorded_once() -> None:
    """One call warms up, one records, all others replay, and the results are those of eager mode."""
    compiled = torch.compile(lambda x: torch.softmax(x.sin(), -1), mode="reduce-overhead")
    xs = [torch.randn(64, device="cuda") for _ in range(6)]

    def program() -> None:
        for x in xs:
            assert torch.allclose(compiled(x), torch.softmax(x.sin(), -1), atol=1e-5)

    trace = recorded(program)
    assert counts(trace) == {WARMED_UP: 1, RECORDED: 1, REPLAYED: 4} and recordings_of_torch() == 1
    assert all(row["seconds"] > 0 for row in trace.inductor.cuda_graphs if row["decision"] in (WARMED_UP, RECORDED))
    assert not [verdict for verdict in trace.advise() if verdict.kind == AGAIN]


def test_four_sizes_are_four_recordings() -> None:
    """One is the first and three are again, with their sizes; the advice says it."""
    compiled = torch.compile(lambda x: torch.softmax(x.sin(), -1), mode="reduce-overhead", dynamic=True)

    def program() -> None:
        for size in (64, 128, 192, 256):
            for _ in range(3):
                compiled(torch.randn(size, device="cuda"))

    trace = recorded(program)
    assert counts(trace) == {WARMED_UP: 4, RECORDED: 1, RECORDED_AGAIN: 3, REPLAYED: 4} and recordings_of_torch() == 4
    (again,) = (row for row in trace.inductor.cuda_graphs if row["decision"] == RECORDED_AGAIN)
    assert again["reason"] == f"{NEW_SIZE}: 128, 192, 256" and again["seconds"] > 0
    (verdict,) = (verdict for verdict in trace.advise() if verdict.kind == AGAIN)
    assert "3 times" in verdict.title and "pad" in verdict.remedy and verdict.cost.once == again["seconds"]


class Net(nn.Module):
    """A module with two parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.ones(64, device="cuda"), requires_grad=False)
        self.weight = nn.Parameter(torch.ones(64, device="cuda"), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * self.weight
        return y + self.bias


class Layer(nn.Module):
    """A module that trains."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


def test_a_parameter_that_moves_is_named() -> None:
    """A new storage is one more recording, at the line that uses the parameter; new values in place are none."""
    net = Net()
    compiled = torch.compile(net, mode="reduce-overhead")
    held = [net.weight.data]  # so that the new storage is at another address

    def program() -> None:
        for _ in range(4):
            compiled(torch.randn(64, device="cuda"))
        net.weight.copy_(torch.zeros(64))
        compiled(torch.randn(64, device="cuda"))
        net.weight.data = torch.full((64,), 2.0, device="cuda")
        x = torch.randn(64, device="cuda")
        assert torch.allclose(compiled(x), x.sin() * 2 + 1, atol=1e-5)

    trace = recorded(program)
    assert recordings_of_torch() == 2 and held[0].data_ptr() != net.weight.data_ptr()
    assert counts(trace) == {WARMED_UP: 1, RECORDED: 1, RECORDED_AGAIN: 1, REPLAYED: 3}
    (again,) = (row for row in trace.inductor.cuda_graphs if row["decision"] == RECORDED_AGAIN)
    assert re.fullmatch(rf"{MOVED_INPUT}: weight \(\w+\)", again["reason"]) and again["code"] == "y = x.sin() * self.weight"


def test_a_training_step_counts_its_backward_too() -> None:
    """The backward runs in a thread of autograd's, and its graph has rows of its own."""
    net = Layer()
    compiled = torch.compile(net, mode="reduce-overhead")

    def program() -> None:
        for _ in range(5):
            net.zero_grad()
            compiled(torch.randn(8, 64, device="cuda")).sum().backward()

    trace = recorded(program)
    rows = [row for row in trace.inductor.cuda_graphs if row["decision"] in (RECORDED, RECORDED_AGAIN)]
    assert {row["graph"] for row in rows} == {"forward", "backward"}
    assert sum(row["count"] for row in rows) == recordings_of_torch()
