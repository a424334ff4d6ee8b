"""Trace files: gzipped JSON, format 3. Loading one runs no code.

A file is the gzip of one JSON object:

    {"explorer": "trace", "format": 3, "sha256": hex, "trace": {"meta", "artifacts", "links", "failures"}}

`sha256` is the checksum of the compact JSON of "trace" with sorted keys; it reveals an altered file. A record leaves out fields
that hold their default. A reader refuses a higher format, and ignores no field. The table in `model/upgrades.py` upgrades a
lower format.

A file may come from anyone, so reading one is bounded: see `LIMIT` and `DEPTH`.
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
from explorer.model.upgrades import FORMAT, upgraded, upgraded_failure, with_sections
from explorer.model.values import Artifact, Event, Failure, Link, calls, jsonable, plain, record_from_json, record_to_json
from explorer.process.garbage import full_collections_paused

#: The most memory, in bytes, that reading a file may take, unless the caller allows more. A training trace of GPT-2 with
#: 12 layers takes 0.13 GB.
LIMIT = 1_000_000_000
#: How deep the values of a file may be nested; the trace above is nested 10 deep.
DEPTH = 64
#: About how many bytes CPython's json module takes for each of these characters: a list with its place in another, a
#: dict with its table, a number or a place in a list, half of a string. For the trace above they add up to 0.126 GB.
COSTS = {b"[": 64, b"{": 200, b",": 40, b'"': 30}
T = TypeVar("T")


def to_json(trace: TraceData) -> dict[str, Any]:
    """Return the trace's value as a JSON object."""
    return {
        "meta": jsonable(trace.meta),
        "artifacts": [_artifact_json(a) for a in trace.artifacts],
        "links": [[link.source, list(link.source_lines), link.target, list(link.target_lines), link.how] for link in trace.links],
        "failures": [record_to_json(f) for f in trace.failures],
    }


def from_json(value: dict[str, Any], number: int = FORMAT) -> TraceData:
    """Read the trace that `to_json` wrote, in format `number`."""
    return TraceData(
        plain({**value["meta"]}),
        tuple(_artifact(a, number) for a in value["artifacts"]),
        tuple(_link(*link) for link in value["links"]),
        tuple(_failure(f, number) for f in value["failures"]),
    )


def _failure(value: dict[str, Any], number: int) -> Failure:
    return record_from_json(Failure, upgraded_failure(value, number))


