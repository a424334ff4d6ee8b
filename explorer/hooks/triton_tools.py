"""What a compiled kernel says of itself: registers, spills, stack; and NVIDIA's disassembler."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.errors import CompileError
from explorer.hooks.versions import version_of
from explorer.model import Plain
from explorer.scratch import home

if TYPE_CHECKING:
    from explorer.gpus import Target

#: Resource → its key in the metadata that LLVM's AMDGPU backend writes at the end of the assembly.
_AMD = {
    "registers": "vgpr_count", "accumulation_registers": "agpr_count", "scalar_registers": "sgpr_count",
    "spilled_registers": "vgpr_spill_count", "spilled_scalar_registers": "sgpr_spill_count",
    "stack": "private_segment_fixed_size",
}  # fmt: skip
_PTXAS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def missing_backend(target: Target) -> str:
    """Why the installed triton cannot compile for the target, "" where it can.

    The Linux wheels of triton have the backends for NVIDIA and AMD; Intel's is in the triton of torch's builds for XPU.
    """
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    gpu = GPUTarget(*target.triple)
    if any(backend.compiler.supports_target(gpu) for backend in backends.values()):
        return ""
    titles = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
    have = " and ".join(titles.get(name, name) for name in sorted(backends)) or "none"
    where = "; the triton of torch's XPU builds has one" if target.vendor == "intel" else ""
    return f"the installed triton {version_of('triton')} has no backend for {titles[target.vendor]} GPUs, only for {have}{where}"


def ptxas_resources(log: str) -> dict[str, Plain]:
    """Registers a thread, and bytes a thread of stack, spill stores and spill loads, from what `ptxas -v` prints."""
    found: dict[str, Plain] = {}
    if used := re.search(r"Used (\d+) registers", log):
        found["registers"] = int(used[1])
    if frame := _PTXAS.search(log):
        found.update(stack=int(frame[1]), spill_stores=int(frame[2]), spill_loads=int(frame[3]))
    return found


def amdgcn_resources(text: str) -> dict[str, Plain]:
    """Vector, accumulation and scalar registers, spills, and stack bytes a thread, from the assembly's own metadata."""
    found = {}
    for name, key in _AMD.items():
        if value := re.search(rf"^\s+(?:- )?\.{key}:\s+(\d+)", text, re.MULTILINE):
            found[name] = int(value[1])
    return found


@lru_cache(maxsize=64)
def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin with its source lines, by the nvdisasm that triton brings (0.3 s a kernel); CompileError else."""
    with tempfile.NamedTemporaryFile(suffix=".cubin", dir=home()) as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([nvdisasm(), "-g", "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"nvdisasm failed with exit code {done.returncode}: {done.stderr.strip()}")
    return code_only(done.stdout)


def code_only(text: str) -> str:
    """Nothing but the functions, without the table of symbols that nvdisasm prints after them."""
    return text.partition("//--------------------- SYMBOLS")[0].rstrip() + "\n"


@lru_cache(maxsize=1)
def nvdisasm() -> str:
    """The path of triton's own nvdisasm; CompileError where it is missing."""
    import triton

    path = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    if not path.exists():
        raise CompileError("the installed triton brings no nvdisasm, so there is no SASS")
    return str(path)
