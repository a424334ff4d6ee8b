"""Traces for Perfetto: the format, and the sums of its slices against the trace's own tables."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from explorer.analysis.questions.fusion import fusion_of
from explorer.tracing.traced import Trace

LAYERS = "views/layers-torch2.13-h100"


def written(trace: Trace, path: Path) -> list[dict[str, Any]]:
    trace.profile.to_perfetto(path)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events: list[dict[str, Any]] = json.loads(data)["traceEvents"]
    return events


def track(events: list[dict[str, Any]], title: str) -> list[dict[str, Any]]:
    """The slices and instants of the track whose name ends with `title`."""
    (name,) = (e for e in events if e["ph"] == "M" and e["name"] == "thread_name" and e["args"]["name"].endswith(title))
    return [e for e in events if e["ph"] != "M" and (e["pid"], e["tid"]) == (name["pid"], name["tid"])]


@pytest.fixture(params=["layers.json", "layers.json.gz"])
def events(request: pytest.FixtureRequest, replayed: Callable[[str], Trace], tmp_path: Path) -> list[dict[str, Any]]:
    return written(replayed(LAYERS), tmp_path / request.param)


def test_each_event_is_one_of_chromes_format(events: list[dict[str, Any]]) -> None:
    """Every event has what the Trace Event Format asks of its kind: metadata, complete events and instants."""
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= event.keys() and event["ph"] in ("M", "X", "i")
        assert event["ph"] == "M" or (event["ts"] >= 0 and isinstance(event["args"], dict))
        assert event["ph"] != "X" or event["dur"] >= 0
        assert event["ph"] != "i" or event["s"] == "t"


def test_slices_of_a_track_are_nested(events: list[dict[str, Any]]) -> None:
    """Perfetto draws the slices of a track by their nesting: of two slices one is in the other, or they do not overlap."""
    for place in {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}:
        open_until: list[float] = []
        slices = (e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == place)
        for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= event["ts"] + 1e-3:
                open_until.pop()
            assert not open_until or event["ts"] + event["dur"] <= open_until[-1] + 1e-3
            open_until.append(event["ts"] + event["dur"])


def test_no_slice_begins_a_nanosecond_before_the_end_of_the_last(events: list[dict[str, Any]]) -> None:
    """Perfetto's trace processor rounds begin and length to nanoseconds, and drops what then overlaps: nothing does."""
    launches = track(events, "kernels")
    assert len(launches) > 3
    for event, following in pairwise(launches):
        assert round(event["ts"] * 1e3) + round(event["dur"] * 1e3) <= round(following["ts"] * 1e3)
    for event in (e for e in events if e["ph"] == "X"):
        assert (event["ts"] * 1e3, event["dur"] * 1e3) == pytest.approx((round(event["ts"] * 1e3), round(event["dur"] * 1e3)))


def test_phases_are_those_of_the_timings(events: list[dict[str, Any]], replayed: Callable[[str], Trace]) -> None:
    """Each phase is a slice of its seconds, at its start, and the outermost has torch's figures of the compile."""
    timings = replayed(LAYERS).compiler.phases
    slices = [e for e in track(events, "phases") if e["ph"] == "X"]
    assert sum(e["dur"] for e in slices) == pytest.approx(sum(row["seconds"] or 0 for row in timings) * 1e6)
    assert [(e["name"], e["ts"]) for e in slices] == [
        (row["name"], pytest.approx(row["start"] * 1e6)) for row in timings if row["seconds"] is not None
    ]
    assert slices[0]["args"]["compile_metrics"]


def test_passes_are_those_that_changed_a_graph(events: list[dict[str, Any]], replayed: Callable[[str], Trace]) -> None:
    """Each pass that changed something is on the track of passes, with its seconds."""
    passes = replayed(LAYERS).inductor.passes.where(changed=True)
    assert [e["name"] for e in track(events, "passes")] == [row["name"] for row in passes] != []
    assert [e.get("dur") for e in track(events, "passes")] == [pytest.approx(row["seconds"] * 1e6) for row in passes]


def test_launches_are_in_order_and_take_what_the_tables_say(
    events: list[dict[str, Any]], replayed: Callable[[str], Trace]
) -> None:
    """One run: each launch of the scheduler's order once, one after the other, all together as long as kernels and calls."""
    trace = replayed(LAYERS)
    launches = track(events, "kernels")
    expected = [group["call"] or group["kernels"][0] for group in fusion_of(trace).graphs[0].groups()]
    assert [e["name"] for e in launches] == expected
    whole = sum(row["seconds"] for row in (*trace.kernels.table, *trace.inductor.extern_calls))
    assert sum(e["dur"] for e in launches) == pytest.approx(whole * 1e6, abs=2e-3)
    first = launches[0]["args"]
    assert first["time"] == "estimated" and first["operators"] and first["user_lines"] and first["bytes_read"]


def test_a_kernel_without_a_time_is_an_instant(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """Where nothing is known of a kernel's time, as on the CPU, it has no length that could be taken for one."""
    trace = replayed("views/layers-torch2.13-h100")
    cpu = Trace(meta={**trace.meta, "target": "cpu"}, artifacts=trace.artifacts, links=trace.links)
    assert {e["ph"] for e in track(written(cpu, tmp_path / "cpu.json"), "kernels")} == {"i"}
