"""Run a compiler in a child process: what it is asked for may end the process that it runs in, or never end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event, Timer

from explorer.process.undebugged import undebugged


def run(command: Sequence[str], folder: Path, name: str, limit: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in a folder, for at most `limit` seconds. Returns "" on success, else an error message with its output."""
    try:
        with undebugged():
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
                stdin=subprocess.DEVNULL,
            )
    except subprocess.TimeoutExpired:
        return f"{name} gave no answer in {limit:g} s"
    if not done.returncode:
        return ""
    said = done.stderr.replace(f"{folder}/", "").strip()
    if done.returncode < 0:
        said = said.partition("\nPlease report issues")[0]  # behind it is a stack of addresses
        return f"{name} crashed with signal {-done.returncode}: {said[:2000]}".strip().removesuffix(":")
    return said or f"{name} ended with status {done.returncode}"


def run_reading(command: Sequence[str], folder: Path, name: str, limit: float, read: Callable[[Iterable[str]], None]) -> str:
    """Run a command in a folder for so many seconds at most; `read` is given the lines of its errors as it writes them.

    "" where it went well, else how it ended.
    """
    exceeded = Event()

    def end() -> None:
        exceeded.set()
        process.kill()

    with undebugged():
        started = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    with started as process:
        limited = Timer(limit, end)
        limited.start()
        read_all = False
        try:
            read(process.stderr or ())
            process.wait()  # it may have closed its errors long before it ends
            read_all = True
        finally:
            limited.cancel()
            if not read_all:
                process.kill()
    if exceeded.is_set():
        return f"{name} gave no answer in {limit:g} s"
    if process.returncode < 0:
        return f"{name} crashed with signal {-process.returncode}"
    return f"{name} ended with status {process.returncode}" if process.returncode else ""
