"""Compile a kernel in CUDA C++ to PTX and a cubin for a GPU that need not be there, by the command that Inductor would use."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from explorer.errors import LiveError
from explorer.process import scratch
from explorer.reference.gpus.figures import Target

NO_NVCC = (
    "{name} is compiled by nvcc, which is not here: put CUDA's nvcc on PATH or name it in CUDACXX, or pip install "
    "nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-cccl nvidia-cuda-runtime nvidia-nvvm nvidia-curand"
)
NO_CURAND = "\nCUTLASS includes a header of cuRAND: pip install nvidia-curand, whose headers explorer finds"


def ptx_and_cubin(name: str, source: str, target: Target) -> tuple[str, bytes]:
    """The PTX and the cubin of a kernel (half a minute and more); LiveError with nvcc's words where it fails."""
    nvcc = compiler()
    if not nvcc:
        raise LiveError(NO_NVCC.format(name=name))
    with scratch.folder() as folder:
        file, ptx, cubin = (Path(folder) / f"kernel.{end}" for end in ("cu", "ptx", "cubin"))
        file.write_text(source, encoding="utf-8")
        _run(name, [nvcc, *options(target), "-lineinfo", "-ptx", "-o", str(ptx), str(file)], folder)
        _run(name, [nvcc, f"-arch=sm_{architecture(target)}", "-lineinfo", "-cubin", "-o", str(cubin), str(ptx)], folder)
        return ptx.read_text(encoding="utf-8").replace(folder, "."), cubin.read_bytes()


def _run(name: str, command: Sequence[str], folder: str) -> None:
    """Run nvcc; LiveError with its words where it fails."""
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if process.returncode:
        words = (process.stderr or process.stdout).replace(folder, ".")
        raise LiveError(f"nvcc refused {name}:\n{words}{NO_CURAND if 'curand' in words else ''}")


def compiler() -> str:
    """Return the nvcc that Inductor would start, or that of NVIDIA's wheels; "" where there is none."""
    from torch._inductor import config

    for path in (config.cuda.cuda_cxx, os.environ.get("CUDACXX"), _in_cuda_home(), "nvcc", *_in_wheels("bin/nvcc")):
        if path and (found := shutil.which(str(path))):
            return str(found)
    return ""


def _in_cuda_home() -> str:
    home = os.environ.get("CUDA_HOME", "")
    return os.path.join(home, "bin", "nvcc") if home else ""


def _in_wheels(path: str) -> Iterator[str]:
    """The path in the folder of each of NVIDIA's wheels that has it, such as nvidia/cu13/include."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from (str(found) for found in sorted(Path(folder).glob(f"*/{path}")))


def architecture(target: Target) -> str:
    """What nvcc calls a GPU's architecture: from Hopper on CUTLASS needs the instructions of that one alone, as in "90a"."""
    return f"{target.arch}a" if int(target.arch) >= 90 else str(target.arch)


def options(target: Target) -> list[str]:
    """Inductor's options (`torch/_inductor/codegen/cuda/compile_utils.py`), for one architecture, and where headers are."""
    from torch._inductor import config
    from torch._inductor.codegen.cuda import compile_utils, cuda_env

    with config.patch({"cuda.arch": str(target.arch)}):
        cuda_env.get_cuda_arch.cache_clear()
        own = [option for option in compile_utils._nvcc_compiler_options() if not option.startswith("-gencode")]
        cuda_env.get_cuda_arch.cache_clear()
    folders = [*compile_utils._cutlass_include_paths(), *_in_wheels("include")]
    return [*own, f"-arch=sm_{architecture(target)}", *(f"-I{folder}" for folder in folders)]
