"""Profiles of a GPU joined with a trace: Chrome traces and Proton files whose times are known, since each test writes them."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from explorer.analysis.questions.fusion import fusion_of
from explorer.errors import FileError, InputError
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.facts import says, untold

_spec = importlib.util.spec_from_file_location("chrome", Path(__file__).parent / "chrome.py")
assert _spec and _spec.loader
chrome = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(chrome)

LAYERS = "views/layers-torch2.13-h100"
GELU = "triton_poi_fused_addmm_gelu_1"
Made = tuple[Any, dict[str, float]]


def write_run(made: Any, trace: Trace, label: str, scale: float, only: str = "") -> dict[str, float]:
    """Write one run of the trace's first graph: launch number n takes n + 1 times `scale` microseconds; a product two kernels.

    Return the microseconds of each kernel and call.
    """
    region = made.begin()
    times: dict[str, float] = {}
    for number, group in enumerate(fusion_of(trace).graphs[0].groups()):
        microseconds = (number + 1) * scale
        for name in group["kernels"]:
            made.call(name, [(name, microseconds)])
        if group["call"]:
            made.call("aten::mm", [("nvjet_sgemm", microseconds / 2), ("splitKreduce", microseconds / 2)])
        for name in group["kernels"] or (group["name"],):
            times[name] = times.get(name, 0.0) + microseconds
    made.end(f"Torch-Compiled Region: {label}", region)
    return times


@pytest.fixture
def two_runs(replayed: Callable[[str], Trace], tmp_path: Path) -> tuple[Trace, Trace, Mapping[str, float], float]:
    """The trace, the same with a profile of two runs, the microseconds of each kernel and call, and those of the profile."""
    trace, made = replayed(LAYERS), chrome.ChromeTrace()
    made.call("aten::copy_", [("Memcpy HtoD", 40.0)])
    made.call("aten::mm", [("nvjet_sgemm", 5.0)])  # the program's own, outside
    first = write_run(made, trace, "3/0", 1.0)
    second = write_run(made, trace, "3/0", 3.0)
    whole = sum(event["dur"] for event in made.events if event.get("cat") == "kernel")
    both = {name: first[name] + second[name] for name in first}
    return trace, trace.attach(made.write(tmp_path / "gpu.json")), both, whole


def test_each_kernel_and_call_has_the_time_that_the_profile_has(two_runs: Any) -> None:
    """Kernels are joined by name, products by their order, with both of their kernels; a row is the mean of the two runs."""
    _, profiled, microseconds, _ = two_runs
    rows = {row["kernel"]: row for row in profiled.kernels.table} | {row["node"]: row for row in profiled.inductor.extern_calls}
    assert {name: row["seconds"] * 2e6 for name, row in rows.items()} == pytest.approx(microseconds)
    assert {row["timed"] for row in rows.values()} == {"measured"}
    assert not untold(rows[GELU]["seconds_known"], "NVIDIA H100 80GB HBM3", "12 launches", "2 runs")


def test_all_rows_make_up_the_time_of_the_profile(two_runs: Any) -> None:
    """What is not the trace's has rows of its own, so that nothing is lost: the sum is that of the device's events."""
    _, profiled, _, whole = two_runs
    assert sum(row["seconds"] for row in profiled.profile.table) * 1e6 == pytest.approx(whole)
    others = {(row["events"], row["launches"]): row for row in profiled.profile.table if row["kind"] == "not joined"}
    assert {key: row["seconds"] * 1e6 for key, row in others.items()} == {
        (("Memcpy HtoD",), 1): pytest.approx(40.0),
        (("nvjet_sgemm",), 1): pytest.approx(5.0),
    }
    (why,) = {row["why"] for row in others.values()}
    assert not untold(why, "outside", "compiled functions")
    assert {row["kernel"] for row in others.values()} == {"Memcpy HtoD", "nvjet_sgemm"}, "each row says what it is of"


def test_each_launch_of_a_kernel_has_its_own_time_in_the_graph(two_runs: Any) -> None:
    """The boxes of the graph are painted with the launch that computes them, also of a kernel that is launched six times."""
    _, profiled, _, _ = two_runs
    costs = payload(profiled)["fusion"][0]["costs"]
    assert [cost["seconds"] * 1e6 for cost in costs if cost["seconds"]] == pytest.approx(
        [(number + 1) * 2.0 for number in range(len(costs))]
    )
    assert {cost["timed"] for cost in costs} == {"measured"}


def test_what_was_measured_takes_the_place_of_estimates_in_what_a_call_takes(two_runs: Any) -> None:
    """The ranking of launches, the trace's own print and the advice go by the profile; without it they are estimates."""
    trace, profiled, microseconds, _ = two_runs
    rows = profiled.profile.launches
    assert {row["known"] for row in rows} == {"measured"} and {row["known"] for row in trace.profile.launches} == {"estimated"}
    assert sum(row["seconds"] for row in rows) * 2e6 == pytest.approx(sum(microseconds.values()))
    assert "measured:" in repr(profiled) and "launches measured" in profiled.advise().about


