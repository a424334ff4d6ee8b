"""Trace files: gzipped JSON, format 3. Loading one runs no code.

A file is the gzip of one JSON object:

    {"explorer": "trace", "format": 3, "sha256": hex, "trace": {"meta", "artifacts", "links", "failures"}}

`sha256` is the checksum of the compact JSON of "trace" with sorted keys; it reveals an altered file. A record leaves out fields
that hold their default. A reader refuses a higher format, and ignores no field. The table in `upgrades.py` upgrades a lower
format.

A large file is the same text in several gzip members, with a key "index" more, that readers without it ignore: see `parts`. Its
artifacts and links are read when they are asked for. One of a lower format is read whole.

A file may come from anyone, so reading one is bounded: see `LIMIT` and `DEPTH`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from explorer.errors import FileError, InputError
from explorer.model.deferred import defer, maker_of
from explorer.model.records import FieldError
from explorer.model.trace_data import TraceData
from explorer.model.values import (
    LINE_COUNT,
    Artifact,
    Event,
    Failure,
    Link,
    calls,
    jsonable,
    plain,
    record_from_json,
    record_to_json,
    text_lines,
)
from explorer.process import regular_files
from explorer.process.garbage import full_collections_paused
from explorer.process.gzipped import GZIP, unpacked
from explorer.sources.files import parts
from explorer.sources.files.upgrades import FORMAT, upgraded, upgraded_failure, with_sections
from explorer.stages.described import meta_with_stages, stages_in
from explorer.stages.records import artifact_data, event_data

#: The most memory, in bytes, that reading a file may take, unless the caller allows more. A training trace of GPT-2 with
#: 12 layers takes 0.13 GB.
LIMIT = 1_000_000_000
#: How deep the values of a file may be nested; the trace above is nested 10 deep.
DEPTH = 64
#: A trace with more characters than these is written in parts; a smaller one is read whole in less than half a second.
LARGE = 4_000_000
#: How many bytes tell a trace file from others.
BEGIN = 64
T = TypeVar("T")


def to_json(trace: TraceData) -> dict[str, Any]:
    """Return the trace's value as a JSON object."""
    return {
        "meta": jsonable(plain(meta_with_stages(trace))),
        "artifacts": [_artifact_json(a) for a in trace.artifacts],
        "links": [_link_json(link) for link in trace.links],
        "failures": [record_to_json(f) for f in trace.failures],
    }


def _link_json(link: Link) -> list[Any]:
    return [link.source, list(link.source_lines), link.target, list(link.target_lines), link.how]


