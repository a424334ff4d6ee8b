"""Files that others name are read where they are regular ones, below the folders that are allowed, and up to a bound."""

from __future__ import annotations

import gzip
import os
import socket
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import explorer
from explorer.analysis.timing.sources import timeline_of
from explorer.errors import ExplorerError, FileError
from explorer.process import regular_files
from explorer.tracing.traced import Trace
from tests.facts import says

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices have no paths there")


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "made")
    return folder / "made"


def bound(folder: Path) -> Path:
    with closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(str(folder / "made"))
    return folder / "made"


def device(_: Path) -> Path:
    return Path("/dev/zero")


def link_to_device(folder: Path) -> Path:
    (folder / "made").symlink_to("/dev/zero")
    return folder / "made"


@pytest.mark.parametrize(
    ("make", "what"),
    [(pipe, "pipe"), (bound, "socket"), (device, "device"), (link_to_device, "device")],
    ids=lambda v: getattr(v, "__name__", v),
)
@pytest.mark.parametrize("read", [explorer.load, explorer.tracing.traced.ranks.load_ranks, timeline_of], ids=lambda v: v.__name__)
def test_what_is_no_file_is_refused_and_not_waited_for(
    make: Callable[[Path], Path], what: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    """A pipe nobody writes to, a socket and a device without an end are named as what they are, by each that reads files."""
    path = make(tmp_path)
    with pytest.raises(FileError, match=says(str(path), what)):
        read(path)


@pytest.mark.parametrize("path", ["no/such", "x" * 5000, "a\0b", "a\udc80\ud800b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    """A path that is missing, too long, or that no file can have is a FileError."""
    with pytest.raises(FileError):
        explorer.load(path)


def test_ranks_that_are_pipes_are_named_and_the_others_read(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """A folder with a trace, and a pipe in the place of another rank's, gives the first."""
    replayed("sin_cos-torch2.13-cpu").save(tmp_path / "trace.rank0.json.gz")
    os.mkfifo(tmp_path / "trace.rank1.json.gz")
    (tmp_path / "rank2.json.gz").symlink_to("/dev/zero")
    assert isinstance(explorer.load(tmp_path), Trace)


def test_the_size_that_a_file_states_does_not_bound_it() -> None:
    """Files of /proc state no size; what is read of them counts."""
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("no /proc here")
    assert path.stat().st_size == 0 and len(regular_files.read(path, 100_000)) > 0
    with pytest.raises(FileError, match=says(str(path))):
        regular_files.read(path, 100)


@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/kmsg"])
def test_a_file_whose_bytes_cannot_be_read_is_refused(path: str) -> None:
    """It is a regular one of /proc; reading it fails, or would wait."""
    if not os.access(path, os.R_OK):
        pytest.skip(f"no {path} here")
    for read in (explorer.load, lambda path: regular_files.read(path, 100)):
        with pytest.raises(FileError, match=says(path)):
            read(path)


def test_of_a_file_that_is_no_trace_the_begin_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of a terabyte, alone or as a zip that states a list of members as long, is refused unread."""
    sparse, as_zip = tmp_path / "sparse.json.gz", tmp_path / "whole.zip"
    with zipfile.ZipFile(as_zip, "w") as file:
        file.writestr("rank0.json.gz", "")
    end = bytearray(as_zip.read_bytes()[-22:])
    end[12:16] = (1 << 30).to_bytes(4, "little")  # how long its list of members is
    end[16:20] = bytes(4)
    for path, tail in ((sparse, b""), (as_zip, end)):
        with path.open("wb") as file:
            file.truncate(1 << 30 if tail else 1 << 40)
            file.seek(0, os.SEEK_END)
            file.write(tail)
    taken: list[int] = []
    monkeypatch.setattr(regular_files, "rest_of", lambda *_: taken.append(1))
    for path in (sparse, as_zip):
        with pytest.raises(FileError, match=says(str(path))):
            explorer.load(path)
    assert not taken


def test_an_error_has_nothing_of_a_file(tmp_path: Path) -> None:
    """Whatever a file holds that is no trace, the error does not quote it: a file may be read for one who must not see it."""
    secret = b"hunter2 \xff\xfe {hunter2"
    contents = (
        secret,
        gzip.compress(secret),
        gzip.compress(b'{"hunter2": hunter2}'),
        b"\x1f\x8b" + secret,
        b"PK\x05\x06" + secret,
    )
    for number, content in enumerate(contents):
        path = tmp_path / str(number)
        path.write_bytes(content)
        with pytest.raises(ExplorerError) as raised:
            explorer.load(path)
        told = str(raised.value).replace(str(path), "")
        assert "hu" not in told and "0xff" not in told and "b'" not in told


def test_a_folder_is_looked_at_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with more entries, in it or below it, is refused; one that leads back to itself is not walked in circles."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "back").symlink_to(tmp_path)
    with pytest.raises(FileError, match=says("log")):
        explorer.load(tmp_path)
    monkeypatch.setattr(regular_files, "MAX_ENTRIES", 4)
    for number in range(5):
        (tmp_path / "a" / "b" / str(number)).touch()
    for folder in (tmp_path, tmp_path / "a" / "b"):
        with pytest.raises(FileError, match=says(str(folder), "4")):
            explorer.load(folder)


def test_only_what_is_below_the_allowed_folders_is_read(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """A file elsewhere is refused with the folder's name, also through a link, in a folder, or by ".."; afterwards it is read."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for folder in (inside, outside):
        replayed("sin_cos-torch2.13-cpu").save(folder / "trace.rank0.json.gz")
    (inside / "link").symlink_to(outside / "trace.rank0.json.gz")
    (inside / "folder").symlink_to(outside)
    for path in (outside, inside / "link", inside / "folder", inside / ".." / "outside" / "trace.rank0.json.gz", "/nowhere"):
        with regular_files.below([inside]), pytest.raises(FileError, match=says(str(path), str(inside))):
            explorer.load(path)
    with regular_files.below([inside]):
        assert isinstance(explorer.load(inside), Trace)
    assert isinstance(explorer.load(inside / "link"), Trace)
