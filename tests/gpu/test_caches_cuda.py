"""A warm cache on a GPU: what was compiled before is loaded, and the trace has each form of its kernels from the caches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import explorer
from tests.facts import untold

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda.is_available() is False"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Empty folders as Inductor's and Triton's caches."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=True), torch._functorch.config.patch(enable_autograd_cache=True):
        yield tmp_path
    torch._dynamo.reset()


def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x.sin() * w).relu().softmax(-1)


def recorded() -> explorer.Trace:
    """Compile with nothing left of the last compile but the caches."""
    torch._dynamo.reset()
    x = torch.arange(64.0 * 128, device="cuda").reshape(64, 128)
    with explorer.record() as recording:
        assert torch.allclose(torch.compile(function)(x, x.cos()), function(x, x.cos()), atol=1e-5)
    return recording.trace


def test_a_kernel_from_the_caches_has_each_of_its_forms(folder: Path) -> None:
    """Triton's folder has TTIR to the binary, linked as of a compile."""
    cold, warm = recorded(), recorded()
    assert cold.failures == warm.failures == ()
    assert {row["state"] for row in cold.compiler.caches if row["cache"] in ("FX graph", "AOTAutograd")} == {"miss"}
    assert {row["state"] for row in warm.compiler.caches if row["cache"] in ("FX graph", "AOTAutograd", "Triton")} == {"hit"}
    assert [kernel.name for kernel in warm.kernels] == [kernel.name for kernel in cold.kernels]
    for stage in ("kernel", "ttir", "ttgir", "llir", "ptx"):
        assert [a.text for a in warm.find(stage)] == [a.text for a in cold.find(stage)] != []
    (kernel,), (ptx,) = warm.find("kernel"), warm.find("ptx")
    assert any((link.source, link.target) == (ptx.id, kernel.id) for link in warm.links)
    assert "fresh=True" not in repr(cold) and not untold(repr(warm), "record(fresh=True)", "0/0")
