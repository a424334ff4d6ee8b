"""On an attached NVIDIA GPU: the memory read from the output code is the memory that torch's allocator saw."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import explorer
from explorer.lab.live.protocol import live_of

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(512, 2048), nn.LayerNorm(2048), nn.Linear(2048, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.down(self.norm(nn.functional.gelu(self.up(x)))), -1)


def test_the_peak_of_a_graph_is_what_the_allocator_saw() -> None:
    """The most that the graph allocates at once is the allocator's peak above what was there before, to 1 %."""
    model, x = Block().cuda(), torch.randn(1024, 512, device="cuda")
    trace = explorer.trace(model, x)
    compiled = live_of(trace).compiled  # trace.live.run() would copy the input and the parameters first, to put them back
    with torch.no_grad():
        compiled(x)  # what libraries keep for themselves is there from now on
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        compiled(x)
        torch.cuda.synchronize()
    seen = torch.cuda.max_memory_allocated() - before
    said = max(row["allocated"] for row in trace.memory.timeline)
    assert said == pytest.approx(seen, rel=0.01)


def test_the_peak_counts_what_the_program_holds() -> None:
    """With the model and its input, which outlive the call, the most that is allocated is the sum at the peak, to 1 %."""
    torch.cuda.synchronize()
    empty = torch.cuda.memory_allocated()
    model, x = Block().cuda(), torch.randn(1024, 512, device="cuda")
    held = torch.cuda.memory_allocated() - empty
    trace = explorer.trace(model, x)
    compiled = live_of(trace).compiled
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        compiled(x)
        torch.cuda.synchronize()
    seen = torch.cuda.max_memory_allocated() - before + held
    assert sum(row["bytes"] for row in trace.memory.peak) == pytest.approx(seen, rel=0.01)


def test_what_is_saved_for_backward_is_what_the_allocator_holds() -> None:
    """Between forward and backward the allocator holds the outputs and what was saved, inputs aside, to 1 %."""
    model, x = Block().cuda(), torch.randn(1024, 512, device="cuda")
    trace = explorer.trace(model, x, train=True)
    compiled = live_of(trace).compiled
    compiled(x).sum().backward()
    model.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    output = compiled(x)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated() - before
    rows = [r for r in trace.memory.table.where(graph="forward") if r["kind"] in ("output", "saved for backward")]
    assert output.requires_grad and sum(r["bytes"] for r in rows) == pytest.approx(held, rel=0.01)
