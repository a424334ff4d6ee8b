"""The files of a job's ranks: those in a folder, and one file of them all.

A file of ranks is a zip that holds the trace file of each rank, `rank0.json.gz` and so on, not packed again. A rank is read when
it is asked for.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from explorer.errors import FileError
from explorer.model.trace_data import TraceData
from explorer.process import regular_files
from explorer.process.ranks import IN_FOLDER
from explorer.sources.files import trace_file
from explorer.sources.logs import read as logs
from explorer.stages.replay import replay

#: The rank in the name of a file: trace.rank0.json.gz, dedicated_log_torch_trace_rank_0_a74od7a1.log.
_RANK = re.compile(r"(?:^|[._-])rank_?(\d{1,9})(?=[._-]|$)")
_MEMBER = re.compile(r"rank(\d{1,9})\.json\.gz")
_PAGES = (".html", ".htm")
#: The most bytes that the list of a zip's members may have, some 66 for each rank: Python takes ten times as many.
MAX_LIST = 10_000_000
#: What reading a damaged zip raises.
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)

Read = Callable[[float], TraceData]


def ranks_at(path: str | PathLike[str]) -> Mapping[int, Read]:
    """How each rank of a folder, or of a file of ranks, is read; {} for what has no rank in its names.

    FileError for two files of one rank.
    """
    whole = Path(path)
    return _in_folder(whole) if regular_files.is_folder(whole) else _in_file(whole)


def _in_folder(folder: Path) -> dict[int, Read]:
    return {number: _reader(file) for number, file in _files_in(folder).items()}


def _files_in(folder: Path) -> dict[int, Path]:
    """The file of each rank in a folder."""
    files: dict[int, Path] = {}
    for file in regular_files.entries(folder):
        match = _RANK.search(file.name)
        if not match or file.suffix.lower() in _PAGES or not file.is_file() or file.name.endswith(".part"):
            continue
        number = int(match[1])
        if number in files:
            raise FileError(
                f"the folder {folder} has two files of rank {number}, {files[number].name} and {file.name}, perhaps of two jobs: "
                "keep those of one job in a folder"
            )
        files[number] = file
    return dict(sorted(files.items()))


def files_at(path: str | PathLike[str]) -> tuple[Path, ...]:
    """The files that `ranks_at` reads."""
    whole = Path(path)
    return tuple(_files_in(whole).values()) if whole.is_dir() else (whole,)


def trace_in(path: str | PathLike[str]) -> Path | None:
    """The only trace file of a folder, as a single process or the one rank that is asked for leaves it; None without one."""
    whole = Path(path)
    if not whole.is_dir() or logs.kind_of(whole):
        return None
    named = [file for file in regular_files.entries(whole) if file.name.endswith(".json.gz") and file.is_file()]
    named = [file for file in named if file.name == IN_FOLDER or _RANK.search(file.name)]
    return named[0] if len(named) == 1 else None


def _reader(file: Path) -> Read:
    def read(limit: float) -> TraceData:
        if not logs.kind_of(file):
            return trace_file.load(file, limit=limit)
        recorded = logs.read(file, limit=limit)
        return replay(recorded.events, recorded.failures, recorded.meta)

    return read


def _in_file(path: Path) -> dict[int, Read]:
    """How each rank of a file of ranks is read; {} for another file."""
    with regular_files.opened(path) as file:
        if not zipfile.is_zipfile(file):
            return {}
    try:
        with _zip(path, MAX_LIST) as whole:
            names = whole.namelist()
    except _UNREADABLE as error:
        raise _damaged(path) from error
    matches = [match for name in names if (match := _MEMBER.fullmatch(name))]
    return {int(match[1]): _member(path, match[0]) for match in sorted(matches, key=lambda match: int(match[1]))}


def _member(path: Path, name: str) -> Read:
    def read(limit: float) -> TraceData:
        try:
            with _zip(path, int(limit)) as whole, whole.open(name) as member:
                data = member.read(int(limit) + 1)
        except _UNREADABLE as error:
            raise _damaged(path) from error
        if len(data) > limit:
            raise FileError(f"{name} of {path} is larger than the limit of {limit / 1e9:.2g} GB: allow more, such as limit=8e9")
        return trace_file.loads(data, f"{name} of {path}", limit)

    return read


@contextmanager
def _zip(path: Path, limit: int) -> Iterator[zipfile.ZipFile]:
    """Open a zip, whose list of members has at most `limit` bytes."""
    with _Bounded(regular_files.opened(path).detach(), limit) as file, zipfile.ZipFile(file) as whole:
        yield whole


class _Bounded(io.BufferedReader):
    """Reads at most so many bytes at once: a zip states how long its list of members is, up to the size of its file."""

    def __init__(self, file: io.RawIOBase, limit: int) -> None:
        super().__init__(file)
        self._limit = limit

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes; BadZipFile where that is more than the limit."""
        if size is not None and size > self._limit:
            raise zipfile.BadZipFile("it states more than the limit")
        return super().read(size)


def _damaged(path: Path) -> FileError:
    """The error for a zip that cannot be read; zipfile's own message quotes the file."""
    return FileError(f"cannot read {path}: it is a damaged zip, or states more than explorer reads")


def save(traces: Mapping[int, TraceData], path: str | PathLike[str]) -> None:
    """Write a file of ranks; equal traces give equal bytes. FileError if it cannot be written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for rank, trace in sorted(traces.items()):
            file.writestr(zipfile.ZipInfo(f"rank{rank}.json.gz"), trace_file.dumps(trace))
    trace_file.write(path, buffer.getvalue())
