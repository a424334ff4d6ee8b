"""A target's figures by the names that torch and triton give a device's properties, and in words."""

from __future__ import annotations

from typing import Any

from explorer.reference.gpus.figures import GIGA, KB, MB, TERA, Target

#: What each vendor calls a multiprocessor, its shared memory, and what its kernels are compiled to.
WORDS = {
    "nvidia": ("SMs", "shared memory", "PTX, SASS"),
    "amd": ("CUs", "LDS", "AMDGCN"),
    "intel": ("Xe-cores", "SLM", "SPIR-V"),
    "apple": ("GPU cores", "threadgroup memory", "AIR"),
}
#: Why a kernel in Metal has no text below its source.
BELOW_METAL = (
    "Inductor writes Metal for an Apple GPU, and only Apple's compiler, which is part of macOS, makes AIR and machine code of it"
)
#: The peak rates that stand for the others.
PEAKS = ("fp32", "tf32", "bf16", "fp8")


def gpu_facts(target: Target) -> dict[str, str]:
    """Return what tells one GPU from another, in words; a peak rate that is not known is left out."""
    multiprocessors, shared, instructions = WORDS[target.vendor]
    return {
        "GPU": target.title,
        "architecture": str(target.row["arch"]),
        "instruction set": instructions,
        "warp size": f"{target.warp} threads",
        "SMs / CUs": f"{target.multiprocessors} {multiprocessors}",
        "memory bandwidth": f"{target.bandwidth / GIGA:,.0f} GB/s",
        **{f"peak {dtype}": _teraflops(target.peak[dtype]) for dtype in PEAKS if dtype in target.peak},
        "shared memory a block": f"{target.shared_per_block / KB:.0f} KiB" + (f" {shared}" if target.vendor != "nvidia" else ""),
        **({"L2": f"{target.l2 / MB:.0f} MiB"} if target.l2 else {}),
        **({"note": target.note} if target.note else {}),
    }


def _teraflops(rate: float) -> str:
    """A rate in TFLOP/s, with a decimal where it is small."""
    return f"{rate / TERA:,.{0 if rate >= 10 * TERA else 1}f} TFLOP/s"


def torch_properties(target: Target) -> dict[str, Any]:
    """Return what torch.cuda.get_device_properties says of a device; memory in bytes, clocks in kHz."""
    major, minor = target.capability
    return {
        "name": target.title,
        "major": major,
        "minor": minor,
        "gcnArchName": str(target.arch) if target.backend == "hip" else target.title,
        "multi_processor_count": target.multiprocessors,
        "total_memory": target.memory,
        "max_threads_per_multi_processor": target.threads,
        "max_threads_per_block": target.threads_per_block,
        "regs_per_multiprocessor": target.registers,
        "warp_size": target.warp,
        "L2_cache_size": target.l2,
        "shared_memory_per_block": target.shared_static,
        "shared_memory_per_block_optin": target.shared_per_block,
        "shared_memory_per_multiprocessor": target.shared_per_multiprocessor,
        "clock_rate": int(target.clock / 1000),
        "memory_clock_rate": int(target.memory_clock / 1000),
        "memory_bus_width": target.bus,
        "is_integrated": 0,
        "is_multi_gpu_board": 0,
    }


def triton_properties(target: Target) -> dict[str, int]:
    """Return what triton's drivers say of a device: bytes of shared memory a block, registers, clocks in kHz."""
    return {
        "max_shared_mem": target.shared_per_block,
        "max_num_regs": target.registers,
        "max_threads_per_sm": target.threads,
        "multiprocessor_count": target.multiprocessors,
        "warpSize": target.warp,
        "sm_clock_rate": int(target.clock / 1000),
        "mem_clock_rate": int(target.memory_clock / 1000),
        "mem_bus_width": target.bus,
    }
