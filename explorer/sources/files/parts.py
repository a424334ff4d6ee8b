"""One JSON text in several gzip members, with an index that says what is in each, so that one can be read without the others.

    head, value, …, value, index, trailer

The members follow each other, so `gunzip`, and a reader that knows no index, give the whole text. A value is one member: a JSON
value, or several with commas between. The index is the last member with a text; behind it stands a member without one, in whose
extra field (RFC 1952, subfield "EX") is where the index begins.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from explorer.errors import FileError

#: About how many characters a member holds: unpacking one takes a third of a millisecond.
SIZE = 60_000
#: The texts of so many members are kept: artifacts of one compile, a stage after the other, are often asked for together.
KEPT = 64
#: About how many bytes CPython's json module takes for each of these characters: a list with its place in another, a
#: dict with its table, a number or a place in a list, half of a string. For the trace that `trace_file.LIMIT` names they add
#: up to 0.126 GB.
COSTS = {b"[": 64, b"{": 200, b",": 40, b'"': 30}
#: A member without a text whose extra field has one subfield of eight bytes.
_TRAILER = struct.Struct("<4sIBBH2sHQ2sII")
_HEAD = (b"\x1f\x8b\x08\x04", 0, 0, 255, 12, b"EX", 8)


class Part(NamedTuple):
    """Where a member stands: its first byte, its bytes, the bytes of its text, and the memory that its values may take."""

    begin: int
    packed: int
    size: int
    need: int


class Writer:
    """Puts members one after the other."""

    def __init__(self) -> None:
        self._file = io.BytesIO()
        self.need = 0

    def add(self, text: str) -> Part:
        """Write a text as one member."""
        content = text.encode()
        packed = gzip.compress(content, compresslevel=6, mtime=0)
        part = Part(self._file.tell(), len(packed), len(content), need_of(content))
        self._file.write(packed)
        self.need += part.need
        return part

    def finish(self, index: Mapping[str, Any], before: str, behind: str) -> bytes:
        """Write the index, between these texts, and return all bytes; it has the checksum of the members before it."""
        begin = self._file.tell()
        checked = {**index, "need": self.need, "packed_sha256": hashlib.sha256(self._file.getvalue()).hexdigest()}
        self.add(f"{before}{_json(checked)}{behind}")
        empty = (b"\x03\x00", 0, 0)  # an empty deflate stream, its CRC and its size
        return self._file.getvalue() + _TRAILER.pack(*_HEAD, begin, *empty)


def need_of(text: bytes) -> int:
    """About how many bytes of memory the values of a JSON text take, beside a copy of it."""
    return 2 * len(text) + sum(cost * text.count(character) for character, cost in COSTS.items())


def index_at(data: bytes) -> int | None:
    """The first byte of the index of a file; None for a file without one."""
    if len(data) < _TRAILER.size:
        return None
    *head, begin, stream, crc, size = _TRAILER.unpack(data[-_TRAILER.size :])
    is_trailer = tuple(head) == _HEAD and (stream, crc, size) == (b"\x03\x00", 0, 0)
    return begin if is_trailer and 0 < begin < len(data) - _TRAILER.size else None


def first_text(data: bytes, size: int) -> bytes:
    """The first bytes, at most `size`, of the text of the first member; none where it is no gzip."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, size)
    except zlib.error:
        return b""


def read_index(data: bytes, begin: int, before: str, behind: str, limit: float) -> dict[str, Any]:
    """The index that `Writer.finish` wrote between these texts; ValueError where the members before it are not those it is of."""
    unpacker = zlib.decompressobj(wbits=31)
    content = unpacker.decompress(data[begin : -_TRAILER.size], int(limit / 4) + 1)
    text = content.decode()
    is_whole = unpacker.eof and text.startswith(before) and text.endswith(behind)
    if not is_whole or need_of(content) > limit:
        raise ValueError("its index is damaged, or needs more memory than the limit allows")
    index = json.loads(text[len(before) : len(text) - len(behind)])
    if hashlib.sha256(data[:begin]).hexdigest() != index.get("packed_sha256"):
        raise ValueError("a part of it is damaged")
    return dict(index)


def check_index(need: int, listed: Iterable[Part]) -> None:
    """Raise ValueError where the parts of an index have impossible sizes, or need more memory than it states in all.

    The file may come from anyone. A part needs at least two bytes for each of its text, see `need_of`. So that bounds its size.
    """
    total = 0
    for part in listed:
        if any(type(number) is not int or number < 0 for number in part) or 2 * part.size > part.need:
            raise ValueError("its index has an impossible size")
        total += part.need
    if type(need) is not int or total > need:
        raise ValueError("its parts need more memory than its index states")


class Reader:
    """Reads a file's members, one at a time."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name
        self._recent: OrderedDict[Part, bytes] = OrderedDict()
        self.lock = threading.RLock()

    def values(self, part: Part) -> list[Any]:
        """The values of a member; FileError where it does not hold what the index says."""
        values: list[Any] = self._json(b"[" + self._text(part).removeprefix(b",") + b"]")
        return values

    def value(self, part: Part, begin: int, end: int) -> Any:
        """The value between two places of a member; FileError as for `values`."""
        return self._json(self.content(part, begin, end))

    def content(self, part: Part, begin: int, end: int) -> bytes:
        """What stands between two places of a member; FileError where the member is damaged."""
        return self._text(part)[begin:end]

    def _json(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FileError(f"{self._name} is damaged ({error})") from error

    def _text(self, part: Part) -> bytes:
        with self.lock:
            if part not in self._recent:
                self._recent[part] = self._inflated(part)
            self._recent.move_to_end(part)
            while len(self._recent) > KEPT:
                self._recent.popitem(last=False)
            return self._recent[part]

    def _inflated(self, part: Part) -> bytes:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            text = unpacker.decompress(self._data[part.begin : part.begin + part.packed], part.size + 1)
        except zlib.error as error:
            raise FileError(f"{self._name} is damaged ({error})") from error
        if len(text) != part.size or need_of(text) > part.need:
            raise FileError(f"{self._name} is damaged: the size of a part differs from the index")
        return text


def batches(texts: Iterable[str], size: int | None = None) -> Iterable[list[str]]:
    """Texts in lists of about `SIZE` characters."""
    batch: list[str] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= (size or SIZE):
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
