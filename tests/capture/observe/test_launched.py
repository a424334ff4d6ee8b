"""What an attached GPU launched, read from Inductor's tuner and triton's cache as they are after a launch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from explorer.capture.ladder import ladder as ladders
from explorer.capture.ladder.ladder import Ladder, LadderWorkers, compile_ladder, lower
from explorer.capture.ladder.triton_pool import Worker
from explorer.capture.observe.launched import Launched, described, launched, launched_of, loaded_modules, measured
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.ladder_events import ladder_events
from explorer.model.values import Event
from explorer.reference.gpus.figures import Target
from explorer.sources.files.trace_file import load_events
from explorer.stages import STAGES
from explorer.stages.inductor.definitions import kernel_events
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import untold

#: The stages that a kernel's ladder is made of, and its source.
PER_KERNEL = {stage.name for stage in STAGES if stage.per_kernel}

pytest.importorskip("triton")

DATA = Path(__file__).parents[2] / "data" / "mlp_train-torch2.11-cuda.events.json.gz"
H200 = Target.parse("h200")
FIRST = {"XBLOCK": 256, "num_warps": 4, "num_stages": 1}


def config(**values: int) -> Any:
    rest = {key: values.pop(key) for key in ("num_warps", "num_stages")}
    return SimpleNamespace(kwargs=values, num_ctas=1, maxnreg=None, **rest)


def a_tuner(folder: Path, monkeypatch: pytest.MonkeyPatch, launchers: int = 1) -> Any:
    """A CachingAutotuner after its launch, with its kernel's files in triton's cache."""
    cache = folder / "cache" / "KEY"
    cache.mkdir(parents=True)
    for name, text in {
        "k.ttir": "ttir",
        "k.ttgir": "ttgir",
        "k.llir": "llir",
        "k.ptx": ".entry k",
        "__grp__k.json": "{}",
    }.items():
        (cache / name).write_text(text)
    (cache / "k.cubin").write_bytes(b"\x7fELF")
    (cache / "k.json").write_text(json.dumps({"num_warps": 4, "shared": 0, "name": "k"}))
    (folder / "source.py").write_text("\n\nimport triton\n")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
    own = SimpleNamespace(config=config(**FIRST), cache_hash="KEY", n_regs=40, n_spills=2)
    times = {
        (("XBLOCK", 256), ("num_warps", 4), ("num_stages", 1)): 0.5,
        (("XBLOCK", 64), ("num_warps", 4), ("num_stages", 1)): float("inf"),
    }
    return SimpleNamespace(
        launchers=[own] * launchers,
        filename=str(folder / "source.py"),
        triton_meta={"device": 0},
        coordesc_tuner=SimpleNamespace(cached_benchmark_results=times),
        autotune_cache_info={"autotune_cache_state": "miss"},
    )


def test_texts_binary_and_registers_are_those_of_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read from the folder of triton's cache that the launcher names, with the first line of the source."""
    found = launched(a_tuner(tmp_path, monkeypatch))
    assert found is not None and found.config == FIRST
    assert found.texts == {"ttir": "ttir", "ttgir": "ttgir", "llir": "llir", "ptx": ".entry k"} and found.binary == b"\x7fELF"
    assert (found.registers, found.local, found.first_line, found.metadata["num_warps"]) == (40, 8, 3, 4)
    assert not found.from_cache


def test_a_kernel_that_has_not_settled_or_left_no_files_has_no_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several launchers or none, without its folder, or for another object nothing is claimed."""
    tuner = a_tuner(tmp_path, monkeypatch, launchers=2)
    assert launched(tuner) is None and launched(None) is None and launched(SimpleNamespace(launchers=[])) is None
    tuner.launchers = tuner.launchers[:1]
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert launched(tuner) is None


def test_a_config_that_could_not_run_has_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor gives it an infinite time."""
    rows = measured(a_tuner(tmp_path, monkeypatch))
    assert [row["ms"] for row in rows] == [0.5, None] and rows[1]["XBLOCK"] == 64