def _artifact_json(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact as JSON, with data in the order of the stage's fields: equal artifacts give equal bytes."""
    try:
        data = artifact_data(artifact.stage, artifact.data)
    except FieldError:
        return record_to_json(artifact)  # made by hand; loading the file names the wrong field
    return record_to_json(replace(artifact, data=data))


def _artifact(value: dict[str, Any], number: int) -> Artifact:
    """Read an Artifact; ValueError, with the place, if its data does not fit its stage."""
    stage = str(value.get("stage"))
    try:
        given = value.get("data", {})
        whole = upgraded("artifact", stage, {**given, "text": value.get("text", "")}, number) if number < FORMAT else given
        data = artifact_data(stage, {key: part for key, part in whole.items() if key != "text"} if number < FORMAT else whole)
    except FieldError as error:
        raise error.within(str(value.get("id"))) from None
    artifact: Artifact = _with_path(Artifact, {**value, "data": data})
    return artifact


def _event(value: dict[str, Any], number: int) -> Event:
    """Read an Event; ValueError, with the place, if its data does not fit its kind."""
    kind = str(value.get("kind"))
    data = event_data(kind, upgraded("event", kind, value.get("data", {}), number))
    event: Event = _with_path(Event, {**value, "data": data})
    return event


def _link(source: str, source_lines: list[int], target: str, target_lines: list[int], how: str) -> Link:
    """Read a Link from its five parts; TypeError if one has the wrong type."""
    if not all(type(part) is str for part in (source, target, how)):
        raise TypeError("a link names its two texts and how it is known")
    if not all(type(line) is int for line in (*source_lines, *target_lines)):
        raise TypeError("the lines of a link are whole numbers")
    return Link(source, tuple(source_lines), target, tuple(target_lines), how)


def _with_path(kind: Any, value: dict[str, Any]) -> Any:
    return record_from_json(kind, {**value, "path": calls(value.get("path", ()))})


def dumps(trace: TraceData) -> bytes:
    """Return the bytes of a trace file; equal traces give equal bytes."""
    with full_collections_paused():  # a million small objects are made, none of which is garbage: it takes half as long
        return _pack("trace", to_json(trace))


def loads(data: bytes, name: str = "trace", limit: float = LIMIT) -> TraceData:
    """Read the bytes of a trace file; FileError if they are not one, or need more than `limit` bytes of memory."""
    with full_collections_paused():
        return _read(data, "trace", name, from_json, limit)


def save(trace: TraceData, path: str | PathLike[str]) -> None:
    """Write a trace file; an old file stays until the new one is complete. FileError if it cannot be written."""
    write(path, dumps(trace))


def checked(path: object) -> str | PathLike[str]:
    """Return a path unchanged; InputError for a value that is no path."""
    if not isinstance(path, (str, PathLike)):
        raise InputError(f"a file is given by its path, such as 'f.json.gz', not {path!r}")
    return path


def write(path: str | PathLike[str], data: bytes) -> None:
    """Write a file; an old one stays until the new one is complete. FileError says why it cannot be written."""
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
    """Replace `target`, which may be a link, by a new file with the mode of the old one.

    The new file first gets a random name and is never opened through a link, because others may write to the folder too.
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
            os.fsync(file.fileno())  # a full disk may raise only here
        if before is not None and stat.S_ISREG(before.st_mode):
            part.chmod(stat.S_IMODE(before.st_mode))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | PathLike[str], *, limit: float = LIMIT) -> TraceData:
    """Read a trace file. FileError says if it is missing, truncated, altered, not a trace, too new or too big.

    `limit` is the most memory in bytes that it may take. Allow more for a file from a source that you trust.
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
    """Return a recording as bytes, to replay later and elsewhere."""
    value = {
        "meta": jsonable(plain(meta)),
        "events": [record_to_json(e) for e in events],
        "failures": [record_to_json(f) for f in failures],
    }
    return _pack("events", value)


def load_events(data: bytes, name: str = "events") -> tuple[list[Event], list[Failure], dict[str, Any]]:
    """Read the recording that `dump_events` wrote; FileError if the bytes are not one."""

    def read(value: dict[str, Any], number: int) -> tuple[list[Event], list[Failure], dict[str, Any]]:
        events = [_event(e, number) for e in value["events"]]
        events = with_sections(events) if number == 1 else events
        return events, [_failure(f, number) for f in value["failures"]], value["meta"]

    return _read(data, "events", name, read)


def _pack(kind: str, value: dict[str, Any]) -> bytes:
    whole = {"explorer": kind, "format": FORMAT, "sha256": _digest(value), kind: value}
    return gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), compresslevel=6, mtime=0)


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(data: bytes, kind: str, name: str, read: Callable[[dict[str, Any], int], T], limit: float = LIMIT) -> T:
    if data[:64].lstrip().lower().startswith(b"<!doctype html"):
        raise FileError(f"{name} is a page: open it in a browser; explorer loads files that Trace.save or `-o x.json.gz` wrote")
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
    """Unpack gzipped JSON; FileError if reading it would take more memory than the limit allows.

    A few bytes of gzip can hold gigabytes, and a few of JSON can become objects of 20 times their size. Both are bounded
    before the first object is made.
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
    """Say how to load a file that is too big."""
    return (
        f"more than the limit of {limit / 1e9:.2g} GB: if you know who made it, allow more, "
        f"such as explorer.load(path, limit={need * 1.25:.1g})"
    )


def _check_depth(value: Any) -> None:
    """Raise ValueError for values nested deeper than `DEPTH`, on which recursive functions would fail later."""
    level = [value]
    for _ in range(DEPTH):
        below: list[Any] = []
        for each in level:
            below += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        if not below:
            return
        level = [v for v in below if isinstance(v, (dict, list))]
    raise ValueError(f"nested deeper than {DEPTH} levels")
