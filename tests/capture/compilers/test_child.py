"""Running a compiler in a child process: what it wrote, and how it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from explorer.capture.compilers.child import run_reading
from tests.facts import untold

pytestmark = pytest.mark.compile


def reading(code: str, folder: Path, lines: list[str], limit: float = 60.0) -> str:
    """Run a Python program, read its errors, and tell how it ended."""
    return run_reading([sys.executable, "-c", code], folder, "the program", limit, lines.extend)


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("import sys; sys.stderr.write('a\\nb\\n')", ()),
        ("import sys; sys.stderr.write('a\\nb\\n'); sys.exit(3)", ("the program", "status 3")),
        ("import os, sys; sys.stderr.write('a\\nb\\n'); sys.stderr.flush(); os.abort()", ("the program", "signal 6")),
    ],
)
def test_its_errors_are_read_and_its_end_is_told(tmp_path: Path, code: str, facts: tuple[str, ...]) -> None:
    """All lines that it wrote are read, also those of a program that crashes."""
    lines: list[str] = []
    ended = reading(code, tmp_path, lines)
    assert not untold(ended, *facts) if facts else ended == ""
    assert lines == ["a\n", "b\n"]


def test_one_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """It is killed after the limit, and what it wrote is there."""
    lines: list[str] = []
    began = time.monotonic()
    code = "import sys, time; print('a', file=sys.stderr, flush=True); time.sleep(600)"
    assert not untold(reading(code, tmp_path, lines, limit=3.0), "the program", "3 s")
    assert time.monotonic() - began < 60 and lines == ["a\n"]


def test_one_that_closed_its_errors_is_ended(tmp_path: Path) -> None:
    """The limit holds until the program ends, not until there is nothing more to read."""
    began = time.monotonic()
    code = "import os, time; os.close(2); time.sleep(60)"
    assert not untold(reading(code, tmp_path, [], limit=3.0), "the program", "3 s")
    assert time.monotonic() - began < 30


def test_one_whose_reader_fails_is_ended(tmp_path: Path) -> None:
    """The reader's error goes through, and nothing waits for the program."""

    def failing(lines: Iterable[str]) -> None:
        raise ValueError(next(iter(lines)))

    code = "import sys, time; print('a', file=sys.stderr, flush=True); time.sleep(600)"
    began = time.monotonic()
    with pytest.raises(ValueError, match="a"):
        run_reading([sys.executable, "-c", code], tmp_path, "the program", 60.0, failing)
    assert time.monotonic() - began < 50
