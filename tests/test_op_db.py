"""The script of PyTorch's operator database counts the whole traces and explains the others; here for a few operators."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("warm_python")]

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "op_db.py"


def test_operators_are_traced_with_every_kernel_and_a_check(tmp_path: Path) -> None:
    """An elementwise one, a reduction, a library's, one that torch would run to find out, and one that Dynamo cannot take."""
    file = tmp_path / "rows.jsonl"
    names = ["erfinv", "logsumexp", "geqrf", "_batch_norm_with_update", "sparse.sampled_addmm"]
    command = [sys.executable, str(SCRIPT), "--plain", "none", "--json", str(file), "--only", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 of 5 operators are whole" in done.stdout
    rows = {row["name"]: row for row in map(json.loads, file.read_text().splitlines())}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        **dict.fromkeys(names[:4], "whole"),
        "sparse.sampled_addmm": "python",
    }
    assert [len(rows[name]["kernels"]) for name in names[:3]] == [1, 1, 0]


def test_an_operator_that_ends_its_process_loses_only_itself(tmp_path: Path) -> None:
    """A limit of no time stops the process at the first operator; each of the others gets a process and a row."""
    names = ["abs", "sin"]
    command = [sys.executable, str(SCRIPT), "--plain", "none", "--limit", "0.1", "--only", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.count("timed out: ") == 2, done.stdout + done.stderr
