"""Tools for compiled kernels: resource usage, NVIDIA's disassembler, and triton's backends."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from explorer.capture.observe.places import in_package
from explorer.capture.observe.versions import version_of
from explorer.errors import CompileError
from explorer.model.values import Call, Plain
from explorer.process.scratch import home
from explorer.reference.gpus.properties import BELOW_METAL

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

#: Resource → its key in the metadata that LLVM's AMDGPU backend writes at the end of the assembly.
_AMD = {
    "registers": "vgpr_count",
    "accumulation_registers": "agpr_count",
    "scalar_registers": "sgpr_count",
    "spilled_registers": "vgpr_spill_count",
    "spilled_scalar_registers": "sgpr_spill_count",
    "stack": "private_segment_fixed_size",
}
_PTXAS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def missing_triton() -> str:
    """Why triton cannot be used here; "" if it can."""
    if not version_of("triton"):
        return "needs triton, which is not installed"
    try:
        import triton.backends.compiler
        import triton.runtime.driver  # noqa: F401
    except (ImportError, OSError) as error:
        return f"needs triton {version_of('triton')}, which is installed and cannot be imported: {error}"
    return ""


def missing_backend(target: Target) -> str:
    """Why the installed triton cannot compile for the target; "" if it can.

    triton's Linux wheels have the backends for NVIDIA and AMD. Intel's is in the triton of torch's XPU builds.
    """
    if target.vendor == "apple":
        return f"triton has no backend for Apple GPUs: {BELOW_METAL}"
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
    """Registers a thread, and bytes a thread of stack and spills, from the output of `ptxas -v`."""
    resources: dict[str, Plain] = {}
    if used := re.search(r"Used (\d+) registers", log):
        resources["registers"] = int(used[1])
    if frame := _PTXAS.search(log):
        resources.update(stack=int(frame[1]), spill_stores=int(frame[2]), spill_loads=int(frame[3]))
    return resources


def amdgcn_resources(text: str) -> dict[str, Plain]:
    """Vector, accumulation and scalar registers, spills, and stack bytes a thread, from the assembly's own metadata."""
    resources = {}
    for name, key in _AMD.items():
        if value := re.search(rf"^\s+(?:- )?\.{key}:\s+(\d+)", text, re.MULTILINE):
            resources[name] = int(value[1])
    return resources


@lru_cache(maxsize=64)
def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin with its source lines, by nvdisasm (0.3 s a kernel); CompileError if that fails."""
    with tempfile.NamedTemporaryFile(suffix=".cubin", dir=home()) as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([nvdisasm(), "-g", "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"nvdisasm failed with exit code {done.returncode}: {done.stderr.strip()}")
    return code_only(done.stdout)


def code_only(text: str) -> str:
    """The functions of a disassembly, without the symbol table that nvdisasm prints after them."""
    return text.partition("//--------------------- SYMBOLS")[0].rstrip() + "\n"


def no_sass(target: Target) -> str:
    """Say why an NVIDIA GPU's SASS cannot be disassembled here; "" if it can.

    nvdisasm reads code only for the GPUs that its own CUDA supports. The cubin still exists.
    """
    if target.vendor != "nvidia":
        return ""
    try:
        path = nvdisasm()
    except CompileError as error:
        return str(error)
    supported = supported_capabilities(path)
    if not supported or int(target.arch) in supported:
        return ""
    return (
        f"nvdisasm reads no code of SM{target.arch} here, only of SM{min(supported)} and newer; the kernel's PTX and its cubin "
        "(Kernel.binary) are there: name the nvdisasm of an older CUDA by TRITON_NVDISASM_PATH"
    )


@lru_cache(maxsize=4)
def supported_capabilities(path: str) -> frozenset[int]:
    """The compute capabilities in nvdisasm's own help, such as 75 and 90; none if it lists none."""
    done = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
    return frozenset(int(number) for number in re.findall(r"'SM(\d+)[a-z]?'", done.stdout))


def nvdisasm() -> str:
    """The path of triton's nvdisasm, or of TRITON_NVDISASM_PATH; CompileError if there is no such file."""
    import triton

    chosen = os.environ.get("TRITON_NVDISASM_PATH")
    path = Path(chosen) if chosen else Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    if not path.exists():
        whose = "TRITON_NVDISASM_PATH names no file" if chosen else "the installed triton brings no nvdisasm"
        raise CompileError(f"{whose}, so there is no SASS")
    return str(path)


@lru_cache(maxsize=8)
def makers(target: Target) -> Mapping[str, tuple[Call, ...]]:
    """Each stage of a kernel's ladder → the functions of triton's backend that make it.

    SASS is the disassembled output of the assembler's stage. {} if triton has no backend for the target.
    """
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    if missing_backend(target):
        return {}
    backend = make_backend(GPUTarget(*target.triple))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, backend.parse_options({}), Language.TRITON)
    calls: dict[str, tuple[Call, ...]] = {}
    for stage, stage_function in stages.items():
        code = getattr(stage_function, "__code__", None)
        steps = [inspect.unwrap(getattr(type(backend), name, None) or _missing) for name in (code.co_names if code else ())]
        method = next((step for step in steps if hasattr(step, "__code__") and step is not _missing), None)
        if code is not None and method is not None:
            calls[stage] = (_call(code), _call(method.__code__))
    if "cubin" in calls:
        calls["sass"] = calls["cubin"]
    return calls


def _missing() -> None:
    """Placeholder for a name that is not an attribute of the backend."""


def _call(code: CodeType) -> Call:
    return in_package(code.co_filename), code.co_firstlineno, code.co_qualname


def is_triton_kernel(fn: object) -> bool:
    """Whether a function is one of triton's: compiled by @triton.jit, or autotuned; triton is not imported for it."""
    return any(kind.__module__.startswith("triton.runtime") and kind.__name__ == "KernelInterface" for kind in type(fn).__mro__)
