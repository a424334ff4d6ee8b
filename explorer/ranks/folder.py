"""The files of a job's ranks: those in a folder, and one file of them all.

A file of ranks is a zip that holds the trace file of each rank, `rank0.json.gz` and so on, not packed again. A rank is read when
it is asked for.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from explorer.errors import FileError
from explorer.files import trace_file
from explorer.logs import read as logs
from explorer.model.trace_data import TraceData
from explorer.process.ranks import IN_FOLDER
from explorer.replay import replay

#: The rank in the name of a file: trace.rank0.json.gz, dedicated_log_torch_trace_rank_0_a74od7a1.log.
_RANK = re.compile(r"(?:^|[._-])rank_?(\d+)(?=[._-]|$)")
_MEMBER = re.compile(r"rank(\d+)\.json\.gz")
_PAGES = (".html", ".htm")
#: The most ranks that a file may have.
MOST = 1_000_000

Read = Callable[[float], TraceData]


def ranks_at(path: str | PathLike[str]) -> Mapping[int, Read]:
    """How each rank of a folder, or of a file of ranks, is read; {} for what has no rank in its names.

    FileError for two files of one rank.
    """
    whole = Path(path)
    if whole.is_dir():
        return _in_folder(whole)
    return _in_file(whole) if zipfile.is_zipfile(whole) else {}


def _in_folder(folder: Path) -> dict[int, Read]:
    return {number: _reader(file) for number, file in _files_in(folder).items()}


def _files_in(folder: Path) -> dict[int, Path]:
    """The file of each rank in a folder."""
    files: dict[int, Path] = {}
    for file in sorted(folder.iterdir()):
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
    named = [file for file in whole.glob("*.json.gz") if file.name == IN_FOLDER or _RANK.search(file.name)]
    return named[0] if len(named) == 1 else None


def _reader(file: Path) -> Read:
    def read(limit: float) -> TraceData:
        if not logs.kind_of(file):
            return trace_file.load(file, limit=limit)
        recorded = logs.read(file, limit=limit)
        return replay(recorded.events, recorded.failures, recorded.meta)

    return read


def _in_file(path: Path) -> dict[int, Read]:
    try:
        with zipfile.ZipFile(path) as file:
            names = [info.filename for info in file.infolist()[: MOST + 1]]
    except (OSError, zipfile.BadZipFile) as error:
        raise FileError(f"cannot read {path}: {error}") from error
    matches = [match for name in names if (match := _MEMBER.fullmatch(name))]
    return {int(match[1]): _member(path, match[0]) for match in sorted(matches, key=lambda match: int(match[1]))}


def _member(path: Path, name: str) -> Read:
    def read(limit: float) -> TraceData:
        try:
            with zipfile.ZipFile(path) as file, file.open(name) as member:
                data = member.read(int(limit) + 1)
        except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise FileError(f"cannot read {name} of {path}: {error}") from error
        if len(data) > limit:
            raise FileError(f"{name} of {path} is larger than the limit of {limit / 1e9:.2g} GB: allow more, such as limit=8e9")
        return trace_file.loads(data, f"{name} of {path}", limit)

    return read


def save(traces: Mapping[int, TraceData], path: str | PathLike[str]) -> None:
    """Write a file of ranks; equal traces give equal bytes. FileError if it cannot be written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for rank, trace in sorted(traces.items()):
            file.writestr(zipfile.ZipInfo(f"rank{rank}.json.gz"), trace_file.dumps(trace))
    trace_file.write(path, buffer.getvalue())
