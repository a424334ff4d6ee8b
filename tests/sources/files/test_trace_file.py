"""Trace files: what is saved is what is loaded, and every damaged file gives one clear FileError."""

from __future__ import annotations

import errno
import functools
import gzip
import hashlib
import json
import math
import operator
import os
import pickle
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import explorer
from explorer.errors import FileError
from explorer.lab.live.protocol import live_of
from explorer.model.values import Artifact, Event, Failure, Link, jsonable, plain
from explorer.sources.files import trace_file as files
from explorer.sources.files.trace_file import dump_events, dumps, load_events
from explorer.stages.records import ARTIFACTS
from explorer.stages.torch_compile.phase import PhaseMark
from explorer.tracing.traced import Trace, load, loads
from tests.each import each
from tests.facts import says

DATA = Path(__file__).parents[2] / "data"
FUNCTION = {"function": "f", "qualname": "f", "file": "f.py", "line": 3, "first_line": 3, "resume": False, "compiled": True}
GRAPH: dict[str, Any] = {"nodes": [], "stacks": []}
SMALL = Trace(
    plain({"name": "f", "mode": None, "torch": "2.13.0"}),
    (
        Artifact("0/0:source", "source", "0/0", "", "f", "python", "def f(x):\n    return x\n", data=plain(FUNCTION)),
        Artifact(
            "0/0:dynamo",
            "dynamo",
            "0/0",
            "",
            "g",
            "fx",
            "é\u2028\x00🙂",
            "k",
            0.25,
            1.5,
            plain(GRAPH),
            path=(("torch/a.py", 3, "f"),),
        ),
    ),
    (Link("0/0:dynamo", (1,), "0/0:source", (1, 2), "stack_trace"),),
    (Failure("guards", "render", "KeyError", fatal=True),),
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The small trace as a file."""
    path = tmp_path / "t.trace.json.gz"
    SMALL.save(path)
    return path


def rewritten(data: bytes, change: Callable[[dict[str, Any]], object], *, checksum: bool = False) -> bytes:
    """A trace file with its JSON changed, and where asked with a checksum that fits the changed JSON."""
    whole = json.loads(gzip.decompress(data))
    change(whole)
    if checksum:
        text = json.dumps(whole["trace"], sort_keys=True, separators=(",", ":"))
        whole["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return gzip.compress(json.dumps(whole).encode())


# What is saved is what is loaded -------------------------------------------------------------------------------------


def test_a_loaded_trace_is_equal(saved: Path) -> None:
    """Every field comes back: texts of any characters, paths, numbers, flags, and mappings that cannot be changed."""
    loaded = explorer.load(saved)
    assert loaded == SMALL
    assert loaded.artifacts[1].path == (("torch/a.py", 3, "f"),)
    with pytest.raises(TypeError):
        loaded.meta["name"] = "g"


@pytest.mark.parametrize("name", ["toy_example-torch2.13-cpu", "mlp_train-torch2.13-cpu"])
def test_a_real_trace_is_equal_after_save_and_load(name: str, replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """A recorded program's trace, and all its tables, are the same after a round trip through a file."""
    trace = replayed(name)
    trace.save(tmp_path / "t")
    loaded = load(tmp_path / "t")
    assert loaded == trace
    for accessor in ("dynamo", "inductor", "compiler"):
        for table, member in type(getattr(trace, accessor)).members():
            if isinstance(member, property) and table != "choices":
                read, made = (getattr(getattr(one, accessor), table) for one in (loaded, trace))
                assert read == made and list(read.to_pandas().columns) == list(made.to_pandas().columns)
    assert repr(loaded) == repr(trace)


def test_an_empty_trace_is_equal_after_save_and_load() -> None:
    """A trace of nothing is a value too."""
    assert loads(dumps(Trace())) == Trace()


def test_equal_traces_give_equal_bytes(saved: Path) -> None:
    """The bytes depend on the trace alone: not on the time, the file's name, or whether it was loaded."""
    assert dumps(load(saved)) == dumps(SMALL) == saved.read_bytes()


def test_pickle_and_copy_go_through_the_same_bytes() -> None:
    """A pickled trace is equal again, and its pickle holds no more than the bytes of its file."""
    pickled = pickle.dumps(SMALL)
    assert pickle.loads(pickled) == SMALL
    assert dumps(SMALL) in pickled


def test_what_is_live_is_not_saved() -> None:
    """A trace with a live part is equal to the trace without it, and is saved as that; a loaded one has none."""
    live = Trace(SMALL.meta, SMALL.artifacts, SMALL.links, SMALL.failures, _live=object())
    assert live == SMALL and dumps(live) == dumps(SMALL)
    assert live_of(loads(dumps(live))) is None


def test_a_recording_survives_its_file() -> None:
    """Events and failures written by dump_events come back equal, with the meta."""
    phase = PhaseMark(name="compile", at="B", function="")
    own = plain({"rows": [{"a": 1}]})
    events = [Event("mine", 1.0, "0/0", "forward", own, (("torch/a.py", 3, "f"),)), Event("phase", 2.0, data=phase)]
    failures = [Failure("guards", "watch", "no")]
    assert load_events(dump_events(events, failures, {"torch": "2.13.0"})) == (events, failures, {"torch": "2.13.0"})


def test_a_recording_of_format_1_is_upgraded() -> None:
    """A recording of an older format is read in the present one, by the table of upgrades."""
    file = {"by": "inductor", "path": "a.py", "kind": "py", "bytes": 3}
    older = {"written_file": [file, {"rows": [file, file]}], "compilation_metrics": [{"of": "forward", "guard_count": 7}]}
    events = [{"kind": kind, "time": 0.0, "data": data} for kind, all_data in older.items() for data in all_data]
    value = {"meta": {}, "events": events, "failures": []}
    whole = {"explorer": "events", "format": 1, "sha256": files._digest(value), "events": value}
    found, _, _ = load_events(gzip.compress(json.dumps(whole).encode()))
    assert [jsonable(event.data) for event in found] == [
        {"files": [file]},
        {"files": [file, file]},
        {"of": "forward", "figures": {"guard_count": 7}},
    ]


def test_the_format_is_the_documented_one(saved: Path) -> None:
    """A file is gzipped JSON with the four keys that the docstring names, and the checksum is that of sorted compact JSON."""
    whole = json.loads(gzip.decompress(saved.read_bytes()))
    assert (whole["explorer"], whole["format"]) == ("trace", 3)
    assert sorted(whole) == ["explorer", "format", "sha256", "trace"]
    assert sorted(whole["trace"]) == ["artifacts", "failures", "links", "meta"]
    assert rewritten(saved.read_bytes(), lambda w: w.update(sha256="")) != rewritten(saved.read_bytes(), lambda w: None)
    text = json.dumps(whole["trace"], sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == whole["sha256"]


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow beyond 100 bytes, as on a disk that is full."""
    resource = pytest.importorskip("resource", reason="limits on files are Unix's")
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("write", [Trace.save, Trace.to_html])
def test_a_full_disk_leaves_the_old_file_and_no_other(write: Callable[[Trace, Path], None], saved: Path) -> None:
    """Where writing fails half-way the file that was there is still whole, and nothing is left beside it."""
    before = saved.read_bytes()
    # no longer than the write: a report that is printed into a file meanwhile would find the disk full too
    with full_disk(), pytest.raises(FileError, match=says(str(saved), os.strerror(errno.EFBIG))):
        write(SMALL, saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_saving_writes_through_no_link(saved: Path, tmp_path: Path) -> None:
    """A link in the place of the file is replaced, and one where a temporary file might be expected is left alone."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "link").symlink_to(precious)
    (tmp_path / "t.part").symlink_to(precious)
    SMALL.save(tmp_path / "link")
    SMALL.save(tmp_path / "t")
    assert precious.read_text() == "precious"
    assert not (tmp_path / "link").is_symlink() and load(tmp_path / "link") == load(tmp_path / "t") == SMALL


def test_saving_keeps_the_mode_of_the_file(saved: Path, tmp_path: Path) -> None:
    """A file that only its owner may read stays so; a new one has the mode that the process gives to new files."""
    saved.chmod(0o600)
    Trace().save(saved)
    (tmp_path / "other").touch()
    SMALL.save(tmp_path / "new")
    assert saved.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    """A pipe or device in the place of the file is refused; it would be gone otherwise."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match=says(str(tmp_path / "pipe"), "device", "socket")):
        SMALL.save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_saving_over_a_file_replaces_it(saved: Path) -> None:
    """The new trace is in the file, and no other file is left beside it."""
    Trace().save(str(saved))
    assert load(str(saved)) == Trace()
    assert os.listdir(saved.parent) == [saved.name]


# Damage --------------------------------------------------------------------------------------------------------------


def test_a_file_that_ends_too_early_is_refused(saved: Path) -> None:
    """A trace file cut at any place is a FileError that names the file."""
    data = saved.read_bytes()
    for size in {0, 1, 2, 9, 10, 11, len(data) // 4, len(data) // 2, len(data) - 9, len(data) - 8, len(data) - 1}:
        saved.write_bytes(data[:size])
        with pytest.raises(FileError, match=says("t.trace.json.gz", "damaged")):
            load(saved)


def test_any_altered_byte_is_noticed_or_harmless(saved: Path) -> None:
    """With one byte changed the file is a FileError or, where the byte means nothing to gzip, still the same trace."""
    data = saved.read_bytes()
    rng = random.Random(0)
    refused = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        try:
            assert loads(bytes(changed)) == SMALL
        except FileError:
            refused += 1
    assert refused > len(data) * 0.9


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w["trace"]["artifacts"][0].update(text="def f(x): return 0\n"),
        lambda w: w["trace"]["artifacts"][1].update(seconds=0.2501),
        lambda w: w["trace"]["links"][0].__setitem__(4, "a guess"),
        lambda w: w["trace"]["failures"].clear(),
        lambda w: w["trace"]["meta"].update(torch="2.14.0"),
        lambda w: w.update(sha256="0" * 64),
        lambda w: w.pop("sha256"),
        lambda w: w.pop("trace"),
    ],
)
def test_an_altered_field_is_refused(saved: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Whichever field was changed by hand, the checksum tells."""
    with pytest.raises(FileError, match=says("checksum")):
        loads(rewritten(saved.read_bytes(), change))


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w["trace"].pop("links"),
        lambda w: w["trace"].update(meta=3),
        lambda w: w["trace"].update(artifacts=[5]),
        lambda w: w["trace"].update(artifacts=None),
        lambda w: w["trace"]["artifacts"][0].pop("text"),
        lambda w: w["trace"]["artifacts"][0].update(surprise=1),
        lambda w: w["trace"]["artifacts"][0].update(path=[["a.py", "three", "f"]]),
        lambda w: w["trace"]["artifacts"][0].update(path=[["a.py", float("inf"), "f"]]),
        lambda w: w["trace"].update(links=[["a", [1], "b"]]),
        lambda w: w["trace"].update(links=[5]),
        lambda w: w["trace"].update(links=[["a", ["1"], "b", [1], "how"]]),
        lambda w: w["trace"].update(links=[["a", [1], 5, [1], "how"]]),
        lambda w: w["trace"]["artifacts"][0].update(text=3),
        lambda w: w["trace"]["artifacts"][0].update(title=None),
        lambda w: w["trace"]["artifacts"][1].update(seconds="0.25"),
        lambda w: w["trace"]["artifacts"][0].update(data=[1]),
        lambda w: w["trace"]["artifacts"][0]["data"].update(first_line="3"),
        lambda w: w["trace"]["failures"][0].update(fatal=1),
        lambda w: w["trace"].update(failures=["no"]),
        lambda w: w.update(trace=[]),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(saved: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """A file whose checksum fits, but that does not hold what the format promises, is a FileError that says so."""
    with pytest.raises(FileError, match=says("format 3")):
        loads(rewritten(saved.read_bytes(), change, checksum=True))


def test_a_failure_of_format_2_names_its_kernel() -> None:
    """The name was the step, told from other steps by the stage; other failures are as they were."""
    steps = [("kernel", "triton_poi_0"), ("launch", "copy"), ("kernel", "render"), ("launch", "do_bench"), ("dynamo", "link")]
    failures = [{"stage": stage, "step": step, "message": "no"} for stage, step in steps]
    value = {"meta": {}, "artifacts": [], "links": [], "failures": failures}
    whole = {"explorer": "trace", "format": 2, "sha256": files._digest(value), "trace": value}
    read = loads(gzip.compress(json.dumps(whole).encode())).failures
    assert [(f.step, f.kernel) for f in read[:2]] == [("ladder", "triton_poi_0"), ("launch", "copy")]
    assert [f.what for f in read] == ["triton_poi_0", "copy", "not shown", "do_bench", "lines not linked"]
    assert [(f.stage, f.step, f.kernel) for f in read[2:]] == [(stage, step, "") for stage, step in steps[2:]]
    assert loads(files.dumps(Trace(failures=read))).failures == read


def test_a_newer_format_is_refused_with_what_to_do(saved: Path) -> None:
    """A file of a later explorer says to upgrade, before anything in it is looked at."""
    newer = rewritten(saved.read_bytes(), lambda w: w.update(format=4, trace="something new"))
    with pytest.raises(FileError, match=says("format 4", "3", "upgrade")):
        loads(newer)


@pytest.mark.parametrize("number", [None, "1", 0, -1, 1.0, True])
def test_a_format_that_never_was_is_refused(saved: Path, number: object) -> None:
    """A format is a whole number from 1 on."""
    with pytest.raises(FileError, match=says("format", repr(number))):
        loads(rewritten(saved.read_bytes(), lambda w: w.update(format=number)))


@pytest.mark.parametrize("content", [b"hello", b"\x89PNG\r\n\x1a\n" + bytes(100), b"{}", b"\x1f\x8b"])
def test_another_kind_of_file_is_refused(saved: Path, content: bytes) -> None:
    """Text, an image, JSON without gzip, or only the first bytes of gzip are no trace file."""
    saved.write_bytes(content)
    with pytest.raises(FileError, match=says(str(saved), "damaged", "trace")):
        load(saved)


@pytest.mark.parametrize("value", [[], {}, 3, "explorer", {"explorer": "notes"}, None])
def test_other_gzipped_json_is_refused(value: object) -> None:
    """Gzipped JSON that does not say it is a trace is not one."""
    with pytest.raises(FileError, match=says("t", "trace")) as raised:
        files.loads(gzip.compress(json.dumps(value).encode()), "t")
    assert "damaged" not in str(raised.value)


def test_json_nested_too_deeply_is_refused() -> None:
    """A file made to exhaust the reader is a FileError like any other damage."""
    with pytest.raises(FileError):
        loads(gzip.compress(b"[" * 200_000 + b"]" * 200_000))


def nested(depth: int) -> dict[str, Any]:
    """A mapping in a mapping in a mapping …"""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_data_nested_too_deeply_is_refused(saved: Path) -> None:
    """What Python can read, but what would exhaust a verb that walks it later, is refused too."""
    deep = rewritten(saved.read_bytes(), lambda w: w["trace"]["meta"].update(a=nested(300)), checksum=True)
    with pytest.raises(FileError, match=says("nested", "64")):
        loads(deep)


@pytest.mark.parametrize(
    ("content", "size", "what"),
    [
        (b" " * 300_000_000, r"0\.25 GB", "text"),
        (b"[" + b"[]," * 20_000_000, r"2\.\d GB", "memory"),
        (b"[" + b"{}," * 20_000_000, r"4\.\d GB", "memory"),
        (b"[" + b"1," * 40_000_000, r"1\.\d GB", "memory"),
    ],
)
def test_a_file_that_would_fill_the_memory_is_refused(content: bytes, size: str, what: str) -> None:
    """A small file that stands for gigabytes is refused before they are made, with how to allow more."""
    bomb = gzip.compress(content, compresslevel=1)
    with pytest.raises(FileError, match=says(what, "explorer.load(path, limit=")) as raised:
        loads(bomb)
    assert all(re.search(rf"(?<![\w.]){figure}", str(raised.value)) for figure in (size, "1 GB"))


def test_a_limit_may_be_raised_and_lowered(saved: Path) -> None:
    """The caller sets the limit, and the error names one that would do."""
    with pytest.raises(FileError, match=says("1e-06 GB", "limit")):
        load(saved, limit=1000)
    assert load(saved, limit=1e5) == SMALL


def test_altered_files_are_refused_or_safe(module_at: Callable[[Path], ModuleType]) -> None:
    """A file with changed values and a checksum that fits is a FileError, or a trace on which no verb raises a raw error."""
    script = module_at(Path(__file__).parents[3] / "benchmarks" / "mutated_files.py")
    trace, rng = script.traces()[0], random.Random(7)
    found = [script.raw_errors(data, trace) for data in script.mutants(trace, 40, rng)]
    assert [errors for errors in found if errors] == []
    assert None in found and [] in found


def with_value(trace: Trace, value: object, *keys: object) -> bytes:
    """The file of a trace with another value in a place of its JSON, and a checksum that fits."""
    whole = json.loads(gzip.decompress(files.dumps(trace)))
    *above, last = keys
    functools.reduce(operator.getitem, above, whole["trace"])[last] = value
    text = json.dumps(whole["trace"], sort_keys=True, separators=(",", ":"))
    whole["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return gzip.compress(json.dumps(whole).encode())


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        *((text, ("pairs", 0, -1)) for text in ("", "x", "3-", "-1", "0-999999999", "9" * 5000, "١")),
        *((number, ("pairs", 0, place)) for number in (-1, 10**40) for place in (0, 2, 3)),
        (1 << 200, ("pairs", 0, 5)),
        *(([], (name,)) for name in ("names", "rules", "args", "paths")),
        *((number, ("made", 0, "path")) for number in (-1, 10**9)),
        *((number, ("final", 0, "number")) for number in (-1, 10**9)),
        ([0, 10**9], ("groups", 0, "of")),
        ([0, 1], ("scores", 0)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_number_of_no_node_in_the_verdicts_is_refused(
    replayed: Callable[[str], Trace], value: object, keys: tuple[object, ...]
) -> None:
    """A file whose verdicts name a node of the scheduler, or a row of their tables, that is not there is a FileError."""
    trace = replayed("views/layers-torch2.13-h100")
    number = trace.artifacts.index(trace.find("fusion")[0])
    with pytest.raises(FileError, match=says(trace.artifacts[number].id)):
        loads(with_value(trace, value, "artifacts", number, "data", *keys))


@pytest.mark.parametrize("field", ["time", "seconds"])
@pytest.mark.parametrize("value", [math.nan, -math.inf, 1e308, 10**400])
def test_a_time_that_cannot_be_is_refused(replayed: Callable[[str], Trace], tmp_path: Path, field: str, value: float) -> None:
    """A file with a time that no compile can have is a FileError when it is loaded, or when it is written for Perfetto."""
    trace = replayed("mlp_train-torch2.13-cpu")
    number = trace.artifacts.index(trace.find("fx_pass")[0])
    with pytest.raises(FileError):
        loads(with_value(trace, value, "artifacts", number, field))
    with pytest.raises(FileError):
        loads(with_value(trace, value, "artifacts", number, "data", "seconds")).profile.to_perfetto(tmp_path / "trace.json")


def test_a_table_of_a_file_holds_text_that_utf8_can_hold(replayed: Callable[[str], Trace]) -> None:
    """Half a surrogate pair in a file's text is escaped in the table: pandas with pyarrow refused such a file's raw."""
    whole = replayed("attention-torch2.13-cpu")
    (first, *_) = whole.find("pattern_match")
    other = replace(first, data={**first.data, "pattern": "half \ud800 a pair"})
    trace = loads(dumps(replace(whole, artifacts=tuple(other if a is first else a for a in whole.artifacts))))
    assert any("\ud800" in str(value) for row in trace.inductor.matches for value in row.values())
    texts = [
        text
        for column in trace.inductor.matches.to_pandas()
        for text in trace.inductor.matches.to_pandas()[column]
        if isinstance(text, str)
    ]
    assert texts and "".join(texts).encode() and repr(trace.inductor.matches).encode()


@each(sorted(path.name.removesuffix(".events.json.gz") for path in DATA.glob("*.events.json.gz")))
def test_the_shape_of_each_stage_is_that_of_the_recordings(name: str, replayed: Callable[[str], Trace]) -> None:
    """What every recorded version of torch gives has the shapes that a file is held to."""
    trace = replayed(name)
    assert loads(dumps(trace)) == trace


def test_every_stage_has_a_shape_or_holds_nothing(replayed: Callable[[str], Trace]) -> None:
    """No text with data of explorer's own escapes the check."""
    trace = replayed("mlp_train-torch2.11-cuda")
    assert {a.stage for a in trace.artifacts if a.data} <= set(ARTIFACTS)


def test_traces_and_recordings_are_not_taken_for_each_other() -> None:
    """A recording is no trace, and a trace no recording; the message says which was wanted."""
    with pytest.raises(FileError, match=says("t", "trace")) as recording:
        files.loads(dump_events([], [], {}), "t")
    with pytest.raises(FileError, match=says("t", "events")) as trace:
        load_events(dumps(SMALL), "t")
    assert not any("damaged" in str(raised.value) for raised in (recording, trace))


def test_a_missing_file_and_a_folder_say_so(tmp_path: Path) -> None:
    """The error names the path and what the system says of it, of a folder what was looked for in it."""
    with pytest.raises(FileError, match=says(str(tmp_path / "gone.gz"), os.strerror(errno.ENOENT))):
        load(tmp_path / "gone.gz")
    with pytest.raises(FileError, match=says(str(tmp_path), "TORCH_TRACE", "TORCH_COMPILE_DEBUG=1")):
        load(tmp_path)


def test_a_file_error_is_an_oserror(tmp_path: Path) -> None:
    """Code that catches OSError around reading a file catches a damaged trace too."""
    with pytest.raises(OSError):
        load(tmp_path / "gone.gz")


class Canary:
    """Unpickling it makes a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_loading_runs_no_code(tmp_path: Path) -> None:
    """A pickle in a trace's clothes is refused unread, and code in a trace's texts stays text."""
    folder = tmp_path / "canary"
    for data in (pickle.dumps(Canary(str(folder))), gzip.compress(pickle.dumps(Canary(str(folder))))):
        with pytest.raises(FileError):
            loads(data)
    code = f"__import__('os').mkdir({str(folder)!r})"
    trace = Trace(plain({"name": code}), (Artifact("a", code, "", "", code, "python", code, data=plain({"__reduce__": code})),))
    assert loads(dumps(trace)) == trace
    assert not folder.exists()
    pickle.loads(pickle.dumps(Canary(str(folder))))
    assert folder.exists()  # the canary does sing


def test_the_names_of_the_module_are_those_documented() -> None:
    """The format number that the docstring speaks of is the one that is written."""
    assert f"format {files.FORMAT}" in (files.__doc__ or "")


@pytest.mark.parametrize("write", [Trace.save, Trace.to_html])
def test_where_nothing_can_be_written_says_why(write: Callable[[Trace, Path], None], tmp_path: Path) -> None:
    """A folder that is not there, or in place of a page, is a FileError that names the path as it was given."""
    with pytest.raises(FileError, match=says(str(tmp_path / "nowhere" / "t"), "folder")) as raised:
        write(Trace(), tmp_path / "nowhere" / "t")
    assert re.search(r"nowhere(?![\w/])", str(raised.value)), "the folder that is missing"
    with pytest.raises(FileError, match=says("folder", str(tmp_path / "trace"))):
        Trace().to_html(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_page_is_no_trace_file(tmp_path: Path) -> None:
    """Loading what to_html wrote says what to do with it, and what to load."""
    Trace().to_html(tmp_path / "t.html")
    with pytest.raises(FileError, match=says("t.html", "browser")):
        load(tmp_path / "t.html")
