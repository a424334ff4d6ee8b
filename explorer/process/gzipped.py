"""Unpack gzip that anyone may have made.

Python's `gzip` reads the zeros behind a member one byte at a time, and the file name in its header too: a sparse file of 100 GB
keeps it busy for a day. zlib reads the name at once, and what stands behind the zeros is nobody's.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import BinaryIO

#: The bytes that are unpacked at a time. What follows a member is copied, so that many small members need a small number.
CHUNK = 1 << 14
#: How a member begins (RFC 1952).
GZIP = b"\x1f\x8b"


def unpacked(file: BinaryIO) -> io.BufferedReader:
    """Return the content of a gzip file, as `gzip.GzipFile` does; zlib.error, BadGzipFile or EOFError where it is damaged."""
    return io.BufferedReader(_Unpacked(file))


class _Unpacked(io.RawIOBase):
    """The content of one member after another."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._packed = file, file.read(CHUNK)
        self._member = self._next_member()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = b""
        while self._member is not None and not content:
            content = self._member.decompress(self._packed, len(buffer))
            has_ended = self._member.eof
            self._packed = self._member.unused_data if has_ended else self._member.unconsumed_tail
            self._packed = self._packed or self._file.read(CHUNK)
            if has_ended:
                # zeros may fill the last block of a tape
                self._member = None if self._packed.startswith(b"\0") else self._next_member()
            elif not content and not self._packed:
                raise EOFError("it is cut off")
        buffer[: len(content)] = content
        return len(content)

    def _next_member(self) -> zlib._Decompress | None:
        """What unpacks the member that begins here; None at the end of the file."""
        if not GZIP.startswith(self._packed[:2]):
            raise gzip.BadGzipFile("no member begins here")
        return zlib.decompressobj(wbits=31) if self._packed else None


__all__ = ["GZIP", "unpacked"]
