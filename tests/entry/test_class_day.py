"""The day before a class as one command: one line says that all is there, or what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from explorer.capture.compilers.readiness import Check
from explorer.entry import class_day
from explorer.entry.cli import main
from explorer.entry.doctor import Diagnosis
from explorer.errors import CompileError
from explorer.workshop.classpack.pack import Copy
from tests.facts import untold

READY = Diagnosis((Check("Python", "everything", "3.12"),))
MISSING = Diagnosis((Check("torch", "tracing", why="torch is not installed", remedy="pip install torch"),))
NOTEBOOKS = [Path("00.ipynb"), Path("01.ipynb")]

Prepare = Callable[..., tuple[int, str]]


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Prepare:
    """Run the command on a machine with this diagnosis, where this notebook does not run; give its status and its output."""

    def prepare(machine: Diagnosis, failing: str = "") -> tuple[int, str]:
        def make(notebooks: Sequence[Path], folder: Path) -> Iterator[Copy]:
            for path in notebooks:
                if path.name == failing:
                    raise CompileError(f"{path}, cell 3, line 1, does not run here: no cc")
                yield Copy(folder / path.name, 9, 4, 1, 1_500_000)

        def diagnosis(warm: bool) -> Diagnosis:
            assert warm
            return machine

        monkeypatch.setattr(class_day, "diagnosis", diagnosis)
        monkeypatch.setattr(class_day, "workshop_notebooks", lambda: NOTEBOOKS)
        monkeypatch.setattr(class_day, "make", make)
        return main(["doctor", "--class", str(tmp_path)]), capsys.readouterr().out

    return prepare


def test_a_machine_that_is_ready_says_so_in_one_line(prepare: Prepare, tmp_path: Path) -> None:
    """The caches are warm, each notebook ran, and the line says where the copies are."""
    status, printed = prepare(READY)
    assert status == 0 and printed.count("\n") == 1
    assert printed.startswith("ready for a class") and not untold(printed, "2 notebooks", str(tmp_path), "3.0 MB")


@pytest.mark.parametrize(
    ("machine", "failing", "facts"),
    [
        (MISSING, "", ("torch is not installed", "pip install torch")),
        (READY, "01.ipynb", ("01.ipynb", "cell 3", "no cc")),
    ],
)
def test_what_is_missing_stands_in_the_line(prepare: Prepare, machine: Diagnosis, failing: str, facts: tuple[str, ...]) -> None:
    """A missing package comes with its remedy, a notebook that does not run with its cell, and the status is 1."""
    status, printed = prepare(machine, failing)
    assert status == 1 and printed.count("\n") == 1
    assert printed.startswith("not ready for a class: ") and not untold(printed, *facts)


def test_the_values_have_the_line_and_the_copies() -> None:
    """What `--json` prints is plain: the line, the checks of the machine, and a row per copy."""
    copy = Copy(Path("pack/00.ipynb"), 9, 4, 1, 10)
    values: Any = json.loads(json.dumps(class_day.ClassDay(READY, Path("pack"), (copy,)).plain()))
    assert values["ready"] and values["line"].startswith("ready") and values["machine"]["checks"][0]["what"] == "Python"
    assert values["pack"]["copies"] == [{"file": "pack/00.ipynb", "statements": 9, "recorded": 4, "linked_files": 1, "size": 10}]
