"""benchmarks/sanitizer.py finds planted faults of memory, and calls no right kernel wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import rows_of

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("warm_python")]

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "sanitizer.py"
#: Kernels of the benchmark, each with what is said of it: a fault of each kind, and right ones of both makers.
SAMPLE = {
    "fill, wrong": "found",
    "total, wrong": "found",
    "tiles, wrong": "found",
    "half of torch.empty is written": "found",
    "index_add": "right",
    "total": "right",
}


def test_planted_faults_of_memory_are_found_and_right_kernels_are_clean() -> None:
    """A fault of each kind is found as what it is, and generated and hand-written kernels without one are clean."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--only", *SAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(done.stdout)[2:]
    assert {row[0]: row[2] for row in rows} == SAMPLE
    assert {row[4] for row in rows} == {"not run here"}
    assert "6 kernels: 4 found, 0 FOUND AS ANOTHER, 0 MISSED, 2 right, 0 FALSE" in done.stdout
