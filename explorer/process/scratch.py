"""Temporary folders that are removed when the process ends.

Each process has one folder with a file lock in it. The system releases the lock however the process ends, so the next
process that needs a folder can tell what a killed one left, and removes it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make a new folder; the context manager removes it."""
    return tempfile.TemporaryDirectory(dir=home())


def home() -> Path:
    """The folder of this process. Removes first what killed processes left."""
    return _home(os.getpid())  # a forked child has one of its own


@lru_cache(maxsize=1)
def _home(process: int) -> Path:
    parent = Path(tempfile.gettempdir()) / f"explorer-{_user()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(parent):
        parent = Path(tempfile.mkdtemp(prefix="explorer-"))
    remove_leftovers(parent)
    path = Path(tempfile.mkdtemp(prefix=f"{process}-", dir=parent))
    lock = FileLock(path / LOCK, timeout=0)
    lock.acquire()
    atexit.register(_remove, path, lock, process)
    return path


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of processes that have ended."""
    for leftover in parent.iterdir():
        if not leftover.is_dir() or not (leftover / LOCK).exists():
            continue  # another process may have made it a moment ago, and not locked it yet
        lock = FileLock(leftover / LOCK, timeout=0)
        try:
            with lock:
                shutil.rmtree(leftover, ignore_errors=True)
        except (Timeout, OSError):
            continue


def _remove(path: Path, lock: FileLock, process: int) -> None:
    """Remove the folder when the process that made it ends, not when a forked child does."""
    if os.getpid() == process:
        lock.release()
        shutil.rmtree(path, ignore_errors=True)


def _user() -> str:
    """The user's number, for the folder's name."""
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _is_ours(path: Path) -> bool:
    """Whether a path is a real folder that only this user can write; anybody may make one in the temporary folder."""
    status = path.lstat()
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(status.st_mode)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
