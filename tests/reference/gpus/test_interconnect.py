"""Interconnects: figures of named GPUs with sources, and the bytes of a ring."""

from __future__ import annotations

import pytest

from explorer.reference.gpus.figures import NAMED
from explorer.reference.gpus.interconnect import INTERCONNECTS, sent_by_each


def test_each_interconnect_is_of_a_named_gpu_and_has_a_source() -> None:
    """Every figure belongs to a GPU that can be named, and says where it is from."""
    assert INTERCONNECTS.keys() <= {target.name for target in NAMED}
    assert all(link.source.startswith("https://") and link.bandwidth > 1e11 for link in INTERCONNECTS.values())


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_ring_sends_what_its_steps_add_up_to(size: int) -> None:
    """A reduce_scatter or all_gather is n-1 steps of an n-th of the tensor each, an all_reduce both of them."""
    bytes = size * 1024
    steps = sum(bytes // size for _ in range(size - 1))
    assert sent_by_each("all_gather_into_tensor", size, bytes) == steps
    assert sent_by_each("reduce_scatter_tensor", size, bytes) == steps
    assert sent_by_each("all_reduce", size, bytes) == 2 * steps
    assert sent_by_each("fused_all_gather_matmul", size, bytes) is None


def test_a_pair_in_a_mesh_has_one_link_and_a_pair_at_a_switch_all() -> None:
    """Of 8 MI300X each pair is joined by one link of 64 GB/s; NVSwitch gives two H100 the rate that eight have."""
    assert INTERCONNECTS["mi300x"].rate(2) == pytest.approx(64e9)
    assert INTERCONNECTS["mi300x"].rate(8) == INTERCONNECTS["mi300x"].bandwidth
    assert INTERCONNECTS["h100"].rate(2) == INTERCONNECTS["h100"].rate(8) == 450e9
