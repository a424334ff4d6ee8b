"""pdb on files: what of the program's own debugging is as before."""

from __future__ import annotations

import bdb
import io
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.errors import InputError
from explorer.lab.stepping.debugger import debugged
from tests.facts import says


@pytest.fixture
def program(tmp_path: Path, module_at: Callable[[Path], ModuleType]) -> Any:
    """A module of one function."""
    path = tmp_path / "program.py"
    path.write_text("def call(x):\n    y = x + 1\n    return y\n", encoding="utf-8")
    return module_at(path)


def test_breakpoints_of_the_program_stay(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Those set here are cleared, also where a line has no code; the program's own are there as before."""
    own = bdb.Breakpoint(__file__, 1)
    try:
        assert debugged(lambda: program.call(1), [program.__file__], (3,), ["p y"]) == 2
        with pytest.raises(InputError, match=says("line 99", "3")):
            debugged(lambda: program.call(1), [program.__file__], (3, 99), [])
        assert [each for each in bdb.Breakpoint.bpbynumber if each is not None] == [own]
    finally:
        own.deleteMe()
    assert "program.py(3)call()" in capsys.readouterr().out


def test_an_interrupt_does_what_it_did(program: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A user's "continue" makes pdb take Ctrl-C; after the run it is the program's again."""
    before, seen = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr("sys.stdin", io.StringIO("continue\n"))

    def run() -> object:
        returned = program.call(1)
        seen.append(signal.getsignal(signal.SIGINT))
        return returned

    assert debugged(run, [program.__file__], (3,), None) == 2
    assert seen != [before] and signal.getsignal(signal.SIGINT) is before
    assert "program.py(3)call()" in capsys.readouterr().out
