"""An error in explorer never breaks the user's program: functions that run while it compiles are made to fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "faults.py"


@pytest.mark.parametrize(("program", "every", "start"), [("h100", 150, 20), ("record_h100", 150, 90)])
def test_a_function_of_explorers_that_fails_is_named_and_the_program_runs(program: str, every: int, start: int) -> None:
    """At sites spread over all that one run enters: the result is right, and the loss named. `make faults` tries all sites."""
    command = [sys.executable, str(SCRIPT), program, "--within", "600", "--every", str(every), "--start", str(start)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
