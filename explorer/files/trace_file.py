"""Trace files: gzipped JSON, format 2. Loading one runs no code.

A file is the gzip of one JSON object:

    {"explorer": "trace", "format": 2, "sha256": hex, "trace": {"meta", "artifacts", "links", "failures"}}

`sha256` is that of the compact JSON of "trace" with sorted keys, so that an altered file is noticed. A record
leaves out fields that hold their default. A reader refuses a higher format and ignores nothing; a lower one is read through
the table in `model/upgrades.py`.

Nobody vouches for a file, so reading one is bounded: see `LIMIT` and `DEPTH`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from explorer.errors import FileError, InputError
from explorer.model.artifacts import artifact_data
from explorer.model.events import event_data
from explorer.model.records import FieldError
from explorer.model.trace_data import TraceData
from explorer.model.upgrades import FORMAT, upgraded, with_sections
from explorer.model.values import Artifact, Event, Failure, Link, calls, jsonable, plain, record_from_json, record_to_json

#: How much memory, in bytes, a file may take while it is read, unless the caller allows more. A training trace of GPT-2 with
#: 12 layers takes 0.13 GB.
LIMIT = 1_000_000_000
#: How deep the values of a file may be nested; those of that trace are nested 10 deep.
DEPTH = 64
#: What CPython's json module makes of each of these characters, about, in bytes: a list with its place in another, a
#: dict with its table, a number or a place in a list, half of a string. For the trace named above they add up to 0.126 GB.
COSTS = {b"[": 64, b"{": 200, b",": 40, b'"': 30}
T = TypeVar("T")


def to_json(trace: TraceData) -> dict[str, Any]:
    """The trace's value as a JSON object."""
    return {
        "meta": jsonable(trace.meta),
        "artifacts": [_artifact_json(a) for a in trace.artifacts],
        "links": [[link.source, list(link.source_lines), link.target, list(link.target_lines), link.how] for link in trace.links],
        "failures": [record_to_json(f) for f in trace.failures],
    }


def from_json(value: dict[str, Any], number: int = FORMAT) -> TraceData:
    """The trace that `to_json` wrote, of this format or of the earlier one with that number."""
    return TraceData(
        plain({**value["meta"]}),
        tuple(_artifact(a, number) for a in value["artifacts"]),
        tuple(_link(*link) for link in value["links"]),
        tuple(record_from_json(Failure, f) for f in value["failures"]),
    )


def _artifact_json(artifact: Artifact) -> dict[str, Any]:
    """An artifact as a JSON object, its data in the order of the stage's fields, so that equal ones give equal bytes."""
    try:
        data = artifact_data(artifact.stage, artifact.data)
    except FieldError:
        return record_to_json(artifact)  # made by hand; whoever loads it is told what is wrong with it
    return record_to_json(replace(artifact, data=data))


def _artifact(value: dict[str, Any], number: int) -> Artifact:
    """An Artifact of its JSON; ValueError, which says where, for data that is not that of its stage."""
    stage = str(value.get("stage"))
    try:
        given = value.get("data", {})
        whole = upgraded("artifact", stage, {**given, "text": value.get("text", "")}, number) if number < FORMAT else given
        data = artifact_data(stage, {key: part for key, part in whole.items() if key != "text"} if number < FORMAT else whole)
    except FieldError as error:
        raise error.within(str(value.get("id"))) from None
    made: Artifact = _with_path(Artifact, {**value, "data": data})
    return made


def _event(value: dict[str, Any], number: int) -> Event:
    """An Event of its JSON; ValueError, which says where, for data that is not that of its kind."""
    kind = str(value.get("kind"))
    data = event_data(kind, upgraded("event", kind, value.get("data", {}), number))
    made: Event = _with_path(Event, {**value, "data": data})
    return made


def _link(source: str, source_lines: list[int], target: str, target_lines: list[int], how: str) -> Link:
    """A Link of its five parts; TypeError where one is of another type."""
    if not all(type(part) is str for part in (source, target, how)):
        raise TypeError("a link names its two texts and how it is known")
    if not all(type(line) is int for line in (*source_lines, *target_lines)):
        raise TypeError("the lines of a link are whole numbers")
    return Link(source, tuple(source_lines), target, tuple(target_lines), how)


def _with_path(kind: Any, value: dict[str, Any]) -> Any:
    return record_from_json(kind, {**value, "path": calls(value.get("path", ()))})


def dumps(trace: TraceData) -> bytes:
    """The trace as the bytes of a trace file; equal traces give equal bytes."""
    return _pack("trace", to_json(trace))


def loads(data: bytes, name: str = "trace", limit: float = LIMIT) -> TraceData:
    """The Trace in the bytes of a trace file; FileError where they are not one, or would take more memory than `limit` bytes."""
    return _read(data, "trace", name, from_json, limit)


def save(trace: TraceData, path: str | PathLike[str]) -> None:
    """Write a trace file; the old file stays until the new one is complete. FileError where it cannot be written."""
    write(path, dumps(trace))


def checked(path: object) -> str | PathLike[str]:
    """A path as it is; InputError for what is none."""
    if not isinstance(path, (str, PathLike)):
        raise InputError(f"a file is given by its path, such as 'f.json.gz', not {path!r}")
    return path


