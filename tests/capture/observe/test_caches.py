"""Caches: a recording uses them as the program does and says what came of it; a trace, or a GPU you don't have, does not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import explorer
from explorer.capture.observe.caches import graph_lookup, kernel_lookups
from explorer.capture.observe.versions import passes_before_cache
from explorer.stages.inductor.output_code import EXTERN
from tests.facts import untold


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder as Inductor's cache, with the caches switched on."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=True), torch._functorch.config.patch(enable_autograd_cache=True):
        yield tmp_path


def product(a: torch.Tensor) -> torch.Tensor:
    """A matrix product, which is a library call: Inductor's wrapper has no kernel, so no C++ is compiled."""
    return a @ a


def call(train: bool = False) -> torch.Tensor:
    """Compile with nothing left of the last compile but the caches."""
    torch._dynamo.reset()
    out = torch.compile(product)(torch.ones(4, 4, requires_grad=train))
    if train:
        out.sum().backward()
    return out.detach()


def states(trace: explorer.Trace) -> list[tuple[str, str, str]]:
    return sorted((row["cache"], row["graph"], row["state"]) for row in trace.compiler.caches)


def links_of_calls(trace: explorer.Trace) -> set[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """The graph of each library call that is linked, its line of the output code, and its node's of the post-grad graph."""
    return {(link.source.rpartition(":")[2], link.source_lines, link.target_lines) for link in trace.links if link.how == EXTERN}


@pytest.mark.compile
def test_a_recording_finds_what_the_program_has_cached_and_says_so(folder: Path) -> None:
    """A miss is a row with key and reason. A hit is a row that names what it hid; the texts that the cache keeps are there, and
    library calls are linked to the nodes of the graph that it keeps.
    """
    with explorer.record() as first:
        call(train=True)
    with explorer.record() as second:
        call(train=True)
    graphs = [("AOTAutograd", ""), ("FX graph", "backward"), ("FX graph", "forward")]
    assert states(first.trace) == [(*graph, "miss") for graph in graphs]
    assert all(row["key"] and not untold(row["reason"], "nothing", "key") for row in first.trace.compiler.caches)
    assert all(row["not_seen"] == () for row in first.trace.compiler.caches) and "fresh=True" not in repr(first.trace)
    assert states(second.trace) == [(*graph, "hit") for graph in graphs]
    assert {row["key"] for row in second.trace.compiler.caches} == {row["key"] for row in first.trace.compiler.caches}
    for stage, graph in (("output_code", "forward"), ("output_code", "backward"), ("post_grad", "backward")):
        assert second.trace.find(stage, graph=graph)[0].text == first.trace.find(stage, graph=graph)[0].text
    assert "mm" in second.trace.text("joint")
    assert links_of_calls(second.trace) and links_of_calls(second.trace) <= links_of_calls(first.trace)
    left_out = {stage for row in second.trace.compiler.caches for stage in row["not_seen"]}
    run_anyway = {"pre_grad"} if passes_before_cache() else set()
    of_aot = {"attention", "pre_grad", "aot_metadata"}
    of_graphs = {"pattern_match", "fx_pass", "choice", "lowering", "perf_hint", "symbol"}
    assert left_out == (of_aot | of_graphs | {"ir_pre_fusion", "fusion", "ir_post_fusion"}) - run_anyway
    stages = [{a.stage for a in recorded.trace.artifacts} for recorded in (first, second)]
    assert stages[0] - stages[1] <= left_out | {"written_file"}  # the second wrote none
    assert run_anyway <= {a.stage for a in second.trace.artifacts}
    assert not left_out & {a.stage for a in second.trace.artifacts}
    assert not untold(repr(second.trace), "record(fresh=True)", "0/0", *left_out)
    assert second.trace.failures == ()


@pytest.mark.compile
def test_a_recording_reads_what_was_cached_without_it_and_the_other_way_round(folder: Path) -> None:
    """The keys are those of the program alone: no setting that a key is made of differs while recording."""
    call()
    with explorer.record() as recorded:
        call()
    assert {row["state"] for row in recorded.trace.compiler.caches} == {"hit"}
    hits = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
    call()
    assert torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"] == hits + 1


@pytest.mark.compile
def test_the_settings_of_a_cached_graph_are_those_of_its_compile(folder: Path) -> None:
    """What torch.compile's options set is read where Inductor loads a graph, as where it compiles one."""

    def recorded() -> str:
        torch._dynamo.reset()
        with explorer.record() as recording:
            torch.compile(product, options={"epilogue_fusion": False})(torch.ones(4, 4))
        return recording.trace.text("setting")

    compiled, loaded = recorded(), recorded()
    assert "inductor.epilogue_fusion = False" in loaded and loaded == compiled


@pytest.mark.compile
def test_a_cached_graph_without_places_is_said_to_have_the_links_of_its_text(folder: Path) -> None:
    """Where each node is a layer of torch.nn, the cached texts name no line: the notice says that, for one frame and several."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False))
    others = [torch.nn.Sequential(torch.nn.Linear(4, size, bias=False)) for size in (5, 6)]

    def recorded(*models: torch.nn.Module) -> explorer.Trace:
        torch._dynamo.reset()
        with explorer.record() as recording, torch.no_grad():
            for each in models:
                torch.compile(each)(torch.ones(4, 4))
        return recording.trace

    recorded(model, *others)
    loaded, several = recorded(model), recorded(model, *others)
    (row,) = (row for row in loaded.coverage() if row["stage"] == "post_grad")
    assert row["counted"] > 0 and row["linked"] == 0
    assert not untold(repr(loaded), "0/0 was loaded", "links", "cached texts", "output code", "kernels", "record(fresh=True)")
    assert not untold(repr(several), "were loaded")


@pytest.mark.compile
@pytest.mark.parametrize("fresh", [False, True])
def test_what_was_compiled_in_a_recording_can_be_saved(folder: Path, fresh: bool) -> None:
    """torch.compiler.save_cache_artifacts and standalone_compile(…).save() work inside a recording and after it."""
    file = folder / "saved"

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        compiled = torch._inductor.standalone_compile(graph, inputs, dynamic_shapes="from_example_inputs", options={})
        compiled.save(path=str(file), format="binary")
        return compiled

    with explorer.record(fresh=fresh):
        torch.compile(product, backend=backend)(torch.ones(4, 4))
    assert file.stat().st_size
    with explorer.record(fresh=fresh):
        call()
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None and saved[1].inductor_artifacts and saved[1].aot_autograd_artifacts


@pytest.mark.compile
def test_with_fresh_everything_is_compiled_though_it_is_cached(folder: Path) -> None:
    """record(fresh=True) has every stage of a graph that the caches have; the caches are the same afterwards."""
    call()
    with explorer.record(fresh=True) as recorded:
        call()
    assert {row["state"] for row in recorded.trace.compiler.caches} == {"miss"}
    assert recorded.trace.find("ir_post_fusion") and recorded.trace.find("pre_grad")
    with explorer.record() as after:
        call()
    assert {row["state"] for row in after.trace.compiler.caches} == {"hit"}


@pytest.mark.compile
def test_a_bypass_says_why(folder: Path) -> None:
    """A graph that torch will not cache is a row with torch's own reason."""
    with torch._inductor.config.patch(post_grad_custom_post_pass=lambda graph: None), explorer.record() as recorded:
        call()
    rows = recorded.trace.compiler.caches.where(state="bypass")
    assert {row["cache"] for row in rows} == {"AOTAutograd", "FX graph"}
    assert all("custom pass" in row["reason"] for row in rows)


@pytest.mark.compile
def test_a_trace_neither_reads_nor_writes_the_caches_of_graphs(folder: Path) -> None:
    """trace() compiles also what is cached, and leaves no compiled graph behind."""
    call()
    before = sorted(path for name in ("fxgraph", "aotautograd") for path in (folder / name).rglob("*"))
    trace = explorer.trace(product, torch.ones(4, 4))
    assert trace.find("ir_post_fusion") and trace.compiler.caches == ()
    explorer.trace(product, torch.ones(5, 5))
    assert before == sorted(path for name in ("fxgraph", "aotautograd") for path in (folder / name).rglob("*"))


@pytest.mark.compile
def test_nothing_of_an_absent_gpu_gets_into_the_programs_caches(folder: Path) -> None:
    """The program's own compiles find neither a module nor a graph for another GPU; Triton's kernels are cached all the same."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    with explorer.record("h100") as recorded:
        torch.compile(function)(torch.ones(4))
    assert recorded.trace.kernels and explorer.trace(function, torch.ones(4), target="h100").kernels
    assert [path for path in folder.rglob("*") if path.suffix == ".py" or {"fxgraph", "aotautograd"} & {*path.parts}] == []


@pytest.mark.compile
def test_an_error_in_what_is_read_of_a_hit_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program gets its cached graph; the Failure names what could not be read of it."""

    def broken(*anything: object) -> None:
        raise RuntimeError("injected")

    expected = call()
    monkeypatch.setattr("explorer.capture.observe.caches.graph_lookup", broken)
    with explorer.record() as recorded:
        assert torch.equal(call(), expected)
    assert [f for f in recorded.trace.failures if f.stage == "cache" and "injected" in f.message]


def test_a_key_that_is_cached_for_other_sizes_names_the_guard() -> None:
    """The guard that failed is in the reason."""
    info = {"key": "k", "cache_status_detailed": "guard_miss", "cache_status_guard_expr": "L['s0'] < 8"}
    assert not untold(graph_lookup("FX graph", "miss", "forward", info).reason, "guard", "L['s0'] < 8")


@pytest.mark.compile
def test_a_kernels_binary_and_config_are_rows_too(folder: Path) -> None:
    """For a loaded Triton kernel a binary older than the recording is a hit, and so is a config that was measured before."""
    binary = folder / "triton" / "abc" / "kernel.json"
    binary.parent.mkdir(parents=True)
    binary.write_text("{}")
    os.utime(binary, (1e9, 1e9))
    tuner = SimpleNamespace(
        fn=product,
        launchers=[SimpleNamespace(cache_hash="abc")],
        triton_meta={"device": 0},
        autotune_cache_info={"autotune_cache_state": "hit", "best_config": "XBLOCK: 64"},
    )
    rows = list(kernel_lookups(tuner, "", time.time()))
    assert [(row.cache, row.state, row.kernel, row.key) for row in rows] == [
        ("autotune", "hit", "product", "XBLOCK: 64"),
        ("Triton", "hit", "product", "abc"),
    ]
    assert [row.state for row in kernel_lookups(tuner, "", 0.0)] == ["hit", "miss"]
