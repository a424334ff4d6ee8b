"""What explorer keeps for a user between processes, in the folder for such files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def directory() -> Path:
    """The folder: below XDG_CACHE_HOME, or ~/.cache; it need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "torch-compile-explorer"


def write(file: Path, data: bytes) -> None:
    """Write a file of that folder in one step: no process reads half of it; OSError where it can't be written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        part.write_bytes(data)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
