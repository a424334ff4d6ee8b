"""Interconnects: figures of named GPUs with sources, and the bytes of a ring."""

from __future__ import annotations

import pytest

from explorer.reference.gpus.figures import NAMED
from explorer.reference.gpus.interconnect import INTERCONNECTS, seconds_of_collective, sent_by_each


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


#: Microseconds that benchmarks/collectives.py measured between two H200 (NCCL 2.28.9), at sizes no constant was fitted to.
MEASURED = {
    ("all_reduce", 1 << 14): 5.6,
    ("all_reduce", 1 << 24): 72.2,
    ("all_reduce", 1 << 28): 893.5,
    ("all_gather_into_tensor", 1 << 18): 5.6,
    ("all_gather_into_tensor", 1 << 24): 51.0,
    ("reduce_scatter_tensor", 1 << 21): 12.6,
    ("reduce_scatter_tensor", 1 << 28): 561.0,
    ("all_to_all_single", 1 << 21): 12.1,
    ("all_to_all_single", 1 << 28): 466.2,
    ("broadcast", 1 << 18): 5.0,
    ("broadcast", 1 << 28): 737.0,
}


@pytest.mark.parametrize(("operator", "bytes"), MEASURED)
def test_a_price_is_within_a_quarter_of_what_two_gpus_took(operator: str, bytes: int) -> None:
    """Small tensors take NCCL's latency, large ones its share of the link's rate, and each operator has its own."""
    seconds = seconds_of_collective(INTERCONNECTS["h200"], operator, 2, bytes)
    assert seconds == pytest.approx(MEASURED[operator, bytes] * 1e-6, rel=0.25)


def test_each_further_rank_adds_steps_to_a_small_collective() -> None:
    """A small all_reduce of 8 ranks takes 12 steps more than that of 2; a group of one rank exchanges nothing."""
    link = INTERCONNECTS["h100"]
    two, eight = (seconds_of_collective(link, "all_reduce", size, 8) for size in (2, 8))
    assert two is not None and eight is not None and eight - two == pytest.approx(12 * 0.6e-6, rel=0.01)
    assert seconds_of_collective(link, "all_reduce", 1, 8) == 0
    assert seconds_of_collective(link, "fused_all_gather_matmul", 2, 8) is None