def test_nodes_and_lines_share_the_time_of_their_kernels(two_runs: Any) -> None:
    """All nodes together, and all lines together, have the time of one run; a product's node has its call's."""
    _, profiled, microseconds, _ = two_runs
    a_run = sum(microseconds.values()) / 2e6
    assert sum(row["seconds"] for row in profiled.profile.nodes) == pytest.approx(a_run)
    lines = profiled.profile.lines
    assert sum(row["seconds"] for row in lines) == pytest.approx(a_run)
    assert sum(row["share"] for row in lines) == pytest.approx(1.0)
    product = next(row for row in profiled.profile.nodes if row["kernels"] == ("op4",))
    assert product["seconds"] * 2e6 == pytest.approx(microseconds["op4"])


def test_gaps_between_launches_are_idle_time(two_runs: Any) -> None:
    """Between two launches of a run the device waits, by the profile's own times; the first launch of a run waits for nothing."""
    _, profiled, _, _ = two_runs
    idle = {row["kernel"]: row["idle"] for row in profiled.profile.table if row["kind"] != "not joined"}
    assert idle["triton_per_fused_native_layer_norm_0"] == 0.0
    assert all(seconds > 0 for name, seconds in idle.items() if name != "triton_per_fused_native_layer_norm_0")


def test_a_line_of_the_profile_leads_to_its_kernel_and_to_the_program(two_runs: Any) -> None:
    """The profile is a text with links: each of its rows leads to a kernel's lines and on to the program's."""
    _, profiled, _, _ = two_runs
    (artifact,) = profiled.find("profile")
    number = next(n for n, line in enumerate(artifact.lines, 1) if GELU in line)
    reached = {row["stage"] for row in profiled.follow(artifact.id, number)}
    assert {"kernel", "source"} <= reached


def test_a_second_profile_takes_the_place_of_the_first(two_runs: Any, tmp_path: Path) -> None:
    """A trace has one profile: the last; the first trace is as it was."""
    trace, profiled, _, _ = two_runs
    made = chrome.ChromeTrace()
    write_run(made, trace, "0/0", 7.0)
    again = profiled.attach(made.write(tmp_path / "again.json"))
    assert len(again.find("profile")) == 1 and again.kernels.table[0]["seconds"] * 1e6 == pytest.approx(7.0)
    assert not trace.find("profile") and {row["timed"] for row in trace.kernels.table} == {"estimated"}


