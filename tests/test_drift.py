"""benchmarks/drift.py names planted causes of drift, and nothing in programs without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import rows_of

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("warm_python")]

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "drift.py"
#: Programs of the benchmark, and what is said of each: causes in a line, in the compiler and in the batch, and two without one.
SAMPLE = {
    "one cast to bfloat16": "found",
    "a large number and back": "found",
    "softmax without the maximum": "found",
    "rounded once, not six times": "found",
    "a kernel by the batch": "found",
    "softmax": "right",
    "two layers": "right",
}


def test_planted_causes_are_named_and_other_programs_have_none() -> None:
    """Each planted cause is named with its line, and a program without one has no line that stands out."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--only", *SAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(done.stdout)[2:]
    assert {row[0]: row[2] for row in rows} == SAMPLE
    assert "7 programs: 5 found, 0 MISSED, 0 FALSE BESIDE IT, 2 right, 0 FALSE" in done.stdout
