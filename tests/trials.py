"""Trials of edits, made cheaper: in the process of the test, or with a time limit that covers nothing but the launch.

A process of its own imports torch first, which takes seconds. Each outcome of a real one has a test in `live/test_editing.py`
or `live/test_wrapper_editing.py`; where the outcome is not the point, the trial may run in the process of the test.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from explorer.capture.splice import trial, trial_process
from explorer.capture.splice.job import JOB

#: The most seconds that a process may take until it launches what is edited.
PATIENCE = 300.0


class Ended:
    """Stands for a process that has ended well and printed nothing."""

    returncode = 0

    def poll(self) -> int:
        """The exit status."""
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Stdout and stderr."""
        return "", ""


def try_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Run the program of a trial here, with the same job and the same answer, in files."""

    def started(module: str, job: object, folder: Path, timeout: float) -> Any:
        assert module == trial_process.__name__ and timeout > 0
        torch.save(job, folder / JOB)
        trial_process.main(folder)
        return Ended()

    patch.setattr(trial, "started", started)


def limit_the_launch_only(patch: pytest.MonkeyPatch) -> None:
    """Start a trial's process and wait until it launches what is edited; its time limit begins there.

    A process that hangs in the launch is then stopped after a second, however long the machine took to start it.
    """
    start = trial.started

    def started(module: str, job: object, folder: Path, timeout: float) -> subprocess.Popen[str]:
        process = start(module, job, folder, PATIENCE)
        until = time.monotonic() + PATIENCE
        while trial._phase(folder) != "launch" and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        return process

    patch.setattr(trial, "started", started)
