"""The records of events: each recorded event fits the record of its kind, and what does not fit is refused by name."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.model.records import FieldError
from explorer.model.values import Event, record_to_json
from explorer.sources.files.upgrades import upgraded
from explorer.stages.records import EVENTS, event_data
from explorer.stages.triton.origins import FORMS
from tests.each import each
from tests.facts import says

DATA = Path(__file__).parent.parent / "data"
FILES = {path.name.removesuffix(".events.json.gz"): path for path in sorted(DATA.glob("*.events.json.gz"))}
#: Kinds of no recording in `data/`, and where their shape is held to what torch says instead.
ELSEWHERE = {
    "lowering": "tests/capture/observe/test_lowering.py",
    "attention": "tests/capture/observe/test_attention.py",
    **dict.fromkeys(("pallas_jaxpr", "pallas_stablehlo", "pallas_mosaic"), "tests/test_pallas.py, made when asked for"),
    **dict.fromkeys(
        ("halide_schedule", "halide_stmt", "halide_llvm", "halide_assembly"), "tests/test_halide.py, made when asked for"
    ),
    **dict.fromkeys(("cuda_ptx", "cuda_sass"), "tests/lab/live/test_cuda.py, made when asked for"),
    **dict.fromkeys(("amdgcn", "sass"), "tests/stages/triton: compiled for an AMD GPU, disassembled"),
    **dict.fromkeys(("assembly", "kernel"), "made when a trace is replayed or asked, from recorded texts: tests/stages"),
    **dict.fromkeys(("compile_error", "compile_swallowed", "stance"), "tests/test_failed_compiles.py"),
    **dict.fromkeys(("assumption", "autotune", "autotune_taken", "choice_source"), "tests/analysis/questions/test_choices.py"),
    "choice": "tests/test_autotuning_view.py, made when asked for",
    **dict.fromkeys(("cache", "cuda_graph", "perf_hint"), "tests/observe"),
    "eager_collective": "tests/capture/observe/test_eager_collectives.py: where there are process groups",
    "written_file": "tests/capture/observe/test_metrics.py",
    "process_groups": "tests/capture/absent/test_cluster.py, tests/ranks: where there are process groups",
    "compiled_fn": "tests/capture/compilers/test_own.py",
    "piece": "tests/capture/observe/test_pieces.py",
    **dict.fromkeys(("profile", "run_times"), "tests/timing, made when a profile is read in"),
    "counters": "tests/analysis/counters, made when a report is read in",
    "symbolic_steps": "tests/lab/stepping/test_symbolic.py, made when asked for",
    "library_memory": "tests/capture/observe/test_library_memory.py",
    "log_record": "tests/sources/logs/test_read.py, made when a log is read",
    "bisection": "tests/lab/bisecting/test_marks.py, made when a bisection is shown",
    "iree_target": "tests/capture/compilers/test_iree.py",
    "tvm_target": "tests/capture/compilers/test_tvm.py",
    **dict.fromkeys(("onnx_optimize", "onnxrt_disable"), "tests/capture/compilers/test_onnxrt.py"),
    **dict.fromkeys(
        ("fusion_wish", "fx_pass_idle"), "tests/analysis/questions/test_what_if.py, tests/capture/observe/test_inductor.py"
    ),
}


@cache
def recorded(name: str) -> list[tuple[str, dict[str, Any], int]]:
    """Kind, data and format of each event of a file, as its JSON has them."""
    whole = json.loads(gzip.decompress(FILES[name].read_bytes()))
    return [(event["kind"], event.get("data", {}), whole["format"]) for event in whole["events"]["events"]]


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    """Drop what was read when the last test of this file has run."""
    yield
    recorded.cache_clear()


@each(FILES)
def test_every_recorded_event_fits_its_kind(name: str) -> None:
    """Every event that torch gave rise to, of every recorded version, is a record of its kind, and its JSON says the same."""
    for kind, data, number in recorded(name):
        assert kind in EVENTS, f"{kind} has no record"
        given = upgraded("event", kind, data, number)
        made = record_to_json(Event(kind, 0.0, data=event_data(kind, given))).get("data", {})
        assert without_nones(made) == without_nones(given), kind


def without_nones(value: Any) -> Any:
    """A value without keys that hold None, which a record leaves out; tuples as lists."""
    if isinstance(value, dict):
        return {key: without_nones(each) for key, each in value.items() if each is not None}
    return [without_nones(each) for each in value] if isinstance(value, (list, tuple)) else value


def test_every_kind_is_recorded_somewhere() -> None:
    """Each kind has events in the recordings, counted here, or stands in the list of what is tested elsewhere."""
    counts = Counter(kind for name in FILES for kind, _, _ in recorded(name))
    print(*(f"{count:5} {kind}" for kind, count in sorted(counts.items())), sep="\n")
    assert set(counts) | set(ELSEWHERE) == set(EVENTS)
    assert not set(counts) & set(ELSEWHERE)


def test_each_emitted_kind_has_a_record() -> None:
    """Whatever kind the package emits by name is in the table."""
    package = Path(explorer.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    named = {kind for text in texts for kind in re.findall(r'emit(?:\.later)?\(\s*"(\w+)"|Event\(\s*"(\w+)"', text)}
    kinds = {first or second for first, second in named} - {"place"}  # where a recorder is, no event of it
    assert len(kinds) > 30
    assert kinds <= set(EVENTS)
    assert set(FORMS) <= set(EVENTS)


def mutants(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The data with one field more, and with each field left out or of another type."""
    yield "unheard_of", {**data, "unheard_of": 1}
    for key, value in data.items():
        yield key, {k: v for k, v in data.items() if k != key}
        wrong: Any = {"a": object()} if not isinstance(value, dict) else 7
        yield key, {**data, key: wrong}


@each(EVENTS.keys() - ELSEWHERE.keys())
def test_what_does_not_fit_is_refused_by_name(name: str) -> None:
    """A field too many, a missing field or a value of another type is a FieldError that names it, of each recorded kind."""
    data, number = next((d, n) for file in FILES for kind, d, n in recorded(file) if kind == name)
    given = dict(upgraded("event", name, data, number))
    required = {field.name for field in fields(EVENTS[name]) if field.default is MISSING}  # type: ignore[arg-type]
    assert required <= set(given)
    for key, changed in mutants(given):
        if key in changed or key in required:
            with pytest.raises(FieldError, match=key):
                event_data(name, changed)
        else:
            event_data(name, changed)


def test_a_nested_field_is_named_by_its_place() -> None:
    """The error says where in the event the value stands."""
    node = {"name": "a", "op": "output", "target": "output", "args": "", "kwargs": "", "inputs": []}
    with pytest.raises(FieldError, match=says("nodes[1].inputs[0]", "str", "int")):
        event_data("post_grad", {"text": "", "nodes": [node, {**node, "inputs": [3]}], "stacks": []})
    with pytest.raises(FieldError, match=says("nodes[0]", "FxNode", "colour")):
        event_data("post_grad", {"text": "", "nodes": [{**node, "colour": "red"}], "stacks": []})


def test_another_kind_holds_any_mapping() -> None:
    """What a user's own probe emits is frozen as it is."""
    assert event_data("mine", {"text": "seen", "rows": [1, 2]}) == {"text": "seen", "rows": (1, 2)}
