"""Gzip is unpacked as Python does, also where a member is followed by what Python takes a day to skip."""

from __future__ import annotations

import gzip
import io
import os
import random
import zlib
from pathlib import Path

import pytest

from explorer.process.gzipped import CHUNK, unpacked

TEXTS = [b"", b"a", bytes(1_000_000), random.Random(0).randbytes(5 * CHUNK), *[b"one of many"] * 5000]


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_all_members_are_unpacked(size: int) -> None:
    """Whatever their sizes are, and however much is read at a time; zeros may follow."""
    texts = TEXTS if size > 100 else [b"a", b"", b"bc"]
    packed = b"".join(map(gzip.compress, texts))
    for data in (packed, packed + bytes(3 * CHUNK)):
        file = unpacked(io.BytesIO(data))
        found = b""
        while content := file.read(size):
            found += content
        assert found == b"".join(texts)


def test_nothing_is_unpacked_to_nothing() -> None:
    """As by `gzip`."""
    assert gzip.GzipFile(fileobj=io.BytesIO()).read() == unpacked(io.BytesIO()).read() == b""


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:5], lambda data: data + b"x", lambda data: bytes(9) + data]
)
def test_what_is_damaged_is_an_error(damage: object) -> None:
    """Cut off anywhere, begun with something else, followed by it, or changed."""
    data = gzip.compress(TEXTS[3])
    with pytest.raises((EOFError, gzip.BadGzipFile)):
        unpacked(io.BytesIO(damage(data))).read()  # type: ignore[operator]
    with pytest.raises(zlib.error):
        unpacked(io.BytesIO(data[:-8] + bytes(8))).read()


def test_of_what_follows_the_zeros_nothing_is_read(tmp_path: Path) -> None:
    """A file that states a terabyte is unpacked at once."""
    path = tmp_path / "sparse.gz"
    path.write_bytes(gzip.compress(b"content"))
    os.truncate(path, 1 << 40)
    with path.open("rb") as file:
        assert unpacked(file).read() == b"content"
        assert file.tell() < 1 << 20
