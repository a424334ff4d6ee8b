"""Try backends in child processes, and remember what came of it until something is installed, removed or upgraded."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from explorer.capture.compilers import trial_process
from explorer.capture.observe.versions import installed_distributions, python_version
from explorer.process import user_cache
from explorer.process.children import command, environment

#: Backends that compile C++, which takes long: they are tried in a process of their own, beside the others.
LONG = ("inductor", "iree_boo_inductor")
#: Seconds that a process is given beyond its limit, to say which backend gave no answer.
GRACE = 2.0


def tried(names: Sequence[str], limit: float) -> Iterator[dict[str, Any]]:
    """One answer a backend as they come, and the names that torch registers; all of them are given so many seconds."""
    answers: list[dict[str, Any]] = []
    ready = threading.Condition()
    short, long = [n for n in names if n not in LONG], [n for n in names if n in LONG]
    groups = [group for group in (short, long) if group] or [[]]

    def run(group: list[str]) -> None:
        for answer in _answers(group, limit):
            with ready:
                answers.append(answer)
                ready.notify()

    threads = [threading.Thread(target=run, args=(group,), daemon=True) for group in groups]
    for thread in threads:
        thread.start()
    given = 0
    while True:
        with ready:
            while given == len(answers) and any(thread.is_alive() for thread in threads):
                ready.wait(0.1)
            fresh = answers[given:]
        given += len(fresh)
        yield from fresh
        if not fresh and not any(thread.is_alive() for thread in threads):
            return


def _answers(names: Sequence[str], limit: float) -> Iterator[dict[str, Any]]:
    """Yield one process's answers on some backends. A backend without an answer gets the way in which the process ended."""
    process = subprocess.Popen(
        command(trial_process.__name__, str(limit), *names),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )
    over: list[bool] = []

    def give_up() -> None:
        over.append(True)
        with suppress(ProcessLookupError, AttributeError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()

    timer = threading.Timer(limit + GRACE, give_up)
    timer.daemon = True
    timer.start()
    silent = list(names)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("backend") in silent:
                silent.remove(answer["backend"])
            yield answer
        status = process.wait()
    finally:
        timer.cancel()
        process.stdout.close() if process.stdout else None
        if process.poll() is None:
            give_up()
            process.wait()
    why = f"no answer in {limit:g} s" if over else f"the process of the trials ended with status {status}"
    yield from ({"backend": name, "works": False, "why": why, "seconds": None} for name in silent)


# Remembered --------------------------------------------------------------------------------------------------------------


def key() -> str:
    """What the trials depend on, as one name.

    That is every installed distribution and its version, this Python, the C++ compiler, the GPU's driver, and how they are tried.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or ""
    drivers = [str(path) for path in (Path("/proc/driver/nvidia/version"), Path("/dev/kfd")) if path.exists()]
    visible = [os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    source = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))
    parts = [*installed_distributions(), sys.prefix, python_version(), platform.platform(), compiler, *drivers, *visible]
    return hashlib.sha256("\n".join(parts).encode() + source).hexdigest()[:16]


def remembered(file: Path) -> dict[str, dict[str, Any]]:
    """Read the remembered results by backend, and under "" the names that torch registers; {} if there is no whole file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remember(file: Path, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the results to the file, in one step. A folder that cannot be written to is no error."""
    with suppress(OSError):
        user_cache.write(file, json.dumps({**remembered(file), **facts}).encode())


def now() -> str:
    """The time, as it is remembered with an answer."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
