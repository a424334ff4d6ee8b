"""Profiles of the CPU that torch.profiler records now, held to its own key_averages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.errors import InputError
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.facts import says

pytestmark = pytest.mark.compile

RUNS = 3


class Profiled(NamedTuple):
    trace: Trace
    profiler: Any
    joined: Trace


def mlp(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.layer_norm(x, (64,), b, b)
    z = F.gelu(y @ w + b)
    return (z @ w).softmax(-1)


@pytest.fixture(scope="module")
def profiled() -> Profiled:
    """A trace whose C++ kernels write their names, a profile of three runs, and both joined."""
    torch.manual_seed(0)
    inputs = torch.randn(128, 64), torch.randn(64, 64), torch.randn(64)
    trace = explorer.trace(mlp, *inputs, options={"cpp.enable_kernel_profile": True})
    trace.raise_for_failures()
    with torch.profiler.profile() as profiler:
        for _ in range(RUNS):
            trace.live.run()
    return Profiled(trace, profiler, trace.attach(profiler))


def test_the_sum_is_that_of_the_profiler(profiled: Profiled) -> None:
    """All rows together have the CPU time that key_averages has, each event's own time once."""
    whole = sum(event.self_cpu_time_total for event in profiled.profiler.key_averages())
    assert sum(row["seconds"] for row in profiled.joined.profile.table) * 1e6 == pytest.approx(whole, rel=1e-6)


def test_each_kernel_has_the_profilers_time(profiled: Profiled) -> None:
    """The row of a C++ kernel is key_averages' of its name, and so is that of the library call."""
    averages = {re.sub(r"^graph_\d+_", "", event.key): event for event in profiled.profiler.key_averages()}
    rows = profiled.joined.kernels.table
    assert len(rows) == 3
    for row in rows:
        event = averages[row["kernel"]]
        assert event.count == RUNS == row["launches"] * RUNS
        assert row["seconds"] * RUNS * 1e6 == pytest.approx(event.cpu_time_total, rel=1e-6) and row["timed"] == "measured"
    assert len(profiled.joined.inductor.extern_calls) == 2
    for row in profiled.joined.inductor.extern_calls:
        name = row["call"].replace("extern_kernels.", "aten::")
        assert row["seconds"] * RUNS * 1e6 == pytest.approx(averages[name].cpu_time_total, rel=1e-6)


def test_lines_of_the_program_have_the_time_of_their_kernels(profiled: Profiled) -> None:
    """Each of the three lines that compute has measured time; together they have that of all kernels and calls."""
    joined = profiled.joined
    lines = joined.profile.lines
    assert {row["code"].partition(" =")[0] for row in lines} == {"y", "z", "return (z @ w).softmax(-1)"}
    whole = sum(row["seconds"] for row in (*joined.kernels.table, *joined.inductor.extern_calls))
    assert sum(row["seconds"] for row in lines) == pytest.approx(whole)
    assert all(row["seconds"] <= row["whole"] * (1 + 1e-9) for row in lines)


def test_an_exported_trace_gives_the_same(profiled: Profiled, tmp_path: Path) -> None:
    """The profiler can still export its trace afterwards, and the file has the same times."""
    path = tmp_path / "trace.json.gz"
    profiled.profiler.export_chrome_trace(str(path))
    read = {row["kernel"]: row for row in profiled.trace.attach(path).profile.table if row["kind"] != "not joined"}
    live = {row["kernel"]: row for row in profiled.joined.profile.table if row["kind"] != "not joined"}
    assert read.keys() == live.keys()
    for name, row in read.items():
        assert row["seconds"] == pytest.approx(live[name]["seconds"], rel=1e-3) and row["launches"] == live[name]["launches"]


def test_the_view_and_the_file_have_the_measured_times(profiled: Profiled, tmp_path: Path) -> None:
    """The payload says "measured" of each kernel, call and box; a saved trace is equal, with its profile."""
    joined = profiled.joined
    whole = payload(joined)
    assert {kernel["cost"]["timed"] for kernel in whole["kernels"]} == {"measured"}
    assert {call["cost"]["timed"] for call in whole["calls"]} == {"measured"}
    assert {cost["timed"] for cost in whole["fusion"][0]["costs"]} == {"measured"}
    joined.save(tmp_path / "t.explorer")
    assert explorer.load(tmp_path / "t.explorer") == joined


def test_kernels_without_their_names_are_said_to_lack_them() -> None:
    """Without enable_kernel_profile only library calls are joined, and the rest says how to have the kernels too."""
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    trace = explorer.trace(lambda a, b: torch.relu(a @ b) + 1, x, w)
    with torch.profiler.profile() as profiler:
        trace.live.run()
    rows = trace.attach(profiler).profile.table
    assert [row["kind"] for row in rows].count("library call") == 1 and "kernel" not in [row["kind"] for row in rows]
    assert any("cpp.enable_kernel_profile" in row["why"] for row in rows)


def test_a_profile_that_is_not_over_is_refused(profiled: Profiled) -> None:
    """A profiler that has not run has no events, and the message says to give one after its `with`."""
    with pytest.raises(InputError, match=says("no events", "torch.profiler.profile", "`with`")):
        profiled.trace.attach(torch.profiler.profile())
