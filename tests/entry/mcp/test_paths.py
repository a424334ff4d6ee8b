"""A server that is given pipes, devices, huge files and huge folders answers on: a sample of benchmarks/mcp_paths.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import rows_of

pytest.importorskip("mcp", reason="the extra mcp is not installed")

pytestmark = [pytest.mark.benchmarks, pytest.mark.skipif(sys.platform != "linux", reason="its devices are Linux's")]

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "mcp_paths.py"
SAMPLE = ("pipe", "zero", "its memory", "/", "sparse log", "sparse gzip of a log", "many files", "link to itself")


def test_the_server_answers_on_whatever_path_it_is_given() -> None:
    """Each request and each question has an answer, also all at once, in memory for two files of the largest size.

    Of these paths one can be opened: the log that zeros follow.
    """
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--files", "20100", "--paths", *SAMPLE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(done.stdout)[2:]
    assert {name for name, *_ in rows} == {*SAMPLE, "all"}
    assert {(name, tool) for name, tool, *_, said in rows if said == "answered"} == {("sparse gzip of a log", "load")}
    assert all(int(peak) < 2500 for *_, peak, _ in rows)
