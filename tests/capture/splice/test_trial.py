"""The process in which an edit is tried first."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from explorer.capture.splice import trial, trial_process
from explorer.capture.splice.job import Job
from explorer.capture.splice.wrapper_text import WrapperText

pytestmark = pytest.mark.compile

#: It never returns from C, and never gives the interpreter back.
HANGS = "import ctypes\n\n\ndef call(args):\n    ctypes.PyDLL(None).pause()\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pause() is a function of Unix's C library")
def test_a_hanging_process_ends_though_nobody_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that started it may have been killed: one that never returns from C ends after its time."""
    monkeypatch.setattr(trial, "GRACE", 1.0)
    text = WrapperText(HANGS, str(tmp_path / "hangs.py"))
    for limit in (1.0, 10.0, 100.0):
        began = time.monotonic()
        process = trial.started(trial_process.__name__, Job(text, text, [((), {})]), tmp_path, limit)
        try:
            process.communicate(timeout=200)
        finally:
            if process.poll() is None:
                trial.end(process)
        # 1, or that of SIGSEGV: faulthandler reads the frames of threads that run on, such as one that imports torch
        assert process.returncode and time.monotonic() - began >= limit + 1
        if trial._phase(tmp_path) == "launch":
            break  # else a loaded machine took all of that time to begin
    else:
        pytest.fail("no launch has begun")
