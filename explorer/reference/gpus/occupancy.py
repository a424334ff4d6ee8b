"""Compute occupancy: how many blocks of a kernel fit on one multiprocessor, and what limits them.

NVIDIA's rules are those of the occupancy calculator in the CUDA toolkit (cuda_occupancy.h): registers are given to a
warp in units of 256, evenly over four partitions; shared memory in units of 256 bytes, from compute capability 8.0 in units
of 128, with 1 KB of the system's own a block. AMD's are those of the CDNA 3 ISA guide and LLVM's AMDGPU backend: a SIMD has 512
vector registers a lane, given in units of 8, and holds 8 waves; a compute unit has four SIMDs and runs 16 workgroups
of several waves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from explorer.reference.gpus.figures import KB, Target

_PARTITIONS = 4
_AMD_REGISTERS = 512
_AMD_WORKGROUPS = 16


@dataclass(frozen=True)
class Occupancy:
    """The blocks that fit on one multiprocessor, their warps, and the fraction of its maximum.

    `limits` has how many blocks each resource allows. `limited_by` names the scarcest: "registers",
    "shared memory", "threads" or "blocks". With 0 blocks the kernel cannot run on this GPU.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    limits: Mapping[str, int] = field(hash=False)

    def __str__(self) -> str:
        each = self.warps // max(self.blocks, 1)
        return f"{self.fraction:.0%} ({self.blocks} blocks of {each} warps), limited by {self.limited_by}"


def occupancy(target: Target, warps: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of a kernel of `warps` warps a block, `registers` a thread and `shared` bytes a block."""
    limits = {"threads": target.threads // (warps * target.warp), "blocks": target.blocks}
    if registers:
        limits["registers"] = _by_registers(target, warps, registers)
    limits["shared memory"] = _by_shared(target, shared)
    if target.vendor == "amd" and warps > 1:
        limits["blocks"] = min(target.blocks, _AMD_WORKGROUPS)
    if warps * target.warp > target.threads_per_block:
        limits["threads"] = 0
    blocks = min(limits.values())
    scarcest = next(name for name in ("threads", "registers", "shared memory", "blocks") if limits.get(name) == blocks)
    share = blocks * warps * target.warp / target.threads
    return Occupancy(blocks, blocks * warps, share, scarcest, MappingProxyType(limits))


def _by_registers(target: Target, warps: int, registers: int) -> int:
    if target.vendor == "amd":
        return _waves(target, registers) * _PARTITIONS // warps
    each = _up(registers * target.warp, 256)
    return target.registers // _PARTITIONS // each * _PARTITIONS // warps


def _waves(target: Target, registers: int) -> int:
    """The waves that a SIMD's vector registers allow, on CDNA from gfx90a on; else its maximum."""
    most = target.threads // target.warp // _PARTITIONS
    if not str(target.arch).startswith("gfx9"):
        return most
    return min(most, _AMD_REGISTERS // _up(registers, 8))


def _by_shared(target: Target, shared: int) -> int:
    if shared > target.shared_per_block:
        return 0
    if target.vendor != "nvidia":
        each = _up(shared, 512)
    elif target.capability >= (8, 0):
        each = _up(shared, 128) + KB
    else:
        each = _up(shared, 256)
    return target.shared_per_multiprocessor // each if each else target.blocks


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
