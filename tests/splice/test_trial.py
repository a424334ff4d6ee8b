"""The process in which an edit is tried first."""

from __future__ import annotations

import time
from pathlib import Path

import torch

import explorer
from explorer.splice import trial, trial_process
from explorer.splice.job import Job
from explorer.splice.kernels import kernel_text


def test_a_hanging_process_ends_though_nobody_ends_it(tmp_path: Path) -> None:
    """The process that started it may have been killed: one that never returns from C++ ends after its time."""
    kernel = explorer.trace(lambda x: x.sin() + 1, torch.randn(64)).kernels[0]
    live = kernel.trace.needs_live("a launch")
    wrapper = live.wrappers[0]
    (launch,) = live.launches([(wrapper.file, kernel.name)])
    hanging = kernel.source.replace("{", "{\n    for (volatile int i = 0; i == 0;) {}", 1)
    original = kernel_text(wrapper, kernel.name, kernel.source, kernel.language)
    edited = kernel_text(wrapper, kernel.name, hanging, kernel.language)
    began = time.monotonic()
    process = trial.started(trial_process.__name__, Job(edited, original, [(launch.before, {})]), tmp_path, 15.0)
    process.communicate(timeout=120)
    assert process.returncode == 1 and time.monotonic() - began >= 15
