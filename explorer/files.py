"""Trace files: gzipped JSON, format 1. Loading one runs no code.

A file is the gzip of one JSON object:

    {"explorer": "trace", "format": 1, "sha256": hex, "trace": {"meta", "artifacts", "links", "failures"}}

`sha256` is that of the compact JSON of "trace" with sorted keys, so that an altered file is noticed. A record
leaves out fields that hold their default. A reader refuses a higher format and ignores nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from explorer.errors import FileError
from explorer.model import Artifact, Event, Failure, Link, calls, jsonable, plain, record_from_json, record_to_json
from explorer.traced import Trace

FORMAT = 1
T = TypeVar("T")


def to_json(trace: Trace) -> dict[str, Any]:
    """The trace's value as a JSON object."""
    return {
        "meta": jsonable(trace.meta),
        "artifacts": [record_to_json(a) for a in trace.artifacts],
        "links": [[link.source, list(link.source_lines), link.target, list(link.target_lines), link.how] for link in trace.links],
        "failures": [record_to_json(f) for f in trace.failures],
    }


def from_json(value: dict[str, Any]) -> Trace:
    """The Trace that `to_json` wrote."""
    return Trace(
        plain({**value["meta"]}),
        tuple(_with_path(Artifact, a) for a in value["artifacts"]),
        tuple(Link(s, tuple(sl), t, tuple(tl), how) for s, sl, t, tl, how in value["links"]),
        tuple(record_from_json(Failure, f) for f in value["failures"]),
    )


def _with_path(kind: Any, value: dict[str, Any]) -> Any:
    return record_from_json(kind, {**value, "path": calls(value.get("path", ()))})


def dumps(trace: Trace) -> bytes:
    """The trace as the bytes of a trace file; equal traces give equal bytes."""
    return _pack("trace", to_json(trace))


def loads(data: bytes, name: str = "trace") -> Trace:
    """The Trace in the bytes of a trace file; FileError where they are not one."""
    return _read(data, "trace", name, from_json)


def save(trace: Trace, path: str | PathLike[str]) -> None:
    """Write a trace file; the old file stays until the new one is complete. FileError where it cannot be written."""
    write(path, dumps(trace))


def write(path: str | PathLike[str], data: bytes) -> None:
    """Write a file; the old one stays until the new one is complete. FileError says why it cannot be written."""
    target = Path(path)
    if target.is_dir():
        raise FileError(f"cannot write {path}: it is a folder; give a file in it, such as {target / 'trace'}")
    if not target.absolute().parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {target.parent}")
    part = target.with_name(f"{target.name}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error


def load(path: str | PathLike[str]) -> Trace:
    """Read a trace file. FileError says what is wrong with it: missing, truncated, altered, not a trace, too new."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    return loads(data, str(path))


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

    def read(value: dict[str, Any]) -> tuple[list[Event], list[Failure], dict[str, Any]]:
        events = [_with_path(Event, e) for e in value["events"]]
        return events, [record_from_json(Failure, f) for f in value["failures"]], value["meta"]

    return _read(data, "events", name, read)


def _pack(kind: str, value: dict[str, Any]) -> bytes:
    whole = {"explorer": kind, "format": FORMAT, "sha256": _digest(value), kind: value}
    return gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), compresslevel=6, mtime=0)


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(data: bytes, kind: str, name: str, read: Callable[[dict[str, Any]], T]) -> T:
    if data[:64].lstrip().lower().startswith(b"<!doctype html"):
        raise FileError(f"{name} is a page: open it in a browser; what can be loaded is what Trace.save or `-o x.json.gz` wrote")
    try:
        whole = json.loads(gzip.decompress(data))
    except (OSError, EOFError, ValueError, RecursionError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
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
        return read(whole[kind])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileError(f"{name} does not hold what format {FORMAT} promises ({type(error).__name__}: {error})") from error
