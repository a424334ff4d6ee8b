"""Read a log, or a folder with one, as a recording. Nothing in a log is run.

What of a log cannot be read, and which kinds of records are not shown, the failures say.
"""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TextIO

from explorer.errors import FileError
from explorer.model.values import Event, Failure, Plain
from explorer.process import regular_files
from explorer.process.gzipped import GZIP, unpacked
from explorer.sources.logs import debug_folder, triton_log
from explorer.sources.logs.events_of_log import EventsOfLog
from explorer.sources.logs.recorded import Recorded
from explorer.sources.logs.torch_trace import HEADER, Damage, Log
from explorer.stages.fx_graph import FxGraphText

#: How much of a file is looked at to tell what it is.
PEEK, PEEK_LINES = 1 << 16, 50
#: About how many bytes of memory a trace takes for each byte of its log.
MEMORY_PER_BYTE = 12
#: What a line counts beside its characters: each that is no record is noted, in a hundred bytes.
PER_LINE = 8
TORCH_TRACE, TRITONPARSE, DEBUG_FOLDER = "TORCH_TRACE", "tritonparse", "TORCH_COMPILE_DEBUG"


def kind_of(path: str | PathLike[str]) -> str:
    """What kind of log a path is: TORCH_TRACE, TRITONPARSE, DEBUG_FOLDER, or "" for none."""
    whole = Path(path)
    if whole.is_dir():
        return DEBUG_FOLDER if debug_folder.graph_folders(whole) else ""
    try:
        with _opened(whole) as file:
            lines = file.read(PEEK).split("\n")[:PEEK_LINES]
    except (OSError, EOFError, gzip.zlib.error):  # type: ignore[attr-defined]
        return ""
    if any(HEADER.match(line) for line in lines):
        return TORCH_TRACE
    return TRITONPARSE if lines[0].startswith("{") and '"event_type"' in lines[0] else ""


def log_at(path: str | PathLike[str]) -> Path | None:
    """The log that a path names: itself, or the only one in a folder; None for a file that is no log.

    FileError for a folder with none, or with several.
    """
    whole = Path(path)
    if not regular_files.is_folder(whole) or kind_of(whole):
        return whole if kind_of(whole) else None
    logs = [one for one in regular_files.entries(whole) if one.is_file() and kind_of(one)]
    if not logs:
        raise FileError(f"cannot read the folder {path}: it has no log of TORCH_TRACE, and no graph of TORCH_COMPILE_DEBUG=1")
    if len(logs) > 1:
        names = ", ".join(log.name for log in logs[:3]) + ", …" * (len(logs) > 3)
        raise FileError(f"the folder {path} has {len(logs)} logs ({names}): load each, and give them to explorer.compare")
    return logs[0]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a log as text, unpacked where it is gzipped. Lines end as they were written, and bytes that are no text stay."""
    with regular_files.opened(path) as file:
        packed = file.read(2) == GZIP
        file.seek(0)
        whole = unpacked(file) if packed else file
        with io.TextIOWrapper(whole, encoding="utf-8", errors="surrogateescape", newline="\n") as text:
            yield text


def read(path: Path, *, limit: float) -> Recorded:
    """Read a log that `log_at` gave; FileError if it cannot be read, or would take more than `limit` bytes of memory."""
    kind = kind_of(path)
    if kind == DEBUG_FOLDER:
        return debug_folder.read(path, limit)
    try:
        with _opened(path) as file:
            lines = _bounded(file, limit, path)
            return triton_log.read(lines, path.name) if kind == TRITONPARSE else _of_log(Log(lines), path.name)
    except (OSError, EOFError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _bounded(file: TextIO, limit: float, path: object) -> Iterator[str]:
    """The lines of a log; FileError where there are more than the limit allows."""
    left = int(limit / MEMORY_PER_BYTE)
    while line := file.readline(left + 1):
        left -= len(line) + PER_LINE
        if left < 0:
            raise FileError(
                f"{path} would take more memory than the limit of {limit / 1e9:.2g} GB: if you know who wrote it, allow more, "
                "such as explorer.load(path, limit=8e9)"
            )
        yield line


def _of_log(log: Log, name: str) -> Recorded:
    """A `TORCH_TRACE` log as a recording; `name` is its file's."""
    ranks = sorted({record.rank for record in log.records if record.rank is not None})
    read = EventsOfLog(log, ranks[0] if ranks else None)
    meta: dict[str, Plain] = {"name": name, "backend": "inductor", "log": TORCH_TRACE, "torch": read.torch_version}
    if ranks:
        meta["rank"] = ranks[0]
    meta.update(read.job)
    if read.estimated_seconds:
        meta["estimated_seconds"] = read.estimated_seconds
    failures = (*read.failures, *_other_ranks(ranks), *_damage(log.damage))
    return Recorded(tuple(read.events), failures, {**meta, "target": device_of(read.events)})


def device_of(events: Iterable[Event]) -> str:
    """The kind of device that graphs are for: "cuda" and the like where a tensor is there, else "cpu"."""
    graphs = (event.data.get("nodes") or () for event in events if isinstance(event.data, FxGraphText))
    devices = (str(node.get("device") or "") for nodes in graphs for node in nodes)
    kinds = Counter(device.partition(":")[0] for device in devices if device)
    return next((kind for kind, _ in kinds.most_common() if kind not in ("cpu", "meta")), "cpu")


def _other_ranks(ranks: Sequence[int]) -> Iterator[Failure]:
    """A failure that names the ranks whose records are left out: each is a program of its own."""
    if len(ranks) > 1:
        others = ", ".join(map(str, ranks[1:]))
        message = (
            f"the log has records of several ranks; those of rank {ranks[0]} are shown, not those of {others}: log each to a file"
        )
        yield Failure("log", "not shown", message)


def _damage(damage: Iterable[Damage]) -> Iterator[Failure]:
    """A failure for each kind of damage, with the lines of the log."""
    lines_by_kind: dict[str, list[int]] = {}
    for line, why in damage:
        lines_by_kind.setdefault(why, []).append(line)
    for why, lines in lines_by_kind.items():
        first = ", ".join(map(str, lines[:5])) + ", …" * (len(lines) > 5)
        yield Failure("log", "damaged", f"{len(lines)} × {why}: line {first} of the log")
