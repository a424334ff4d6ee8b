"""SASS of PTX alone, for a trace that was loaded: another ptxas than the program's may make other code of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from explorer.capture.ladder.ladder import torch_ptxas
from explorer.capture.ladder.sass_lines import instruction_lines, labelled
from explorer.capture.ladder.triton_tools import disassemble
from explorer.errors import CompileError
from explorer.process import scratch

#: The GPU that a PTX is for, such as sm_90a.
_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
#: The processes of ptxas and nvdisasm at a time.
WORKERS = 4


class Assembled(NamedTuple):
    """The SASS of a kernel, and for each instruction its line of the PTX; () where that is not known."""

    text: str
    ptx_lines: tuple[int, ...]


def assembled(texts: Sequence[tuple[str, bool]]) -> list[Assembled | None]:
    """Assemble each PTX, which may fuse multiplications with additions or not; None where no ptxas here takes it."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(_assembled, texts))


def _assembled(given: tuple[str, bool]) -> Assembled | None:
    ptx, fuses = given
    target = _TARGET.search(ptx)
    for ptxas in _assemblers() if target else ():
        options = [f"--gpu-name={target[1]}", *(() if fuses else ("--fmad=false",))] if target else []
        try:
            sass = _sass(ptxas, options, ptx)
        except CompileError:
            continue  # an older ptxas takes no newer PTX, and a newer one has no older GPUs
        try:
            return Assembled(sass, instruction_lines(_sass(ptxas, options, labelled(ptx)), sass))
        except CompileError:
            return Assembled(sass, ())
    return None


def _assemblers() -> Iterator[str]:
    """The ptxas that there are: the user's, torch's, triton's, one on PATH."""
    import triton

    own = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin" / "ptxas"
    paths = (os.environ.get("TRITON_PTXAS_PATH"), torch_ptxas(), str(own), shutil.which("ptxas"))
    yield from dict.fromkeys(path for path in paths if path and Path(path).exists())


def _sass(ptxas: str, options: Sequence[str], ptx: str) -> str:
    with scratch.folder() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        command = [ptxas, "-lineinfo", *options, str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(f"ptxas failed: {done.stderr.strip()}")
        return disassemble(cubin.read_bytes())


__all__ = ["Assembled", "assembled"]
