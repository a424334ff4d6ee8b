"""End a process and all that it started, also what left its process group and its session, as daemons do.

No process leaves its cgroup by itself, so one of cgroup's version 2 is made where this process may. Elsewhere on Linux `/proc`
is walked: a process is found by its parents, and by a mark in the environment that it was started with. On other systems the
process group ends, on Windows the process.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from explorer.model.values import text_lines

#: The variable that marks what a process and its descendants were started with.
MARK = "EXPLORER_STARTED_BY"
#: How often, and how long at most, processes that were told to stop or to end are looked for, in seconds.
POLL, PATIENCE = 0.002, 3.0
#: How a cgroup of explorer's is named; one that a killed process left behind is removed by the next.
_GROUP = "explorer-mcp-"
_PROC = Path("/proc")


class Descendants:
    """A process and all that it starts. Start it with `environment`, and `add` it before it starts anything."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._process: subprocess.Popen[str] | None = None
        self._group: Path | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What the environment of the process must have."""
        return {MARK: self._mark}

    def add(self, process: subprocess.Popen[str]) -> None:
        """Take in the process, which has started none itself."""
        self._process, self._group = process, _group_of(process.pid)

    def end(self) -> None:
        """End them all now; it may be called again."""
        if self._process is None:
            return
        group, self._group = self._group, None
        if group is None or not _end_group(group):
            # its number may be another's once it was waited for
            number = self._process.pid if self._process.poll() is None else None
            _end_family(number, self._mark)
        if self._process.poll() is None:
            self._process.kill()


def end_this_process() -> None:
    """End this process with all that it started."""
    _end_family(os.getpid(), os.environ.get(MARK, ""))
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


# By a cgroup --------------------------------------------------------------------------------------------------------------


def _group_of(number: int) -> Path | None:
    """Make a cgroup with a process in it; None where there is no version 2, or this process may not."""
    try:
        own = _own_group()
        for left in own.glob(f"{_GROUP}*"):
            with suppress(OSError):  # one with processes stays
                left.rmdir()
        group = own / f"{_GROUP}{secrets.token_hex(8)}"
        group.mkdir()
    except (OSError, LookupError):
        return None
    try:
        (group / "cgroup.kill").stat()  # since Linux 5.14
        (group / "cgroup.procs").write_text(str(number), encoding="utf-8")
    except OSError:
        with suppress(OSError):
            group.rmdir()
        return None
    return group


def _own_group() -> Path:
    """The folder of this process's cgroup; OSError or LookupError if there is no cgroup of version 2."""
    mounts = (_PROC / "self" / "mounts").read_text(encoding="utf-8")
    groups = (_PROC / "self" / "cgroup").read_text(encoding="utf-8")
    folders = [line.split()[1] for line in text_lines(mounts) if line.split()[2] == "cgroup2"]
    names = [line.removeprefix("0::/") for line in text_lines(groups) if line.startswith("0::/")]
    return Path(folders[0]) / names[0]


def _end_group(group: Path) -> bool:
    """End all processes of a cgroup and remove it; False where that cannot be done."""
    try:
        (group / "cgroup.kill").write_text("1", encoding="utf-8")
        is_empty = _waited(lambda: "populated 0" in (group / "cgroup.events").read_text(encoding="utf-8"))
        with suppress(OSError):
            group.rmdir()
    except OSError:
        return False
    return is_empty


# By /proc -----------------------------------------------------------------------------------------------------------------


class _Process(NamedTuple):
    """What `/proc/PID/stat` says of a process: its state, such as "R", and its parent."""

    state: str
    parent: int

    @property
    def runs(self) -> bool:
        """Whether it has not ended; one that nobody has waited for is still listed, as "Z"."""
        return self.state not in "ZX"


def _end_family(number: int | None, mark: str) -> None:
    """End a process, those that descend from it, and those that bear the mark; this process stays."""
    if not _PROC.is_dir():
        if number is not None and number != os.getpid() and hasattr(os, "killpg"):
            _send((number,), signal.SIGKILL, os.killpg)
        return
    stopped: set[int] = set()

    def all_stopped() -> bool:
        """Stop those that were found now: a stopped process starts no other, and its children stay its children."""
        found = _family(number, mark)
        new = found.keys() - stopped
        _send(new, signal.SIGSTOP)
        stopped.update(new)
        return not new and all(state in "Tt" for state in found.values())

    def all_ended() -> bool:
        """End those that are left; a killed one still runs for a moment, and is nobody's child once its parent has ended."""
        found = _family(number, mark)
        _send(found, signal.SIGKILL)
        return not found and not any(_runs(each) for each in stopped)

    _waited(all_stopped)
    _send(stopped, signal.SIGKILL)
    _waited(all_ended)


def _family(number: int | None, mark: str) -> dict[int, str]:
    """The processes of `_end_family` that still run, with the state of each."""
    processes = dict(_processes())
    found = {each for each in processes if each == number or _bears(each, mark)}
    new = found
    while new:
        new = {each for each, one in processes.items() if one.parent in new} - found
        found = found | new
    return {each: processes[each].state for each in found - {os.getpid()} if processes[each].runs}


def _processes() -> Iterator[tuple[int, _Process]]:
    for folder in _PROC.iterdir():
        if folder.name.isdecimal() and (process := _process(int(folder.name))) is not None:
            yield int(folder.name), process


def _process(number: int) -> _Process | None:
    """What is known of a process; None if there is none of that number."""
    with suppress(OSError):  # it has ended
        # the name, in parentheses, may have any character
        state, parent = (_PROC / str(number) / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        return _Process(state.decode(), int(parent))
    return None


def _runs(number: int) -> bool:
    process = _process(number)
    return process is not None and process.runs


def _bears(number: int, mark: str) -> bool:
    """Whether a process was started with the mark."""
    with suppress(OSError):  # it has ended, or is another user's
        return bool(mark) and f"{MARK}={mark}\0".encode() in (_PROC / str(number) / "environ").read_bytes()
    return False


def _send(numbers: Iterable[int], number: signal.Signals, send: Callable[[int, int], None] = os.kill) -> None:
    for each in numbers:
        with suppress(OSError):  # it has ended, or is another user's
            send(each, number)


def _waited(is_so: Callable[[], bool]) -> bool:
    """Whether something became so in time."""
    until = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(POLL)
    return True


__all__ = ["Descendants", "end_this_process"]