def test_calls_that_do_not_match_are_listed_and_not_guessed(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """Where a run calls an operator more often than the output code, which call is which is not known: all are listed."""
    trace, made = replayed(LAYERS), chrome.ChromeTrace()
    region = made.begin()
    made.call(GELU, [(GELU, 4.0)])
    made.call("aten::mm", [("nvjet_sgemm", 6.0)])
    made.end("Torch-Compiled Region: 0/0", region)
    profiled = trace.attach(made.write(tmp_path / "few.json"))
    (other,) = (row for row in profiled.profile.table if row["kind"] == "not joined")
    assert not untold(other["why"], "mm", "1", "14") and other["seconds"] * 1e6 == pytest.approx(6.0)


def test_forward_and_backward_are_told_apart(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """The backward's run is that inside autograd's CompiledFunctionBackward; its kernels are not the forward's."""
    trace, made = replayed("mlp_train-torch2.11-cuda"), chrome.ChromeTrace()
    region = made.begin()
    made.call("triton_poi_fused_gelu_0", [("triton_poi_fused_gelu_0", 4.0)])
    made.end("Torch-Compiled Region: 0/0", region)
    region = made.begin()
    made.call("triton_per_fused_sum_0", [("triton_per_fused_sum_0", 6.0)])
    made.end("CompiledFunctionBackward", region)
    rows = trace.attach(made.write(tmp_path / "train.json")).profile.table
    assert {(row["graph"], row["kernel"], round(row["seconds"] * 1e6, 6)) for row in rows} == {
        ("forward", "triton_poi_fused_gelu_0", 4.0),
        ("backward", "triton_per_fused_sum_0", 6.0),
    }


def test_kernels_of_a_cuda_graph_are_joined_by_name(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """A replayed CUDA graph has one launch for all of its kernels: generated ones have names, the others are listed."""
    trace, made = replayed(LAYERS), chrome.ChromeTrace()
    region = made.begin()
    made.launch(GELU, 5.0)
    made.events[-1]["args"]["correlation"] = 1
    made.span("kernel", GELU, 200.0, 5.0, correlation=1)
    made.span("kernel", "nvjet_sgemm", 210.0, 9.0, correlation=1)
    made.end("Torch-Compiled Region: 0/0", region)
    rows = {row["events"]: row for row in trace.attach(made.write(tmp_path / "graph.json")).profile.table}
    assert rows[(GELU,)]["launches"] == 2 and rows[(GELU,)]["seconds"] * 1e6 == pytest.approx(10.0)
    assert rows[("nvjet_sgemm",)]["kind"] == "not joined"


def test_a_file_of_proton_is_joined_by_name(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """Proton's tree has the sum and the number of launches of each kernel, in nanoseconds, below the scopes of the program."""
    kernel = {"frame": {"name": GELU, "type": "function"}, "metrics": {"count": 12, "time (ns)": 24000, "device_id": "0"}}
    other = {"frame": {"name": "nvjet_sgemm", "type": "function"}, "metrics": {"count": 2, "time (ns)": 1000, "device_id": "0"}}
    scope = {"frame": {"name": "step", "type": "function"}, "metrics": {}, "children": [{**kernel, "children": []}]}
    root = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [scope, {**other, "children": []}]}
    path = tmp_path / "proton.hatchet"
    path.write_text(json.dumps([root, {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}]), encoding="utf-8")
    profiled = replayed(LAYERS).attach(path)
    row = next(row for row in profiled.kernels.table if row["kernel"] == GELU)
    assert row["seconds"] == pytest.approx(12e-6) and "Proton" in row["seconds_known"]  # 12 launches are two runs of six
    assert sum(row["seconds"] for row in profiled.profile.table) == pytest.approx(25e-6)


def test_a_gzipped_trace_is_read(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """What export_chrome_trace writes to a name with .gz is gzipped."""
    made = chrome.ChromeTrace()
    made.call(GELU, [(GELU, 4.0)])
    plain = made.write(tmp_path / "plain.json")
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    trace = replayed(LAYERS)
    assert trace.attach(packed).profile.table == trace.attach(str(plain)).profile.table


@pytest.mark.parametrize(
    ("text", "error", "facts"),
    [
        ("not JSON", FileError, ("other.json", "profile", "line 1 column 1", "export_chrome_trace")),
        ('{"a": 1}', FileError, ("other.json", "profile", "KeyError: 'traceEvents'", "export_chrome_trace")),
        (
            '{"traceEvents": [{"ph": "X", "cat": "kernel"}]}',
            FileError,
            ("other.json", "profile", "KeyError: 'name'", "export_chrome_trace"),
        ),
        ('{"traceEvents": []}', InputError, ("profile", "trace", GELU)),
    ],
)
def test_what_is_no_profile_says_so(
    replayed: Callable[[str], Trace], tmp_path: Path, text: str, error: type[Exception], facts: tuple[str, ...]
) -> None:
    """A file that is none, or that has nothing of the trace, is an error that says what to give."""
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=says(*facts)):
        replayed(LAYERS).attach(path)


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b\x08\x00" + b"\x00" * 6 + b"\xff" * 20, b"[" * 200_000, gzip.compress(b"{}", mtime=0)[:-6]]
)
def test_a_damaged_file_says_so(replayed: Callable[[str], Trace], tmp_path: Path, data: bytes) -> None:
    """A .gz that is not what was compressed, or is cut off, and JSON that is too deep are files that cannot be read."""
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(data)
    with pytest.raises(FileError, match=says("damaged.json.gz", "read", "profile", "export_chrome_trace")):
        replayed(LAYERS).attach(path)


def test_without_a_profile_its_tables_are_empty(replayed: Callable[[str], Trace]) -> None:
    """The tables of measured times have their columns and no row; anything but a profile is refused by its type."""
    trace = replayed(LAYERS)
    for rows in (trace.profile.table, trace.profile.lines, trace.profile.nodes):
        assert len(rows) == 0 and "seconds" in rows.columns
    with pytest.raises(InputError, match=says("int", "profile", "attach")):
        trace.attach(3)
