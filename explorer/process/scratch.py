"""Folders for temporary files, which are gone with the process; of one that was killed, when the next one needs a folder.

Each process has one folder, with a lock that the system itself lets go of when the process ends, however that is.
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
    """A new folder, as a context manager that removes it."""
    return tempfile.TemporaryDirectory(dir=home())


def home() -> Path:
    """The folder of this process; what killed processes left is removed first."""
    return _home(os.getpid())  # a forked child has one of its own


@lru_cache(maxsize=1)
def _home(process: int) -> Path:
    above = Path(tempfile.gettempdir()) / f"explorer-{_user()}"
    above.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(above):
        above = Path(tempfile.mkdtemp(prefix="explorer-"))
    sweep(above)
    made = Path(tempfile.mkdtemp(prefix=f"{process}-", dir=above))
    lock = FileLock(made / LOCK, timeout=0)
    lock.acquire()
    atexit.register(_remove, made, lock, process)
    return made


def sweep(above: Path) -> None:
    """Remove the folders of processes that are no more."""
    for left in above.iterdir():
        if not left.is_dir() or not (left / LOCK).exists():
            continue  # one that is being made just now has no lock yet
        lock = FileLock(left / LOCK, timeout=0)
        try:
            with lock:
                shutil.rmtree(left, ignore_errors=True)
        except (Timeout, OSError):
            continue


def _remove(made: Path, lock: FileLock, process: int) -> None:
    """Remove the folder at the end of the process that made it, not of one that it forked."""
    if os.getpid() == process:
        lock.release()
        shutil.rmtree(made, ignore_errors=True)


def _user() -> str:
    """Who this is, for the name of a folder."""
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _is_ours(path: Path) -> bool:
    """Whether a folder is a real one that only this user can write: anybody may make one in the folder for temporary files."""
    found = path.lstat()
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
