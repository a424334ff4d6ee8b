"""Occupancy from a target's figures."""

from __future__ import annotations

import pytest

from explorer.reference.gpus.figures import Target
from explorer.reference.gpus.occupancy import occupancy


@pytest.mark.parametrize(
    ("gpu", "warps", "registers", "shared", "blocks", "limited_by"),
    [
        ("h100", 4, 32, 0, 16, "threads"),  # 2048 threads, 65536 registers: both just fit
        ("h100", 4, 33, 0, 12, "registers"),  # 40 registers a thread are given
        ("h100", 8, 128, 0, 2, "registers"),
        ("h100", 4, 255, 0, 2, "registers"),
        ("h100", 4, 32, 65536, 3, "shared memory"),  # 66560 with the system's own KB
        ("h100", 1, 16, 0, 32, "blocks"),
        ("a100", 4, 32, 100 << 10, 1, "shared memory"),
        ("rtx4090", 4, 40, 0, 12, "threads"),  # 1536 threads
        ("t4", 4, 64, 0, 8, "threads"),  # 1024 threads
        ("t4", 2, 32, 4990, 12, "shared memory"),  # 5120 bytes are given, in units of 256
        ("v100", 2, 32, 4200, 22, "shared memory"),  # 4352 bytes are given
        ("h100", 4, 32, 300 << 10, 0, "shared memory"),  # more than a block may ask for
    ],
)
def test_nvidia_follows_the_occupancy_calculator(
    gpu: str, warps: int, registers: int, shared: int, blocks: int, limited_by: str
) -> None:
    """Blocks on a multiprocessor and the scarcest resource are as the CUDA occupancy calculator says."""
    found = occupancy(Target.parse(gpu), warps, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.warps == blocks * warps and 0 <= found.fraction <= 1


@pytest.mark.parametrize(
    ("registers", "waves"), [(16, 8), (64, 8), (65, 7), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (256, 2), (512, 1)]
)
def test_amd_counts_waves_by_the_vector_registers_of_a_simd(registers: int, waves: int) -> None:
    """512 registers a lane in units of 8 allow as many waves a SIMD as LLVM's own comment in the assembly says."""
    found = occupancy(Target.parse("mi300x"), 4, registers, 0)
    assert found.blocks == waves and found.warps == 4 * waves
    assert found.limited_by == ("threads" if waves == 8 else "registers")


def test_amd_shared_memory_is_that_of_a_compute_unit() -> None:
    """64 KB on MI300X hold three blocks of 20 KB, 160 KB on MI355X hold eight."""
    assert occupancy(Target.parse("mi300x"), 4, 16, 20 << 10).blocks == 3
    assert occupancy(Target.parse("mi355x"), 4, 16, 20 << 10).blocks == 8
