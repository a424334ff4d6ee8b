"""Observe the files that Inductor and triton write."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from explorer.capture.observe.launched import triton_cache_folder
from explorer.capture.observe.patch import observed
from explorer.model.stage import Emit
from explorer.stages.torch_compile.written_file import FoundFiles, WrittenFile

#: A file's time may be this much before the clock's, in seconds: Linux stamps it with the time of its last tick.
TICK = 0.01


@contextmanager
def written_files(emit: Emit) -> Iterator[None]:
    """Record the files that Inductor and triton write; when the recording ends, also the files compiled beside them.

    Inductor compiles Triton kernels in worker processes, whose writes are not seen here. This process then gets each kernel
    with its hash, which names the folder of triton's cache that the worker wrote to.
    """
    from torch._inductor import codecache

    began = time.time() - TICK

    def written(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        _, path = yield
        emit.attempt("written_file", "inductor", lambda: _emit_file(emit, "inductor", path))

    def put(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        path = yield
        emit.attempt("written_file", "triton", lambda: _emit_file(emit, "triton", path))

    def precompiled(tuner: Any) -> Generator[None, Any, None]:
        yield
        emit.attempt("written_file", "triton", lambda: _emit_kernel_files(emit, tuner, began))

    with ExitStack() as stack:
        stack.enter_context(observed(codecache, "write", written))
        for autotuner in _autotuner():
            # `precompile` itself fails where a binary cannot be loaded, after its files were written
            stack.enter_context(observed(autotuner, "_precompile_worker", precompiled))
        for manager in _triton_cache():
            stack.enter_context(observed(manager, "put", put))
        yield


def _triton_cache() -> list[Any]:
    """List the functions that write triton's files; [] where triton is not installed."""
    try:
        from triton.runtime.cache import FileCacheManager
    except ImportError:
        return []
    return [FileCacheManager]


def _autotuner() -> list[Any]:
    """List the functions that compile Inductor's Triton kernels; [] where triton is not installed."""
    try:
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    except ImportError:
        return []
    return [CachingAutotuner]


def _emit_kernel_files(emit: Emit, tuner: Any, began: float) -> None:
    """Emit the files that were written since `began` for the candidates of a kernel, whichever process wrote them."""
    from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key

    folders = (triton_cache_folder(tuner, triton_hash_to_path_key(result.kernel.hash)) for result in tuner.compile_results)
    paths = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    written = tuple(str(path) for path in paths if path.is_file() and path.stat().st_mtime >= began)
    if written:
        emit("written_file", lambda: FoundFiles(files=tuple(_file_at("triton", path) for path in written)))


def _emit_file(emit: Emit, by: str, path: str) -> None:
    """Emit a file now. For a C++ source, emit the files compiled from it when the recording ends."""
    emit("written_file", lambda: FoundFiles(files=(_file_at(by, path),)))
    if path.endswith(".cpp"):
        emit.later("written_file", lambda: FoundFiles(files=tuple(_file_at(by, found) for found in _beside(path))))


def _file_at(by: str, path: str) -> WrittenFile:
    size = os.path.getsize(path) if os.path.exists(path) else None
    return WrittenFile(by=by, path=path, kind=Path(path).suffix.lstrip("."), bytes=size)


def _beside(path: str) -> list[str]:
    """List the files with a C++ source's stem: the compiled library and its intermediate files."""
    own = Path(path)
    return sorted(str(found) for found in own.parent.glob(f"{own.stem}*") if found != own and found.suffix != ".lock")