def write(path: str | PathLike[str], data: bytes) -> None:
    """Write a file; the old one stays until the new one is complete. FileError says why it cannot be written."""
    target = Path(checked(path))
    if target.is_dir():
        raise FileError(f"cannot write {path}: it is a folder; give a file in it, such as {target / 'trace'}")
    if not target.absolute().parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise FileError(f"cannot write {path}: it is a device, a pipe or a socket; give a file")
    try:
        _replace(target, data)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


def _replace(target: Path, data: bytes) -> None:
    """Put a new file in the place of `target`, which may be a link, with the mode of the file that was there.

    The new file is made under a name that nobody can foresee, and never through a link: a folder may be anybody's.
    """
    try:
        before = target.lstat()
    except FileNotFoundError:
        before = None
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # a full disk may show itself only here
        if before is not None and stat.S_ISREG(before.st_mode):
            part.chmod(stat.S_IMODE(before.st_mode))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | PathLike[str], *, limit: float = LIMIT) -> TraceData:
    """Read a trace file. FileError says what is wrong with it: missing, truncated, altered, not a trace, too new, too big.

    `limit` is how much memory in bytes it may take: what is known to be no trap may have more.
    """
    checked(path)
    try:
        size = Path(path).stat().st_size
        if size > limit:
            raise FileError(f"cannot read {path}: the file has {size / 1e9:.1f} GB, {_more(limit, size * 20)}")
        data = Path(path).read_bytes()
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    return loads(data, str(path), limit)


def dump_events(events: list[Event], failures: list[Failure], meta: dict[str, Any]) -> bytes:
    """A recording as bytes, to be replayed later and elsewhere."""
    value = {
        "meta": jsonable(plain(meta)),
        "events": [record_to_json(e) for e in events],
        "failures": [record_to_json(f) for f in failures],
    }
    return _pack("events", value)


def load_events(data: bytes, name: str = "events") -> tuple[list[Event], list[Failure], dict[str, Any]]:
    """The recording that `dump_events` wrote; FileError where it is not one."""

    def read(value: dict[str, Any], number: int) -> tuple[list[Event], list[Failure], dict[str, Any]]:
        events = [_event(e, number) for e in value["events"]]
        events = with_sections(events) if number == 1 else events
        return events, [record_from_json(Failure, f) for f in value["failures"]], value["meta"]

    return _read(data, "events", name, read)


def _pack(kind: str, value: dict[str, Any]) -> bytes:
    whole = {"explorer": kind, "format": FORMAT, "sha256": _digest(value), kind: value}
    return gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), compresslevel=6, mtime=0)


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(data: bytes, kind: str, name: str, read: Callable[[dict[str, Any], int], T], limit: float = LIMIT) -> T:
    if data[:64].lstrip().lower().startswith(b"<!doctype html"):
        raise FileError(f"{name} is a page: open it in a browser; what can be loaded is what Trace.save or `-o x.json.gz` wrote")
    try:
        whole = json.loads(_inflated(data, name, limit))
        _check_depth(whole)
    except (EOFError, ValueError, RecursionError, gzip.zlib.error, gzip.BadGzipFile) as error:  # type: ignore[attr-defined]
        raise FileError(f"{name} is truncated, damaged or not an explorer {kind} file ({error})") from error
    if not isinstance(whole, dict) or whole.get("explorer") != kind:
        raise FileError(f"{name} is not an explorer {kind} file")
    number = whole.get("format")
    if type(number) is not int or number < 1:
        raise FileError(f"{name} is damaged: it says that its format is {number!r}")
    if number > FORMAT:
        raise FileError(f"{name} has format {number}, this explorer reads up to {FORMAT}: upgrade explorer")
    if _digest(whole.get(kind, {})) != whole.get("sha256"):
        raise FileError(f"{name} was altered after it was saved: its checksum does not match")
    try:
        return read(whole[kind], number)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileError(f"{name} does not hold what format {FORMAT} promises ({type(error).__name__}: {error})") from error


def _inflated(data: bytes, name: str, limit: float) -> bytes:
    """The JSON text in gzipped bytes; FileError where reading it would take more memory than the limit allows.

    A few bytes of gzip can stand for gigabytes, and a few of JSON for objects of 20 times their size: both are bounded
    before any object is made.
    """
    most = int(limit / 4)
    text = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    if len(text) > most:
        raise FileError(f"{name} holds more than {most / 1e9:.2g} GB of text, {_more(limit, limit * 4)}")
    need = 2 * len(text) + sum(cost * text.count(character) for character, cost in COSTS.items())
    if need > limit:
        raise FileError(f"{name} would take up to {need / 1e9:.1f} GB of memory, {_more(limit, need)}")
    return text


def _more(limit: float, need: float) -> str:
    """What to do about a file that is too big."""
    return (
        f"more than the limit of {limit / 1e9:.2g} GB: if you know who made it, allow more, "
        f"such as explorer.load(path, limit={need * 1.25:.1g})"
    )


def _check_depth(value: Any) -> None:
    """ValueError for values nested deeper than `DEPTH`, with which functions that call themselves would fail later."""
    level = [value]
    for _ in range(DEPTH):
        below: list[Any] = []
        for each in level:
            below += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        if not below:
            return
        level = [v for v in below if isinstance(v, (dict, list))]
    raise ValueError(f"nested deeper than {DEPTH} levels")
