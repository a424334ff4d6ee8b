"""The script that compares estimated with measured seconds: what it stores, and that a case's crash stops no other."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.reference.gpus.figures import Target
from tests.facts import untold

pytestmark = pytest.mark.benchmarks

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "estimates.py"
#: In place of the script's own process: prints a row a case, dies at "bad", and says nothing more at "slow".
WORKER = """
import json, os, sys, time
for name in sys.argv[1:]:
    print("row: " + json.dumps({"began": name}), flush=True)
    print("a line of torch's", flush=True)
    if name == "bad":
        os._exit(3)
    if name == "slow":
        time.sleep(60)
    print("row: " + json.dumps({"case": name, "measured": 1.0}), flush=True)
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module, without running it."""
    spec = importlib.util.spec_from_file_location("estimates", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(script: ModuleType, *names: str, total: float = 60) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", WORKER]
    return [row for row in script.measure(names, 1.0, total, command) if "began" not in row]


def test_a_case_that_crashes_or_hangs_is_a_row_and_the_others_are_measured(script: ModuleType) -> None:
    """After the process ended, or was ended, another one measures the cases that are left."""
    rows = measured(script, "a", "bad", "b", "slow", "c")
    assert [row["case"] for row in rows] == ["a", "bad", "b", "slow", "c"]
    failed = [row.get("failed") for row in rows]
    assert [bool(why) for why in failed] == [False, True, False, True, False]
    assert not untold(failed[1], "3", "a line of torch's") and not untold(failed[3], "1 s", "a line of torch's")


def test_a_process_that_cannot_begin_ends_the_run_all_the_same(script: ModuleType) -> None:
    """Each case is a row with the last words of its process, and none is tried twice."""
    rows = list(script.measure(["a", "b"], 5.0, 60.0, [sys.executable, "-c", "raise SystemExit('no torch')"]))
    assert [row["case"] for row in rows] == ["a", "b"]
    assert [untold(row["failed"], "1", "no torch") for row in rows] == [[], []]


def test_after_the_time_that_is_given_no_case_begins(script: ModuleType) -> None:
    """The cases that were left out are named, so that nobody takes a part for the whole."""
    rows = measured(script, "a", "b", total=-1)
    assert [untold(row["failed"], "-1 s") for row in rows] == [[], []]


def test_the_summary_counts_what_takes_more_than_a_launch(script: ModuleType) -> None:
    """The median factor and those within 1.3 are of rows above 2 µs, estimated too long or too short alike, if they have one."""
    times = ((10.0, 12.5), (10.0, 8.0), (10.0, 20.0), (1.0, 9.0), (10.0, None))
    rows = [{"case": "c", "title": "k", "outside": "", "measured": m, "estimated": e, "limits": ""} for m, e in times]
    said = script.summary(rows)
    assert not untold(said, "3 of more than 2 µs: median factor 1.25, 2 within 1.3 ×", "1 without an estimate")
    shown = script.shown({**rows[-1], "read": 1, "written": 1, "operations": 0})
    assert "no estimate" in shown


def test_a_file_of_measurements_is_estimated_anew_as_it_was(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is stored of a trace gives the very seconds that the trace's own tables have, without a GPU."""
    pytest.importorskip("triton")
    import torch

    import explorer

    stages = tuple(s for s in explorer.types.STAGES if s.name in ("dynamo", "fusion", "post_grad", "kernel", "output_code"))
    trace = explorer.trace(lambda x: (x @ x).softmax(-1), torch.empty(512, 512, device="meta"), target="h200", stages=stages)
    file = tmp_path / "rows.jsonl"
    lines = [json.dumps({"case": "c", **row, "measured": 2.0}, default=dict) for row in script.counted_rows(trace)]
    file.write_text("\n".join(lines))
    kernel, call = (script.compared(row, Target.parse("h200")) for row in script.read(file))
    assert kernel["estimated"] == pytest.approx(1e6 * trace.kernels.table[0]["seconds"]) and "tl.load" in kernel["text"]
    assert call["estimated"] == pytest.approx(1e6 * trace.inductor.extern_calls[0]["seconds"]) and call["title"] == "aten.mm"
    assert not untold(script.summary([kernel, call]), "2 kernels")
    options = argparse.Namespace(source=file, target="h200", retrace=None, only=[])
    assert script.stored(options) == 0 and not untold(capsys.readouterr().out, "2 kernels", "median")
