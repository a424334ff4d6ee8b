"""Observe the files that Inductor and triton write."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from explorer.model.events import FoundFiles
from explorer.model.rows import WrittenFile
from explorer.model.stage import Emit
from explorer.observe.patch import observed


@contextmanager
def written_files(emit: Emit) -> Iterator[None]:
    """Record the files that Inductor and triton write in this process, and at the end what was compiled beside them."""
    from torch._inductor import codecache

    def written(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        _, path = yield
        emit.attempt("written_file", "inductor", lambda: _emit_file(emit, "inductor", path))

    def put(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        path = yield
        emit.attempt("written_file", "triton", lambda: _emit_file(emit, "triton", path))

    with ExitStack() as stack:
        stack.enter_context(observed(codecache, "write", written))
        for manager in _triton_cache():
            stack.enter_context(observed(manager, "put", put))
        yield


def _triton_cache() -> list[Any]:
    """What writes triton's files; [] where triton is not installed."""
    try:
        from triton.runtime.cache import FileCacheManager
    except ImportError:
        return []
    return [FileCacheManager]


def _emit_file(emit: Emit, by: str, path: str) -> None:
    """Emit a file now; of C++ sources, when the recording ends, also what was compiled of them."""
    emit("written_file", lambda: FoundFiles(files=(_file_at(by, path),)))
    if path.endswith(".cpp"):
        emit.later("written_file", lambda: FoundFiles(files=tuple(_file_at(by, found) for found in _beside(path))))


def _file_at(by: str, path: str) -> WrittenFile:
    size = os.path.getsize(path) if os.path.exists(path) else None
    return WrittenFile(by=by, path=path, kind=Path(path).suffix.lstrip("."), bytes=size)


def _beside(path: str) -> list[str]:
    """The files of a C++ source's own name: the library that was compiled, and what was compiled on the way."""
    own = Path(path)
    return sorted(str(found) for found in own.parent.glob(f"{own.stem}*") if found != own and found.suffix != ".lock")
