"""Run a compiler in a child process: what it is asked for may end the process that it runs in, or never end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(command: Sequence[str], folder: Path, name: str, limit: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in a folder for so many seconds at most; "" where it went well, else what it said."""
    try:
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