def from_json(value: dict[str, Any], number: int = FORMAT) -> TraceData:
    """Read the trace that `to_json` wrote, in format `number`."""
    meta = {**value["meta"]}
    stages = stages_in(meta)
    return TraceData(
        plain(meta),
        tuple(_artifact(a, number) for a in value["artifacts"]),
        tuple(_links(value["links"])),
        tuple(_failure(f, number) for f in value["failures"]),
        _stages=stages,
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


def _links(values: Iterable[Any]) -> Iterator[Link]:
    """Read Links from their five parts each; TypeError or ValueError if there are others, or one has the wrong type.

    Equal ids and equal lines are one object: a text has thousands of links, and JSON gives each a copy of its id.
    """
    shared: dict[Any, Any] = {}
    share = shared.setdefault
    for source, source_lines, target, target_lines, how in values:
        if not (type(source) is type(target) is type(how) is str):
            raise TypeError("a link names its two texts and how it is known")
        for lines in (source_lines, target_lines):
            for line in lines:
                if type(line) is not int:
                    raise TypeError("the lines of a link are whole numbers")
        begin, end = tuple(source_lines), tuple(target_lines)
        yield Link(share(source, source), share(begin, begin), share(target, target), share(end, end), share(how, how))


def _with_path(kind: Any, value: dict[str, Any]) -> Any:
    return record_from_json(kind, {**value, "path": calls(value.get("path", ()))})


def dumps(trace: TraceData) -> bytes:
    """Return the bytes of a trace file; equal traces give equal bytes."""
    with full_collections_paused():  # a million small objects are made, none of which is garbage: it takes half as long
        return _packed(trace)


def loads(data: bytes, name: str = "trace", limit: float = LIMIT) -> TraceData:
    """Read the bytes of a trace file; FileError if they are not one, or need more than `limit` bytes of memory."""
    with full_collections_paused():
        begin = parts.index_at(data)
        if begin is not None and _format_of_parts(data, name) == FORMAT:
            return _read_parts(data, begin, name, limit)
        return _read(data, "trace", name, from_json, limit)  # upgrades a lower format


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
    with regular_files.opened(checked(path)) as file:
        data = file.read(BEGIN)
        if data.startswith(GZIP):  # no more is read of another file: its begin says what is wrong
            rest = regular_files.rest_of(file, limit)
            if rest is None:
                raise FileError(f"cannot read {path}: the file has {_more(limit, limit * 4)}")
            data += rest
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


# In parts ----------------------------------------------------------------------------------------------------------------

#: How the first member begins, with the format.
_FORMAT = re.compile(rb'\{"explorer":"trace","format":(\d{1,9}),')
#: What stands before and behind the index.
_AROUND_INDEX = '},"index":', "}"


class _Text:
    """A trace as the JSON texts of its parts, and the checksum of the whole, which sorts the keys."""

    def __init__(self, trace: TraceData) -> None:
        digest = hashlib.sha256()

        def texts(key: str, values: Iterable[Any]) -> list[str]:
            digest.update(f'"{key}":['.encode())
            found: list[str] = []
            for value in values:
                digest.update(f"{',' if found else ''}{_sorted(value)}".encode())
                found.append(_compact(value))
            digest.update(b"],")
            return found

        digest.update(b"{")
        self.artifacts = texts("artifacts", map(_artifact_json, trace.artifacts))
        self.failures = texts("failures", map(record_to_json, trace.failures))
        self.links = texts("links", map(_link_json, trace.links))
        meta = jsonable(plain(meta_with_stages(trace)))
        self.meta = _compact(meta)
        digest.update(f'"meta":{_sorted(meta)}}}'.encode())
        self.head = f'{{"explorer":"trace","format":{FORMAT},"sha256":"{digest.hexdigest()}","trace":{{"meta":'

    def __len__(self) -> int:
        return sum(sum(map(len, texts)) for texts in (self.artifacts, self.links, self.failures))

    def whole(self) -> str:
        """The text in one."""
        artifacts, links, failures = map(",".join, (self.artifacts, self.links, self.failures))
        return f'{self.head}{self.meta},"artifacts":[{artifacts}],"links":[{links}],"failures":[{failures}]}}}}'


def _sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _packed(trace: TraceData) -> bytes:
    """The bytes of a trace file; of a large trace in parts."""
    text = _Text(trace)
    if len(text) <= LARGE:
        return gzip.compress(text.whole().encode(), compresslevel=6, mtime=0)
    file = parts.Writer()
    file.add(text.head)
    index: dict[str, Any] = {"meta": file.add(text.meta)}
    rows = iter(trace.artifacts)
    for key in ("artifacts", "links", "failures"):
        file.add(f'{"]" if key != "artifacts" else ""},"{key}":[')
        index[key] = []
        for number, batch in enumerate(parts.batches(getattr(text, key))):
            part = file.add(f"{',' if number else ''}{','.join(batch)}")
            index[key].append([part, [_stub(next(rows), len(each)) for each in batch]] if key == "artifacts" else part)
    file.add("]")
    return file.finish(index, *_AROUND_INDEX)


def _stub(artifact: Artifact, size: int) -> list[Any]:
    """What the index has of an artifact: all but its text, data and path, the number of its lines, and the bytes of its JSON."""
    return [*(getattr(artifact, name) for name in _STATED), artifact.line_count, size]


def _format_of_parts(data: bytes, name: str) -> int | None:
    """Return the format of a file in parts; None if the file must be read as a whole to say what is wrong.

    FileError for a newer format.
    """
    match = _FORMAT.match(parts.first_text(data, 64))
    if match is None:
        return None
    number = int(match[1])
    _check_format(number, name)
    return number


def _read_parts(data: bytes, begin: int, name: str, limit: float) -> TraceData:
    """The trace of a file in parts; its artifacts and links are read when they are asked for."""
    try:
        index = parts.read_index(data, begin, *_AROUND_INDEX, limit)
        _check_need(index["need"], name, limit)
        parts.check_index(index["need"], _parts_of(index))
        reader = parts.Reader(data, name)
        (meta,) = _shallow(reader.values(parts.Part(*index["meta"])))
        artifacts = [
            artifact
            for number, (part, stubs) in enumerate(index["artifacts"])
            for artifact in _unread_artifacts(reader, parts.Part(*part), stubs, begin=min(number, 1))
        ]
        failures = [_failure(value, FORMAT) for part in index["failures"] for value in reader.values(parts.Part(*part))]
        stages = stages_in(meta)
        trace = TraceData(plain(meta), tuple(artifacts), (), tuple(failures), _stages=stages)
        links = [parts.Part(*part) for part in index["links"]]
    except FileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise FileError(f"{name} is truncated, damaged or not an explorer trace file ({_reason(error)})") from error
    defer(trace, lambda: {"links": _links_in(reader, links, name)}, ("links",), reader.lock)
    return trace


def _parts_of(index: Mapping[str, Any]) -> Iterator[parts.Part]:
    """Yield every part that an index lists. ValueError for artifacts that overlap, or that reach beyond their part."""
    yield parts.Part(*index["meta"])
    for part, stubs in index["artifacts"]:
        sizes = [size for *_, size in stubs]
        if any(type(size) is not int or size < 0 for size in sizes) or sum(sizes) > part[2]:
            raise ValueError("its index lists artifacts that are not in the file")
        yield parts.Part(*part)
    for key in ("links", "failures"):
        yield from (parts.Part(*part) for part in index[key])


def _links_in(reader: parts.Reader, where: Iterable[parts.Part], name: str) -> tuple[Link, ...]:
    try:
        with full_collections_paused():
            return tuple(_links(link for part in where for link in reader.values(part)))
    except (TypeError, ValueError) as error:
        raise FileError(
            f"{name} is not a valid file of format {FORMAT} ({type(error).__name__}: {error}); save or record it again"
        ) from error


#: The fields of an artifact that the index does not have.
_UNREAD = ("text", "data", "path")
#: Those that it has, each with what stands for one that is left out.
_STATED = {f.name: None if f.default is MISSING else f.default for f in fields(Artifact) if f.name not in _UNREAD}
_FIELDS = frozenset(f.name for f in fields(Artifact))


def _unread_artifacts(reader: parts.Reader, part: parts.Part, stubs: Iterable[list[Any]], begin: int) -> Iterator[Artifact]:
    """The artifacts of one part, of which the first begins at a place; between two is a comma."""
    for *stated, lines, size in stubs:
        artifact = record_from_json(Artifact, {**dict(zip(_STATED, stated, strict=True)), "text": ""})
        vars(artifact)[LINE_COUNT] = int(lines)
        defer(artifact, _Unread(reader, (part, begin, begin + size), stated, int(lines)), _UNREAD, reader.lock)
        yield artifact
        begin += size + 1


@dataclass(frozen=True)
class _Unread:
    """Reads the text and the data of an artifact when one of them is asked for."""

    reader: parts.Reader
    place: tuple[parts.Part, int, int]
    stated: list[Any]
    lines: int

    def __call__(self) -> dict[str, Any]:
        try:
            return _text_and_data(_shallow(self.reader.value(*self.place)), self.stated, self.lines)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"the text {self.stated[0]} is not valid in format {FORMAT} ({type(error).__name__}: {error}); record it again"
            raise FileError(what) from error


def content(artifact: Artifact) -> bytes | None:
    """The bytes of the whole artifact in its file, if it was not read yet: equal bytes are equal artifacts. None otherwise."""
    unread = maker_of(artifact, "text")
    return unread.reader.content(*unread.place) if isinstance(unread, _Unread) else None


def _text_and_data(value: Mapping[str, Any], stated: list[Any], lines: int) -> dict[str, Any]:
    """What `_artifact` reads, without the fields that the index has; ValueError where those differ from the index."""
    given = [value.get(name, default) for name, default in _STATED.items()]
    text = value["text"]
    if given != stated or type(text) is not str or len(text_lines(text)) != lines or not value.keys() <= _FIELDS:
        raise ValueError("it differs from what the index of the file says")
    data = value.get("data", {})
    return {"text": text, "data": artifact_data(given[1], data), "path": calls(value.get("path", ()))}


def _shallow(value: Any) -> Any:
    """A value that is not nested deeper than `DEPTH`."""
    _check_depth(value)
    return value


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(data: bytes, kind: str, name: str, read: Callable[[dict[str, Any], int], T], limit: float = LIMIT) -> T:
    if data[:BEGIN].lstrip().lower().startswith(b"<!doctype html"):
        raise FileError(f"{name} is a page: open it in a browser; explorer loads files that Trace.save or `-o x.json.gz` wrote")
    try:
        whole = json.loads(_inflated(data, name, limit))
        _check_depth(whole)
    except (EOFError, ValueError, RecursionError, gzip.zlib.error, gzip.BadGzipFile) as error:  # type: ignore[attr-defined]
        raise FileError(f"{name} is truncated, damaged or not an explorer {kind} file ({_reason(error)})") from error
    if not isinstance(whole, dict) or whole.get("explorer") != kind:
        raise FileError(f"{name} is not an explorer {kind} file")
    number = whole.get("format")
    if type(number) is not int or number < 1:
        raise FileError(f"{name} is damaged: it says that its format is {number!r}")
    _check_format(number, name)
    if _digest(whole.get(kind, {})) != whole.get("sha256"):
        raise FileError(f"{name} was altered after it was saved: its checksum does not match")
    try:
        return read(whole[kind], number)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileError(
            f"{name} is not a valid file of format {FORMAT} ({type(error).__name__}: {error}); save or record it again"
        ) from error


def _reason(error: Exception) -> str:
    """Say why a file cannot be read, with nothing of its bytes, which Python's own messages quote: it may be any file."""
    match error:
        case gzip.BadGzipFile():
            return "it is not gzip"
        case json.JSONDecodeError():
            return f"it is not JSON: see character {error.pos}"
        case UnicodeDecodeError():
            return f"it is not UTF-8: see byte {error.start}"
    return str(error)


def _check_format(number: int, name: str) -> None:
    if number > FORMAT:
        raise FileError(f"{name} has format {number}, this explorer reads up to {FORMAT}: upgrade explorer")


def _inflated(data: bytes, name: str, limit: float) -> bytes:
    """Unpack gzipped JSON; FileError if reading it would take more memory than the limit allows.

    A few bytes of gzip can hold gigabytes, and a few of JSON can become objects of 20 times their size. Both are bounded
    before the first object is made.
    """
    most = int(limit / 4)
    text = unpacked(io.BytesIO(data)).read(most + 1)
    if len(text) > most:
        raise FileError(f"{name} holds more than {most / 1e9:.2g} GB of text, {_more(limit, limit * 4)}")
    _check_need(parts.need_of(text), name, limit)
    return text


def _check_need(need: float, name: str, limit: float) -> None:
    if need > limit:
        raise FileError(f"{name} would take up to {need / 1e9:.1f} GB of memory, {_more(limit, need)}")


def _more(limit: float, need: float) -> str:
    """Say how to load a file that is too big."""
    return (
        f"more than the limit of {limit / 1e9:.2g} GB: if you know who made it, allow more, "
        f"such as explorer.load(path, limit={need * 1.25:.1g})"
    )


_NESTED = frozenset((dict, list))


def _check_depth(value: Any) -> None:
    """Raise ValueError for values nested deeper than `DEPTH`, on which recursive functions would fail later."""
    level = [value]
    for _ in range(DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [each for values in inner for each in values if type(each) in _NESTED]
        if not level:
            return
    raise ValueError(f"nested deeper than {DEPTH} levels")
