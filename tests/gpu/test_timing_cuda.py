"""On an attached NVIDIA GPU: profiles joined with a trace, and kernels timed by events, held to torch.profiler's own sums."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import DeviceType

import explorer
from explorer.capture.splice.launches import Intercepted
from explorer.lab.live import kernel_times
from explorer.lab.live.protocol import needs_live
from explorer.tracing.traced import Trace

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
RUNS = 5


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(1024), nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + self.down(nn.functional.gelu(self.up(self.norm(x)))), -1)


@pytest.fixture(scope="module")
def traced() -> Trace:
    model = Block().cuda().half().eval()
    trace = explorer.trace(model, torch.randn(4096, 1024, device="cuda", dtype=torch.float16), target="cuda")
    trace.raise_for_failures()
    return trace


@pytest.fixture(scope="module")
def profiler(traced: Trace) -> Any:
    traced.live.run()
    torch.cuda.synchronize()
    with torch.profiler.profile() as profiler:
        for _ in range(RUNS):
            traced.live.run()
        torch.cuda.synchronize()
    return profiler


def device_seconds(profiler: Any) -> float:
    """The time of all that ran on the device, by the profiler's own averages."""
    events = [e for e in profiler.key_averages() if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    return sum(e.self_device_time_total for e in events) / 1e6


def test_the_sum_is_that_of_the_profiler(traced: Trace, profiler: Any) -> None:
    """All rows together have the device time of key_averages; every kernel and library call of the trace is among them."""
    joined = traced.attach(profiler)
    assert sum(row["seconds"] for row in joined.profile.table) == pytest.approx(device_seconds(profiler), rel=1e-6)
    rows = [*joined.kernels.table, *joined.inductor.extern_calls]
    assert len(rows) > 3 and {row["timed"] for row in rows} == {"measured"}
    assert {row["runs"] for row in joined.profile.table if row["kind"] != "not joined"} == {RUNS}
    assert any(row["idle"] for row in joined.profile.table if row["kind"] != "not joined")


def test_each_kernel_has_the_profilers_time(traced: Trace, profiler: Any) -> None:
    """A generated kernel's seconds are those of the device events of its name."""
    averages = {e.key: e for e in profiler.key_averages() if e.device_type == DeviceType.CUDA and not e.is_user_annotation}
    for row in traced.attach(profiler).kernels.table:
        assert row["seconds"] * RUNS * 1e6 == pytest.approx(averages[row["kernel"]].self_device_time_total, rel=1e-6)


def test_an_exported_trace_gives_the_same(traced: Trace, profiler: Any, tmp_path: Path) -> None:
    """The Chrome trace of the same profile has the same times, and names the GPU."""
    path = tmp_path / "trace.json.gz"
    profiler.export_chrome_trace(str(path))
    read, live = traced.attach(path), traced.attach(profiler)
    for one, other in zip(read.kernels.table, live.kernels.table, strict=True):
        assert one["seconds"] == pytest.approx(other["seconds"], rel=1e-3)
    assert torch.cuda.get_device_name() in read.kernels.table[0]["seconds_known"]


def test_kernels_timed_by_events_are_near_the_profilers(traced: Trace, profiler: Any) -> None:
    """With a cold cache a kernel takes no less than about what the profiler has, and not several times as much."""
    profiled = {row["kernel"]: row for row in traced.attach(profiler).profile.table if row["kind"] != "not joined"}
    rows = traced.live.profile(10)
    assert {row["kernel"] for row in rows} == set(profiled)
    for row in rows:
        warm = profiled[row["kernel"]]["seconds"] / RUNS
        assert 0.7 * warm - 5e-6 < row["seconds"] < 3 * warm + 15e-6
        assert row["low"] <= row["seconds"] <= row["high"] and row["idle"] is None


def test_a_slow_host_adds_nothing_to_a_kernels_time(traced: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch is prepared 2 ms longer: the device is kept busy that long, and the times stay what they were."""

    class Slow(Intercepted):
        def run(self, *args: Any, **keywords: Any) -> Any:
            def launch(*args: Any, **keywords: Any) -> Any:
                time.sleep(0.002)
                return self._kernel.run(*args, **keywords)

            return self._note(launch, args, keywords)

    before = {row["kernel"]: row["seconds"] for row in traced.live.profile(5)}
    monkeypatch.setattr(kernel_times, "Intercepted", Slow)
    rows = traced.live.profile(5)
    # on a machine with other work the host may be slower by more than can be hidden: such a row says so
    measured = [row for row in rows if not row["how"].endswith(kernel_times.WAITED)]
    assert measured and all(row["seconds"] < 2 * before[row["kernel"]] + 20e-6 for row in measured), rows
    assert {row["how"] for row in measured} == {kernel_times.ON_GPU}


def test_no_kernel_is_above_the_attained_roof(traced: Trace, profiler: Any) -> None:
    """The peaks are measured on this GPU; measured kernels lie below them, but for what L2 and the clock add."""
    line = traced.attach(profiler).profile.roofline()
    peaks = {row["what"]: row for row in line.peaks}
    assert line.device == torch.cuda.get_device_name() and peaks["memory"]["attained"] < 1.05 * peaks["memory"]["spec"]
    placed = [row for row in line.table if row["share"] is not None]
    assert placed and {row["timed"] for row in placed} == {"measured"}
    products = [row for row in placed if row["limit"] == "operations"]
    assert products and all(row["share"] < 1.2 for row in products)


def test_every_kernel_of_gpt2_is_placed_and_their_sum_is_the_profilers() -> None:
    """GPT-2: each kernel and library call has a measured time, together within 5 % of what the profiler has in these runs."""
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)).cuda().half().eval()
    trace = explorer.trace(model, torch.randint(0, 50257, (4, 256), device="cuda"), target="cuda")
    trace.raise_for_failures()
    compiled = needs_live(trace, "profiling").compiled  # type: ignore[attr-defined]
    tokens = torch.randint(0, 50257, (4, 256), device="cuda")
    with torch.no_grad():
        compiled(tokens)
        with torch.profiler.profile() as profiler:
            for _ in range(RUNS):
                compiled(tokens)
            torch.cuda.synchronize()
    rows = trace.attach(profiler).profile.roofline().table
    assert len(rows) > 10 and {row["timed"] for row in rows} == {"measured"}
    assert sum(row["seconds"] for row in rows) * RUNS == pytest.approx(device_seconds(profiler), rel=0.05)
