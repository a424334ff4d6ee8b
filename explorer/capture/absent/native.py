"""Build and load `absent_gpu.cpp`, which answers torch's C++ questions about an absent GPU."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.capture.observe.versions import release_of_libraries, version_of
from explorer.errors import InputError
from explorer.process import scratch, user_cache

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

SOURCE = Path(__file__).with_name("absent_gpu.cpp")


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The library for the installed torch, built once with g++ (5 s); InputError if that fails."""
    key = hashlib.sha256(SOURCE.read_bytes() + version_of("torch").encode()).hexdigest()[:12]
    path = user_cache.directory() / f"absent-gpu-{version_of('torch')}-{key}.so"
    if not path.exists():
        _build(path)
    loaded = ctypes.CDLL(str(path))
    loaded.explorer_enter.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long]
    loaded.explorer_places.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
    _start_autograd()
    return loaded


def _start_autograd() -> None:
    """Start autograd now: its first backward starts a thread for each device, and must not see the absent GPU."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch.enable_grad(), _disable_current_modes():
        number = torch.ones(1, requires_grad=True)
        torch.autograd.grad(number * 1.0, number, torch.ones(1))


def build_command(output: str) -> list[str]:
    """The command that builds the library; InputError, with what to install, if there is no g++."""
    import torch

    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise InputError(
            "a trace for a GPU you don't have needs a C++ compiler once, and there is no g++: "
            "install it (Debian, Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`)"
        )
    root = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    flags = ["-std=c++20", "-O0", "-fPIC", "-shared", "-w", abi, f"-I{root / 'include'}", str(SOURCE), "-o", output]
    return [*compiler.split(), *flags, f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python"]


def _build(path: Path) -> None:
    """Build in a temporary folder and move the file into place, so that no process loads half a file."""
    with scratch.folder() as folder:
        made = Path(folder) / "library.so"
        done = subprocess.run(build_command(str(made)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"g++ could not build the explorer's helper for torch {version_of('torch')}:\n{done.stderr}")
        user_cache.write(path, made.read_bytes())


@contextmanager
def cpp_answers(target: Target) -> Iterator[None]:
    """Make torch's C++ side answer for the target: device guard, hooks, choice of an attention operator."""
    native = library()
    major, minor = target.capability
    cudnn = release_of_libraries().cudnn if target.backend == "cuda" else 0
    native.explorer_enter(target.backend.encode(), 10 * major + minor, cudnn)
    try:
        yield
    finally:
        native.explorer_leave()
        forget_starts()


def forget_starts() -> None:
    """Let torch's C++ side ask `_lazy_init` of torch.cuda and torch.xpu again before it next makes a tensor there.

    torch notes the first answer for good. With an absent GPU's it would never start an attached one.
    """
    _holding_the_gil().explorer_forget_starts()


@lru_cache(maxsize=1)
def _holding_the_gil() -> ctypes.PyDLL:
    """The library again, for what may only be called under the GIL, which a CDLL gives up."""
    return ctypes.PyDLL(library()._name)


def places() -> tuple[int, ...]:
    """The addresses in the seven places that the library writes to."""
    found = (ctypes.c_void_p * 7)()
    library().explorer_places(found)
    return tuple(place or 0 for place in found)
