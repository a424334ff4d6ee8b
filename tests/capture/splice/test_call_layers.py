"""One warm call of compiled code in parts: each part is what it says, and the program is left alone."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.splice import call_layers
from explorer.capture.splice.call_layers import time_layers
from explorer.errors import InputError
from explorer.lab.live.protocol import live_of
from explorer.model.values import Table
from explorer.stages.torch_compile.run_times import GUARDS, REST
from explorer.tracing.traced import Trace
from tests.facts import says

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]


def program(x: torch.Tensor, scales: dict[str, float]) -> torch.Tensor:
    y = (x @ x).sin() * scales["one"]
    torch._dynamo.graph_break()
    return (y @ x).cos() * scales["two"]


@pytest.fixture(scope="module")
def traced() -> Trace:
    explorer.trace(torch.nn.ReLU(), torch.randn(3))  # then the process counts the program's compiles from another number on
    trace = explorer.trace(program, torch.randn(16, 16), {"one": 2.0, "two": 3.0})
    trace.raise_for_failures()
    return trace


@pytest.fixture(scope="module")
def rows(traced: Trace) -> Table:
    return traced.live.cost(3)


def parts_of(rows: Table) -> dict[str, Any]:
    return {row["part"]: row for row in rows if row["kind"] == "part"}


def test_the_parts_stand_in_the_order_of_a_call_and_add_up_to_it(rows: Table) -> None:
    """First the call and eager mode, then the parts, whose seconds add up to the call's, then guards."""
    names = list(parts_of(rows))
    assert [row["kind"] for row in rows[:2]] == ["call", "eager"] and rows[1]["seconds"] > 0
    whole = [each for each in names if each != "cache misses"]
    assert whole == [
        "guards",
        "Dynamo frames",
        "AOTAutograd's wrappers",
        "argument checks",
        "allocations",
        "kernel calls",
        "output code",
        "freed results",
        "not attributed",
    ]
    assert sum(row["seconds"] for row in rows if row["kind"] == "part") == pytest.approx(rows[0]["seconds"])
    assert rows[0]["share"] == 1.0


def test_the_parts_count_what_the_call_does(traced: Trace, rows: Table) -> None:
    """Two frames with a graph each; as many kernel calls, checks and allocations as the output code has."""
    parts = parts_of(rows)
    texts = [a.text for a in traced.find("output_code")]
    assert parts["Dynamo frames"]["count"] == parts["AOTAutograd's wrappers"]["count"] == parts["output code"]["count"] == 2
    launches = traced.profile.launches
    assert parts["kernel calls"]["count"] == len(launches)
    calls = "".join(text.partition("def call(")[2] for text in texts)
    assert parts["argument checks"]["count"] == sum(
        calls.count(f"{name}(") for name in ("assert_size_stride", "assert_alignment")
    )
    allocated = sum(calls.count(f"{name}(") for name in ("empty_strided_cpu", "reinterpret_tensor"))
    assert parts["allocations"]["count"] == allocated > 0


def test_guards_have_the_line_of_the_program(rows: Table) -> None:
    """The guard on an item of a dict is the line's that reads it."""
    guards = {(row["part"], row["code"]) for row in rows if row["kind"] == "guard"}
    assert ("L['scales']", 'y = (x @ x).sin() * scales["one"]') in guards


def test_a_clock_that_counts_its_looks_has_every_part_at_zero_or_above(traced: Trace) -> None:
    """With a clock of its own no load of the machine is in a time, and only what is not attributed may be negative."""
    live: Any = live_of(traced)
    x, scales = torch.randn(16, 16), {"one": 2.0, "two": 3.0}
    clock = itertools.count().__next__
    with torch.no_grad():
        times = time_layers(lambda: live.compiled(x, scales), lambda: program(x, scales), live.wrappers, {}, 1, clock=clock)
    assert all(part.seconds >= 0 for part in times.parts if part.name != REST)
    assert sum(part.seconds for part in times.parts) == pytest.approx(times.seconds)


def test_the_program_is_left_alone() -> None:
    """Its globals, output code, state, random numbers, cache and profiler are as they were, and its next call is right."""
    module = torch.nn.BatchNorm1d(4)
    trace = explorer.trace(module, torch.randn(8, 4))
    live: Any = live_of(trace)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    spaces = [dict(vars(wrapper.module)) for wrapper in live.wrappers]
    random_state, python_state = torch.get_rng_state(), random.getstate()
    sys.setprofile(lambda *_: None)
    profiler = sys.getprofile()
    try:
        trace.live.cost(1)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert [dict(vars(wrapper.module)) for wrapper in live.wrappers] == spaces
    assert torch.equal(torch.get_rng_state(), random_state) and random.getstate() == python_state
    assert all(row["equal"] for row in trace.check())


def test_another_thread_gets_its_own_results_meanwhile(traced: Trace) -> None:
    """What stands in a graph's place answers the thread that measures, and calls the graph for any other."""
    live: Any = live_of(traced)
    scales = {"one": 2.0, "two": 3.0}
    x, other = torch.randn(16, 16), torch.randn(16, 16)
    results: list[torch.Tensor] = []
    with torch.no_grad():
        frames, _ = call_layers._frames(lambda: live.compiled(x, scales))
        graphs = call_layers._noted_graphs(lambda: live.compiled(x, scales), frames)

        def call() -> None:
            with torch.no_grad():
                results.append(live.compiled(other, scales))

        with call_layers._without_graphs(frames, graphs):
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
            here = live.compiled(other, scales)
    assert torch.allclose(results[0], program(other, scales), atol=1e-4)
    assert torch.allclose(here, program(x, scales), atol=1e-4), "this thread gets what was noted"


def test_a_torch_without_a_list_of_cache_entries_has_a_part_that_says_so(traced: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards are not measured then, and the sentence says why; the call and its output code are."""
    monkeypatch.delattr(torch._dynamo.eval_frame, "_debug_get_cache_entry_list")
    parts = parts_of(traced.live.cost(1))
    assert "does not list" in parts[GUARDS]["how"] and parts["kernel calls"]["seconds"] >= 0


def test_rows_are_read_into_a_trace_and_kept_in_its_file(traced: Trace, rows: Table, tmp_path: Any) -> None:
    """The stage of run times has the parts, beside a profile; a loaded trace has them still."""
    both = traced.attach(traced.live.profile(1)).attach(rows)
    assert both.find("profile") and "part: guards" in both.text("run_times")
    both.save(tmp_path / "t.json.gz")
    loaded: Any = explorer.load(tmp_path / "t.json.gz")
    assert loaded.text("run_times") == both.text("run_times")


def test_repeats_must_be_a_number_of_rounds(traced: Trace) -> None:
    """InputError otherwise."""
    wrong: Any
    for wrong in (0, "many"):
        with pytest.raises(InputError, match=says("repeats")):
            traced.live.cost(wrong)