def test_the_output_code_that_is_loaded_inside_is_found_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is asked for by the file of its output code and its name in it; after the block nothing stays replaced."""
    from torch._inductor.codecache import PyCodeCache

    before = PyCodeCache.__dict__["load_by_key_path"]
    tuner = a_tuner(tmp_path, monkeypatch)
    (tmp_path / "code.py").write_text("kernel_0 = None\n")
    with loaded_modules() as modules:
        PyCodeCache.load_by_key_path("code", str(tmp_path / "code.py"), [], {"kernel_1": tuner})
    assert launched_of(modules, "code.py", "kernel_0") is None and launched_of(modules, "other.py", "kernel_1") is None
    one = launched_of(modules, "code.py", "kernel_1")
    assert one is not None and one.registers == 40
    assert PyCodeCache.__dict__["load_by_key_path"] is before
    PyCodeCache.modules[:] = [m for m in PyCodeCache.modules if getattr(m, "key", "") != "code"]


# In a trace ----------------------------------------------------------------------------------------------------------


def recorded() -> list[Event]:
    return [e for e in load_events(DATA.read_bytes())[0] if e.kind == "kernel" or e.kind not in PER_KERNEL]


@pytest.fixture(scope="module")
def launch() -> tuple[str, Launched]:
    """The first kernel of a recorded training as if the GPU had launched its second candidate, the fastest of three."""
    name, text = next((k.data["name"], k.data["text"]) for e in recorded() if e.kind == "output_code" for k in kernel_events(e))
    other = compile_ladder(text, name, H200, 1)
    times = [({**other.candidates[0]}, 0.9), ({**other.candidates[1]}, 0.1), ({**other.candidates[1], "XBLOCK": 32}, None)]
    rows = tuple({**config, "ms": ms} for config, ms in times)
    made = Launched(other.config, other.texts, b"\x7fELF own", other.metadata, f"{name}.py", 1, 77, 0, rows)
    return name, made


@pytest.fixture(scope="module")
def kernel(launch: tuple[str, Launched]) -> Any:
    """That kernel in a trace."""
    events = recorded()
    made = ladder_events(events, H200, find=lambda file, name: launch[1] if name == launch[0] else None)
    return next(
        k
        for k in trace_of_events([*events, *made.events], made.failures, live=LiveFunction(None, ladders=made.ladders)).kernels
        if k.name == launch[0]
    )


def test_a_launched_kernels_ladder_is_not_compiled_again(kernel: Any, launch: tuple[str, Launched]) -> None:
    """Its texts, binary and registers are the launch's; the others of the trace are compiled by explorer."""
    own = next(a for a in kernel._trace.find("ptx") if a.kernel == kernel.name)
    assert own.data["launched"] and kernel.text("ttgir") == launch[1].texts["ttgir"]
    assert kernel.binary() == b"\x7fELF own" and kernel.resources["registers"] == 77 and kernel.resources["spill_stores"] == 0
    assert any(not a.data["launched"] for a in kernel._trace.find("ptx"))
    assert any(link.source == own.id for link in kernel._trace.links)


def test_a_launched_kernel_costs_neither_tritons_front_end_nor_a_process(
    launch: tuple[str, Launched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its TTIR, for a new compile, is made when it is read: of the launch's config, as if it had been made at once."""
    name, made = launch
    text = next(k.data["text"] for e in recorded() if e.kind == "output_code" for k in kernel_events(e) if k.data["name"] == name)
    asked: list[str] = []
    real = ladders.front_end
    monkeypatch.setattr(ladders, "front_end", lambda *call: (asked.append(call[3]), real(*call))[1])
    monkeypatch.setattr(Worker, "start", lambda worker: pytest.fail("a process was started"))
    with LadderWorkers(H200, at_once=False) as workers:
        workers.submit([(name, text)], [made])
        [ladder] = workers.results([(name, text)])
    assert isinstance(ladder, Ladder) and ladder.launched and ladder.lowered is not None and not asked
    assert (ladder.file, ladder.first_line) == (f"{name}.py", 1)
    assert ladder.lowered.ttir == lower(text, name, H200, made.config).ttir and len(asked) == 2


def test_each_candidate_has_its_time_and_the_taken_one_is_the_fastest(kernel: Any) -> None:
    """A config that only the measuring tried is there too; the trace says that the taken one was measured."""
    rows = kernel.candidates.table
    assert [row["ms"] for row in rows] == [0.9, 0.1, None] and [row["taken"] for row in rows] == [False, True, False]
    assert rows[2]["XBLOCK"] == 32
    assert not untold(kernel._trace.find("ttgir")[0].data["chosen"], "measured", "fastest", "3")


def test_a_kernel_of_inductors_autotune_cache_says_that_it_was_measured_earlier(launch: tuple[str, Launched]) -> None:
    """No times are known then, and the config need not be among the candidates."""
    events = recorded()
    earlier = replace(launch[1], measured=(), from_cache=True, config={**launch[1].config, "XBLOCK": 512})
    made = ladder_events(events, H200, find=lambda file, name: earlier if name == launch[0] else None)
    kernel = next(k for k in trace_of_events([*events, *made.events]).kernels if k.name == launch[0])
    assert not untold(kernel._trace.find("ptx")[0].data["chosen"], "measured", "earlier", "autotune cache")
    assert [row["taken"] for row in kernel.candidates.table] == [False, False, True] and "ms" not in kernel.candidates.table[0]


def test_a_config_is_described_with_what_is_set() -> None:
    """num_ctas and maxnreg are named only where they are not the default."""
    one = config(**FIRST)
    assert described(one) == FIRST
    one.num_ctas, one.maxnreg = 2, 64
    assert described(one) == {**FIRST, "num_ctas": 2, "maxnreg": 64}
