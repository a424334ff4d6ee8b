"""Processes of this machine, as a test looks at them."""

from __future__ import annotations

from pathlib import Path


def is_running(number: int) -> bool:
    """Return whether a process is there, and no zombie; on Linux."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
