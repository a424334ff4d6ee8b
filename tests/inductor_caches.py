"""Caches of Inductor's in a folder of their own, and a compile that asks them: for the tests of what hit and what missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import explorer


@contextmanager
def caches_in(inductor: Path, triton: Path | None = None) -> Iterator[None]:
    """Inductor's caches, and Triton's where a folder is given, are in these folders inside the block, and switched on."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(inductor))
        if triton is not None:
            monkeypatch.setenv("TRITON_CACHE_DIR", str(triton))
        torch._dynamo.reset()
        with torch._inductor.config.patch(fx_graph_cache=True), torch._functorch.config.patch(enable_autograd_cache=True):
            yield


def product(a: torch.Tensor) -> torch.Tensor:
    """A library call: no C++ is compiled."""
    return a @ a


def call(size: int = 4, *, requires_grad: bool = False) -> None:
    """Compile with nothing left of the last compile but the caches."""
    torch._dynamo.reset()
    torch.compile(product)(torch.ones(size, size, requires_grad=requires_grad))


def misses(trace: explorer.Trace, cache: str) -> list[dict[str, object]]:
    """The rows of a cache's misses."""
    return [dict(row) for row in trace.compiler.caches if row["cache"] == cache and row["state"] == "miss"]
