"""Read files that others name: only regular ones, only as much as asked for, and only below the folders that are allowed.

A path may lead to a pipe that nobody writes to, to a device that never ends, or to a folder that holds the whole machine. The
size that a file states bounds nothing: files of `/proc` state 0, and a sparse file states more than any disk has.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from io import BufferedReader, BytesIO, FileIO, TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from explorer.errors import FileError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: The most entries of a folder, or of all folders below one, that are looked at.
MAX_ENTRIES = 20_000
#: The bytes that are read at a time.
CHUNK = 1 << 20
#: A pipe that replaced the file since it was looked at must not wait for a writer, nor a terminal become this process's own.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
#: The folders below which this thread may read, and how to have others allowed; None for all.
_ALLOWED: ContextVar[tuple[Sequence[Path], str] | None] = ContextVar("allowed", default=None)
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


@contextmanager
def below(folders: Sequence[Path] | None, others: str = "") -> Iterator[None]:
    """Let this thread read only files and folders below these, links resolved; None allows all.

    An error for another says the first of them, and `others`: how to have others allowed.
    """
    allowed = None if folders is None else ([Path(os.path.realpath(folder)) for folder in folders], others)
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def is_folder(path: str | PathLike[str]) -> bool:
    """Return whether a path is a folder; FileError where it is neither that nor a regular file, or may not be read."""
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        return True
    _require_regular(path, mode)
    return False


def opened(path: str | PathLike[str]) -> BufferedReader:
    """Open a regular file to read its bytes; FileError for everything else, and where reading fails. It never waits."""
    _require_regular(path, _mode(path))
    with _as_file_error(path):
        number = os.open(path, _FLAGS)
    with ExitStack() as failing:
        failing.callback(os.close, number)
        _require_regular(path, os.fstat(number).st_mode)  # another may be there by now
        failing.pop_all()
    return BufferedReader(_File(number, path))


class _File(FileIO):
    """A file whose bytes are here, or an error: one of `/proc` may be regular and fail, or wait, when it is read."""

    def __init__(self, number: int, path: str | PathLike[str]) -> None:
        super().__init__(number)
        self._path = path

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        with _as_file_error(self._path):
            count = super().readinto(buffer)
        if count is None:
            raise FileError(f"cannot read {self._path}: its bytes are not there yet; give a regular file")
        return count


def read(path: str | PathLike[str], limit: float) -> bytes:
    """Read a whole regular file; FileError where it holds more than `limit` bytes, whatever size it states."""
    with opened(path) as file:
        data = rest_of(file, limit)
    if data is None:
        raise FileError(f"cannot read {path}: it is larger than {limit / 1e6:,.0f} MB, the limit for one file")
    return data


def read_text(path: str | PathLike[str], limit: float, errors: str = "strict") -> str:
    """Read a whole regular file of UTF-8 as `Path.read_text` does; FileError as for `read`."""
    return TextIOWrapper(BytesIO(read(path, limit)), encoding="utf-8", errors=errors).read()


def rest_of(file: BinaryIO, limit: float) -> bytes | None:
    """Read the rest of an opened file; None where that is more than `limit` bytes."""
    found = BytesIO()
    while chunk := file.read(CHUNK):
        found.write(chunk)
        if found.tell() > limit:
            return None
    return found.getvalue()


def entries(folder: str | PathLike[str]) -> list[Path]:
    """List what a folder holds, by name; FileError where that is more than `MAX_ENTRIES`."""
    return sorted(Path(entry) for entry in _Looked(folder).at(folder))


def folders_below(folder: str | PathLike[str], ends: Callable[[str], bool]) -> Iterator[Path]:
    """Yield the folders below a folder; FileError where `MAX_ENTRIES` entries were looked at.

    It looks into no link, which may lead back, nor into a folder whose name `ends` the walk.
    """
    looked = _Looked(folder)
    waiting = [Path(folder)]
    while waiting:
        for entry in looked.at(waiting.pop()):
            if not _is_folder(entry):
                continue
            yield Path(entry)
            if not entry.is_symlink() and not ends(entry.name):
                waiting.append(Path(entry))


class _Looked:
    """Counts the entries that were looked at in a folder and below it."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder, self._left = folder, MAX_ENTRIES

    def at(self, folder: str | PathLike[str]) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a folder; of one below that may not be listed none."""
        _mode(folder)
        try:
            found = os.scandir(folder)
        except OSError as error:
            if folder != self._folder:
                return
            raise FileError(f"cannot read {folder}: {error.strerror or error}") from error
        with found:
            for entry in found:
                if self._left == 0:
                    what = f"it and its folders have more than {MAX_ENTRIES:,} entries"
                    raise FileError(f"cannot read the folder {self._folder}: {what}; name the folder with the files themselves")
                self._left -= 1
                yield entry


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _mode(path: str | PathLike[str]) -> int:
    """The kind of a path; FileError where there is nothing, or where this thread may not read it."""
    allowed = _ALLOWED.get()
    with _as_file_error(path):
        if allowed is not None:
            _require_below(path, *allowed)
        return os.stat(path).st_mode


def _require_below(path: str | PathLike[str], folders: Sequence[Path], others: str) -> None:
    if not any(Path(os.path.realpath(path)).is_relative_to(folder) for folder in folders):
        asking = f"; {others}" if others else ""
        raise FileError(f"cannot read {path}: it is not below {folders[0]}, the folder that may be read{asking}")


def _require_regular(path: str | PathLike[str], mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")
        raise FileError(f"cannot read {path}: it is {what}; give a regular file")


@contextmanager
def _as_file_error(path: str | PathLike[str]) -> Iterator[None]:
    """Raise what the system says of a path as a FileError."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:  # a zero byte, or a surrogate, which no path has
        raise FileError(f"cannot read {path!r}: it is not a valid path") from error


__all__ = ["MAX_ENTRIES", "below", "entries", "folders_below", "is_folder", "opened", "read", "read_text", "rest_of"]
