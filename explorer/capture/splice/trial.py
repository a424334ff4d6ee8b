"""Try an edited kernel in a process of its own, and say what came of it."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.capture.splice import trial_process
from explorer.capture.splice.job import ANSWER, JOB, PHASE, Answer, Job, Price
from explorer.capture.splice.messages import NOT_PYTHON, located
from explorer.capture.splice.wrapper_text import WrapperText
from explorer.errors import InputError
from explorer.model.values import text_lines
from explorer.process import scratch
from explorer.process.children import command, environment
from explorer.process.undebugged import undebugged
from explorer.process.under_way import step

#: The seconds between two looks whether the verb was asked to stop.
POLL = 0.2
#: The seconds beyond its timeout after which a process ends by itself.
GRACE = 5.0
#: What a phase of a trial is called where it fails.
STATUS = {"": "launch error", "compile": "compile error", "launch": "launch error", "time": "launch error"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial: `status` is "ran" or says how it failed, `message` has the compiler's own words.

    `line` is the line of the edited text. `after` has the arguments after each launch, `seconds` the median of a launch of the
    edited kernel and of the original. `price` is the text's cost on an absent GPU.
    """

    status: str
    message: str = ""
    line: int = 0
    after: Sequence[tuple[Any, ...]] = field(default=(), repr=False)
    seconds: tuple[float, float] | None = None
    price: Price = field(default_factory=Price, repr=False)


def given_timeout(timeout: object, name: str = "timeout") -> None:
    """Raise InputError if a timeout is not a finite number of seconds above 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise InputError(f"{name} is a number of seconds above 0, such as 60, not {timeout!r}")


def tried(job: Job, timeout: float) -> Outcome:
    """Compile and launch the edited kernel of a job in another process, for `timeout` seconds at most."""
    with scratch.folder() as name:
        folder = Path(name)
        return _outcome(started(trial_process.__name__, job, folder, timeout), folder, job, timeout)


def started(module: str, job: object, folder: Path, timeout: float) -> subprocess.Popen[str]:
    """Start a process of explorer's own that reads a job from a folder; after `timeout` seconds it ends by itself at the latest.

    The process that started it may be killed, and then nobody else ends it.
    """
    import torch

    torch.save(job, folder / JOB)
    with undebugged():
        return subprocess.Popen(
            command(module, str(folder), str(timeout + GRACE)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(),
            start_new_session=True,
        )


def _outcome(process: subprocess.Popen[str], folder: Path, job: Job, timeout: float) -> Outcome:
    """Wait for the process, end it at the timeout, and read its answer."""
    import torch

    try:
        printed = _printed(process, folder, job, timeout)
    finally:
        if process.poll() is None:
            end(process)
    if printed is None:
        return Outcome("timeout", f"{_doing(folder)} did not finish within the {timeout:g} s timeout; the process was ended")
    if not (folder / ANSWER).exists():
        return Outcome("crash", _crashed(process.returncode, folder, printed))
    answer: Answer = torch.load(folder / ANSWER, weights_only=False)
    if answer.error is None:
        return Outcome("ran", after=answer.after, seconds=answer.seconds, price=answer.price)
    return _failed(answer, _phase(folder), printed, job)


def _printed(process: subprocess.Popen[str], folder: Path, job: Job, timeout: float) -> str | None:
    """What the process printed to stderr until it ended; None where it has not in `timeout` seconds."""
    printed = waited(process, timeout, lambda: f"trying the edit in a process of its own: {_doing_for(job, folder)}")
    return None if printed is None else printed[1]


def waited(process: subprocess.Popen[str], timeout: float, doing: Callable[[], str]) -> tuple[str, str] | None:
    """Stdout and stderr of a process once it has ended; None where it has not in `timeout` seconds. A stopped verb ends here."""
    until = time.monotonic() + timeout
    while (left := until - time.monotonic()) > 0:
        step(doing())
        try:
            return process.communicate(timeout=min(left, POLL))
        except subprocess.TimeoutExpired:
            continue
    return None


def end(process: subprocess.Popen[str]) -> None:
    """End a process and those that it started, such as compilers."""
    import signal

    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def _phase(folder: Path) -> str:
    return (folder / PHASE).read_text(encoding="utf-8") if (folder / PHASE).exists() else ""


def _doing(folder: Path) -> str:
    return {"compile": "compiling it", "launch": "its launch", "time": "timing it"}.get(_phase(folder), "starting")


def _doing_for(job: Job, folder: Path) -> str:
    """What the process is doing, for a view: for a GPU you don't have the kernel is compiled and then interpreted."""
    doing, target = _doing(folder), job.edited.target
    if target is None:
        return doing
    return {"compiling it": f"compiling it for {target.name}", "its launch": "interpreting it"}.get(doing, doing)


def _crashed(status: int, folder: Path, printed: str) -> str:
    """How the process ended."""
    import signal

    last = "\n".join(text_lines(printed.strip())[-5:])
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    return f"{_doing(folder)} ended the process with {how}" + (f": {last}" if last else "")


def _failed(answer: Answer, phase: str, printed: str, job: Job) -> Outcome:
    """The error of a trial, at its line."""
    assert answer.error is not None
    kind, message = answer.error
    edited = job.edited
    if kind:  # else it is explorer's own sentence
        message = f"{kind}: {message}"
    syntax = "SyntaxError: " in message or NOT_PYTHON in message
    if isinstance(edited, WrapperText):
        source, first = answer.within
        line, message = located(message, source)
        line = line + first - 1 if line else 0
    else:
        line, message = located(f"{message}\n{printed}" if edited.form else message, edited.form_text or edited.source)
    return Outcome("syntax error" if syntax else STATUS[phase], message, line or answer.line, price=answer.price)
