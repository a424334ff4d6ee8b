"""The caches of other things than graphs: each lookup is a row, and torch and Triton answer as without a recording."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

import explorer
from tests.facts import untold
from tests.inductor_caches import caches_in, product

pytestmark = pytest.mark.compile


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder as Inductor's cache, with the caches of graphs switched on."""
    with caches_in(tmp_path / "inductor", tmp_path / "triton"):
        yield tmp_path
    torch._dynamo.reset()


def rows(recording: explorer.Recording, cache: str) -> list[tuple[str, str]]:
    assert recording.trace.failures == ()
    return [(row["state"], row["key"]) for row in recording.trace.compiler.caches if row["cache"] == cache]


@dataclass(frozen=True)
class Named:
    """All that the cache asks of a choice."""

    name: str

    def hash_key(self) -> str:
        return self.name


@pytest.mark.parametrize("format", ["binary", "unpacked"])
def test_an_artifact_of_standalone_compile_is_saved_and_loaded(folder: Path, format: Any) -> None:
    """As vLLM keeps its pieces: each save and load is a row, and what is loaded has the texts that its graph keeps."""
    path = str(folder / "piece")

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        if Path(path).exists():
            return torch._inductor.CompiledArtifact.load(path=path, format=format)
        compiled = torch._inductor.standalone_compile(graph, inputs, dynamic_shapes="from_example_inputs", options={})
        compiled.save(path=path, format=format)
        return compiled

    x = torch.arange(16.0).reshape(4, 4)
    recordings = []
    for fresh in (False, False, True):
        torch._dynamo.reset()
        with explorer.record(fresh=fresh) as recording:
            assert torch.equal(torch.compile(product, backend=backend)(x), x @ x)
        recordings.append(recording)
    first, second, fresh_one = recordings
    assert (rows(first, "standalone artifact"), rows(second, "standalone artifact")) == ([("saved", path)], [("hit", path)])
    assert [state for state, _ in rows(first, "FX graph")] == ["miss"] and [s for s, _ in rows(second, "FX graph")] == ["hit"]
    assert second.trace.text("output_code") == first.trace.text("output_code")
    assert {a.stage for a in first.trace.artifacts} - {a.stage for a in second.trace.artifacts} <= {
        *(stage for row in second.trace.compiler.caches for stage in row["not_seen"]),
        "written_file",
    }
    # a fresh recording loads it too, and the notice does not promise otherwise
    assert rows(fresh_one, "standalone artifact") == [("hit", path)]
    assert not untold(repr(fresh_one.trace), "record(fresh=True)", "except", "CompiledArtifact.load")
    torch._dynamo.reset()
    with explorer.record("h100") as absent:
        assert torch.equal(torch.compile(product, backend=backend)(x), x @ x)
    assert not untold(repr(absent.trace), "CompiledArtifact.load", "not for h100")


def test_an_artifact_that_cannot_be_loaded_says_so(folder: Path) -> None:
    """The program's own error goes through."""
    path = folder / "not_there"
    with explorer.record() as recording, pytest.raises(FileNotFoundError):
        torch._inductor.CompiledArtifact.load(path=str(path), format="binary")
    assert rows(recording, "standalone artifact") == [("failed", str(path))]


def test_sizes_of_earlier_runs_are_rows(folder: Path) -> None:
    """Under a job's name Dynamo asks for the sizes that an earlier run saw: none at first, then those of the first."""
    states = []
    for _ in range(2):
        torch._dynamo.reset()
        with torch.compiler.config.patch(job_id="job"), explorer.record() as recording:
            torch.compile(product, backend="eager")(torch.ones(4, 4))
        states.append([state for state, _ in rows(recording, "Dynamo sizes")])
    assert states == [["miss"], ["hit"]]


def test_measured_choices_are_rows(folder: Path) -> None:
    """The times of an operation's choices are measured once, and found the second time; the second row is a hit."""
    from torch._inductor.codecache import PersistentCache

    measured: list[int] = []

    def benchmark(given: Any) -> dict[Any, float]:
        measured.append(len(given))
        return dict.fromkeys(given, 1.0)

    choices: list[Any] = [Named("one"), Named("other")]
    with explorer.record() as recording:
        for _ in range(2):
            PersistentCache().lookup(choices, "mm", "4x4", benchmark)
        PersistentCache().lookup(choices, "mm", "5x5", None)
    assert measured == [2]
    assert rows(recording, "choices") == [("miss", "mm 4x4"), ("hit", "mm 4x4"), ("bypass", "mm 5x5")]


