"""The files that triton writes where this process does not see it write: in Inductor's worker processes."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import explorer

pytest.importorskip("triton")

pytestmark = pytest.mark.compile

#: A kernel as Inductor hands it to its workers. Its driver is not asked for: nothing is launched.
KERNEL = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

triton_helpers.set_driver_to_gpu = lambda: None

@triton_heuristics.pointwise(
    size_hints={"x": 64},
    filename=__file__,
    triton_meta={
        "signature": {"x": "*fp32", "n": "i32", "XBLOCK": "constexpr"},
        "device": DeviceProperties(type="cuda", index=0, multi_processor_count=132, cc=90, major=9, warp_size=32,
            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024),
        "constants": {},
        "configs": [{(0,): [["tt.divisibility", 16]]}],
    },
    inductor_meta={"grid_type": "Grid1D", "kernel_name": "double", "mutated_arg_names": ["x"]},
    min_elem_per_thread=0,
)
@triton.jit
def double(x, n, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)
"""


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Empty caches; the folder of triton's."""
    from torch._inductor.runtime import triton_helpers

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", triton_helpers.set_driver_to_gpu)  # put back afterwards
    yield tmp_path / "triton"


def compiled_elsewhere() -> Any:
    """The kernel as a worker hands it back: compiled, and pickled."""
    from torch._inductor.codecache import PyCodeCache

    kernel = PyCodeCache.load(KERNEL).double
    kernel.precompile(warm_cache_only=True)
    kernel.prepare_for_pickle()
    return pickle.dumps(kernel)


def precompiled_here(kernel: bytes) -> Any:
    """What this process does with a kernel that a worker compiled, up to loading its binary on the GPU."""
    received = pickle.loads(kernel)
    received._precompile_worker()
    return received


def test_files_that_a_worker_wrote_are_listed(caches: Path) -> None:
    """A binary and each text of a kernel that is compiled where this recording sees nothing, once each, with their sizes."""
    made: list[bytes] = []
    with explorer.record() as recording:
        worker = threading.Thread(target=lambda: made.append(compiled_elsewhere()))
        worker.start()
        worker.join()
        precompiled_here(made[0])
    rows = [row for row in recording.trace.compiler.files if row["by"] == "triton"]
    there = {str(path): path.stat().st_size for path in caches.rglob("double.*")}
    assert {row["path"]: row["bytes"] for row in rows}.items() >= there.items() and len(rows) == len({r["path"] for r in rows})
    assert {"cubin", "ptx", "ttir", "ttgir", "llir", "json"} <= {row["kind"] for row in rows}


def test_files_of_a_kernel_that_the_cache_had_are_not_listed(caches: Path) -> None:
    """Nothing was written for it in this recording."""
    kernel = compiled_elsewhere()
    for path in caches.rglob("*"):
        os.utime(path, (0, 0))
    with explorer.record() as recording:
        precompiled_here(kernel)
    assert not [row for row in recording.trace.compiler.files if row["by"] == "triton"]
