"""On an attached NVIDIA GPU: the modes are timed by its clock, CUDA graphs are captured, and the allocator is asked."""

from __future__ import annotations

import pytest
import torch

import explorer

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]


def small(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        x = torch.softmax(x @ w, -1)
    return x


def test_modes_are_timed_with_and_without_a_cuda_graph() -> None:
    """reduce-overhead captures the graph, default does not; both have times, memory and no failure."""
    from torch._dynamo.utils import counters

    before = int(counters["inductor"]["cudagraph_skips"])
    modes = explorer.compare_modes(small, torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda"))
    rows = {row["mode"]: row for row in modes.table}
    assert int(counters["inductor"]["cudagraph_skips"]) == before
    assert rows["reduce-overhead"]["cuda_graphs"] == "captured" and rows["default"]["cuda_graphs"] == "not asked for"
    assert all(row["seconds"] > 0 and not row["failures"] and not row["not_timed"] for row in modes.table)
    assert rows["default"]["allocated_bytes"] > 0


def test_the_probe_on_an_attached_gpu_says_what_torch_logs() -> None:
    """Another size and another dtype are compiled again, by the guards of the tensor; the third size is served."""
    x = torch.randn(8, 4, device="cuda")
    variations = [explorer.Vary("x", size={0: 9}), explorer.Vary("x", size={0: 10}), explorer.Vary("x", dtype=torch.float16)]
    probe = explorer.vary(lambda x: x.sin() * 2, x, variations=[]).sequence(variations)
    assert [row["outcome"] for row in probe.table] == ["compiled", "recompiled", "served", "recompiled"]
    assert "size mismatch at index 0. expected 8, actual 9" in probe.table[1]["guard"]
    assert "dtype mismatch. expected Float, actual Half" in probe.table[3]["guard"]