def test_a_remote_cache_is_a_row_of_its_own(folder: Path) -> None:
    """torch's own place for a backend of the user's stands for a server: what is asked of it, and what it answers, is there."""
    from torch._inductor.remote_cache import RemoteCacheBackend, RemoteFxGraphCache

    server: dict[str, Any] = {}

    class Backend(RemoteCacheBackend[Any]):
        def _get(self, key: str) -> Any:
            return server.get(key)

        def _put(self, key: str, data: Any) -> None:
            server[key] = data

    def call() -> explorer.Recording:
        torch._dynamo.reset()
        with explorer.record() as recording:
            torch.compile(product)(torch.ones(4, 4))
        return recording

    with pytest.MonkeyPatch.context() as patch, torch._functorch.config.patch(enable_autograd_cache=False):
        patch.setattr(RemoteFxGraphCache, "backend_override_cls", Backend)
        with torch._inductor.config.patch(fx_graph_remote_cache=True):
            first = call()
            (folder / "inductor" / "fxgraph").rename(folder / "away")
            second = call()
    assert [state for state, _ in rows(first, "FX graph, remote")] == ["miss"]
    assert [state for state, _ in rows(second, "FX graph, remote")] == ["hit"]
    assert [state for state, _ in rows(second, "FX graph")] == ["hit"] and server


KERNEL = """
import triton
import triton.language as tl

@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""


def test_triton_tells_of_its_own_cache(folder: Path) -> None:
    """A kernel that this process compiles is a miss, then a hit, as Triton tells its listener; the program's own hears it too."""
    triton = pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    from triton.backends.compiler import GPUTarget

    file = folder / "kernel_of_the_test.py"
    file.write_text(KERNEL, encoding="utf-8")
    kernel = runpy.run_path(str(file))["add_one"]
    source = triton.compiler.ASTSource(
        fn=kernel, signature={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, constexprs={"BLOCK": 128}
    )
    heard = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton.knobs.compilation, "listener", lambda **told: heard.append(told["cache_hit"]))
        with explorer.record() as recording:
            for _ in range(2):
                triton.compile(source, target=GPUTarget("cuda", 90, 32))
    (missed, key), (hit, same) = rows(recording, "Triton")
    assert (missed, hit, key) == ("miss", "hit", same) and heard == [False, True]
    assert (folder / "triton" / key).is_dir()


def test_a_package_of_dynamos_is_a_row(folder: Path) -> None:
    """With caching_precompile Dynamo asks for its own package of each function; torch counts the same."""
    with torch._dynamo.config.patch(caching_precompile=True):
        counters.clear()
        with explorer.record() as recording:
            torch.compile(product)(torch.ones(4, 4))
    counted = counters["dynamo_cache"]
    states = [state for state, _ in rows(recording, "Dynamo package")]
    assert states.count("miss") == counted["dynamo_cache_miss"] == 1


def packaged(a: torch.Tensor) -> torch.Tensor:
    """A function of one test: what a package installs stays on the code, whatever is reset."""
    return a @ a


def test_what_a_package_brings_is_said_and_a_fresh_recording_loads_none(folder: Path) -> None:
    """A function that Dynamo loads is not traced: the notice names Dynamo's stages, and fresh=True compiles it."""

    def recorded(fresh: bool = False) -> explorer.Trace:
        torch._dynamo.reset()
        with torch._dynamo.config.patch(caching_precompile=True), explorer.record(fresh=fresh) as recording:
            torch.compile(packaged)(torch.ones(4, 4))
            torch.compiler.save_cache_artifacts()  # writes the package
        return recording.trace

    first, fresh, loaded = recorded(), recorded(fresh=True), recorded()
    assert [row["state"] for row in loaded.compiler.caches if row["cache"] == "Dynamo package"] == ["hit"]
    assert not loaded.find("dynamo") and not untold(repr(loaded), "0/0", "dynamo,", "bytecode,", "source,")
    lost = {a.stage for a in first.artifacts} - {a.stage for a in loaded.artifacts}
    assert lost - {"written_file", "compilation_metrics"} <= {
        stage for row in loaded.compiler.caches for stage in row["not_seen"]
    }
    assert {a.stage for a in first.artifacts} <= {a.stage for a in fresh.artifacts}
    (row,) = (row for row in fresh.compiler.caches if row["cache"] == "Dynamo package")
    assert row["state"] == "miss" and not untold(row["reason"], "fresh")


def packaged_elsewhere(a: torch.Tensor) -> torch.Tensor:
    return a @ a + 1


def test_no_package_is_made_of_what_is_not_for_the_program(folder: Path) -> None:
    """A package of a recording for an absent GPU, or of a trace, has no graphs: a later process would load it in vain."""
    with torch._dynamo.config.patch(caching_precompile=True):
        with explorer.record("h100") as absent:
            torch.compile(packaged_elsewhere)(torch.ones(4, 4))
        explorer.trace(packaged_elsewhere, torch.ones(4, 4))
        torch.compiler.save_cache_artifacts()
        torch._dynamo.reset()
        with explorer.record() as recording:
            torch.compile(packaged_elsewhere)(torch.ones(4, 4))
    assert absent.trace.find("kernel") and not absent.trace.failures
    assert [state for state, _ in rows(recording, "Dynamo package")] == ["miss"]
