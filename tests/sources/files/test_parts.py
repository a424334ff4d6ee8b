"""A large trace file is read one artifact at a time, and is the same file to who knows nothing of that."""

from __future__ import annotations

import gzip
import json
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.analysis.questions.kernels import texts_of_kernel
from explorer.analysis.questions.summary import summary_rows
from explorer.errors import FileError
from explorer.model.deferred import is_deferred
from explorer.model.stage import Stage
from explorer.model.values import Artifact, Failure, Link, jsonable
from explorer.sources.files import parts
from explorer.sources.files import trace_file as files
from explorer.stages import STAGES
from explorer.stages.triton.origins import FORMS
from explorer.tracing.traced import Trace, load, loads
from explorer.tracing.traced.trace import trace_of
from explorer.view.payload import payload
from tests.each import each
from tests.facts import says, untold

DATA = Path(__file__).parents[2] / "data"
#: One recording of each program, and one for a GPU: they have every stage that any recording has.
RECORDINGS = [
    "mlp_train-torch2.11-cuda",
    *sorted(path.name.partition(".events")[0] for path in DATA.glob("*-torch2.13-cpu.events.json.gz")),
]
PROGRAM = "mlp_train-torch2.13-cpu"


@pytest.fixture(autouse=True)
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every file is written in parts, which hold few artifacts each."""
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(parts, "SIZE", 5000)
    yield


def unread(trace: Trace) -> list[str]:
    """The artifacts that were not read yet."""
    return [a.id for a in trace.artifacts if is_deferred(a, "text")]


def answers(trace: Trace) -> dict[str, object]:
    """What a trace answers: its texts, tables, links, kernels, coverage, memory, fusion, comparison and page."""
    return {
        "repr": repr(trace),
        "summary": list(summary_rows(trace)),
        "artifacts": [[getattr(a, f.name) for f in fields(a)] for a in trace.artifacts],
        "tables": {stage.name: tuple(trace.table(stage.name)) for stage in STAGES},
        "kernels": tuple(trace.kernels.table),
        "coverage": tuple(trace.coverage()),
        "memory": (tuple(trace.memory.table), tuple(trace.memory.timeline), tuple(trace.memory.saved)),
        "fusion": [tuple(graph.table()) for graph in trace.fusion.graphs],
        "follow": [tuple(trace.follow(a.id, n)) for a in trace.artifacts[::7] for n in range(1, len(a.lines) + 1, 9)],
        "comparison": tuple(explorer.compare(trace, trace).figures),
        "payload": payload(trace),
        "file": files.dumps(trace),
    }


@each(RECORDINGS)
def test_a_trace_answers_the_same_from_a_file_in_parts(name: str, replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """Each question, asked of a trace that is read as it is asked, has the answer of the trace that was saved."""
    saved = replayed(name)
    saved.save(tmp_path / "t.gz")
    loaded = load(tmp_path / "t.gz")
    assert len(unread(loaded)) == len(saved.artifacts) > 0 and is_deferred(loaded, "links")
    expected, found = answers(saved), answers(loaded)
    assert [key for key in expected if found[key] != expected[key]] == []
    assert load(tmp_path / "t.gz") == saved and pickle.loads(pickle.dumps(load(tmp_path / "t.gz"))) == saved


def test_only_what_is_asked_for_is_read(replayed: Callable[[str], Trace]) -> None:
    """A text leaves the other artifacts and the links in the file; the number of lines leaves the text there."""
    loaded = loads(files.dumps(replayed(PROGRAM)))
    counts = [a.line_count for a in loaded.artifacts]
    assert len(unread(loaded)) == len(loaded.artifacts) and loaded.compile_ids == replayed(PROGRAM).compile_ids
    assert loaded.text("joint") == replayed(PROGRAM).text("joint")
    assert len(unread(loaded)) == len(loaded.artifacts) - 1 and is_deferred(loaded, "links")
    assert counts == [len(a.lines) for a in loaded.artifacts]


def test_the_repr_reads_no_text_that_it_needs_not(replayed: Callable[[str], Trace]) -> None:
    """It reads graphs, output code and one form of each kernel; the other forms, most of a large file, stay in it."""
    loaded = loads(files.dumps(replayed("mlp_train-torch2.11-cuda")))
    assert repr(loaded) == repr(replayed("mlp_train-torch2.11-cuda"))
    forms = [[a.id for a in texts_of_kernel(loaded, k.artifact) if a.stage in FORMS] for k in loaded.kernels]
    without = [id for texts in forms for id in texts[1:]] + [a.id for a in loaded.find("bytecode")]
    assert len(without) >= 10 and set(without) <= set(unread(loaded)) < {a.id for a in loaded.artifacts}


def test_figures_of_kernels_read_the_first_form_of_each(replayed: Callable[[str], Trace]) -> None:
    """The table and the comparison's figures need no other form: the four forms of a kernel are most of a large file."""
    loaded = loads(files.dumps(replayed("mlp_train-torch2.11-cuda")))
    assert loaded.kernels.table and explorer.compare(loaded, loaded).figures
    forms = [[a for a in texts_of_kernel(loaded, k.artifact) if a.stage in FORMS] for k in loaded.kernels]
    assert {len(texts) for texts in forms} == {4}
    assert {a.id for texts in forms for a in texts} - set(unread(loaded)) == {texts[0].id for texts in forms}


def test_links_share_their_ids_and_lines(replayed: Callable[[str], Trace]) -> None:
    """Each id, kind and set of lines is one object in all links, in whatever part of the file they stand."""
    loaded = loads(files.dumps(replayed(PROGRAM)))
    texts = [text for link in loaded.links for text in (link.source, link.target, link.how)]
    lines = [lines for link in loaded.links for lines in (link.source_lines, link.target_lines)]
    assert loaded.links == replayed(PROGRAM).links and len(loaded.links) > 100
    assert [len({id(each) for each in values}) for values in (texts, lines)] == [len(set(texts)), len(set(lines))]


def test_a_reader_without_the_index_reads_the_same(replayed: Callable[[str], Trace]) -> None:
    """The members together are one JSON text, by the format of small files but for one key more, and with its checksum."""
    data = files.dumps(replayed(PROGRAM))
    whole = json.loads(gzip.decompress(data))
    index = whole.pop("index")
    assert sorted(whole) == ["explorer", "format", "sha256", "trace"] and len(index["artifacts"]) > 3
    assert files._digest(whole["trace"]) == whole["sha256"]
    read_whole = files._read(data, "trace", "t", files.from_json)
    assert files.from_json(whole["trace"]) == read_whole and trace_of(read_whole) == replayed(PROGRAM)


def test_small_and_large_files_hold_the_same(replayed: Callable[[str], Trace], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not in parts has the same text without the index, and no index is found in it."""
    data = files.dumps(replayed(PROGRAM))
    monkeypatch.setattr(files, "LARGE", 1 << 40)
    small = files.dumps(replayed(PROGRAM))
    assert parts.index_at(small) is None and parts.index_at(data) is not None
    large = json.loads(gzip.decompress(data))
    del large["index"]
    assert json.loads(gzip.decompress(small)) == large and loads(small) == loads(data)


def test_what_is_made_by_hand_is_kept(tmp_path: Path) -> None:
    """Odd texts, a stage of your own, links and failures come back; so does a trace without any of them."""
    own = Artifact(
        "a", "mine", "0/0", "", "é\u2028", "text", "x\u2028\x00\r\ny\n", "k", 0.5, 1, {"any": [1, {"b": None}]}, (("f", 1, "g"),)
    )
    trace = Trace(
        {"name": "n"}, (own, replace(own, id="b", text="")), (Link("a", (1,), "b", (2, 3), "how"),), (Failure("s", "t", "u"),)
    )
    for given in (trace, Trace(), replace(trace, links=()), replace(trace, artifacts=())):
        assert loads(files.dumps(given)) == given
    assert isinstance(STAGES[0], Stage) and jsonable(loads(files.dumps(trace)).artifacts[0].data) == {"any": [1, {"b": None}]}


def test_threads_read_at_once(replayed: Callable[[str], Trace]) -> None:
    """Artifacts that several threads ask for at once are read once each, and rightly."""
    saved = replayed(PROGRAM)
    loaded = loads(files.dumps(saved))
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: loaded.artifacts[n % len(saved.artifacts)].text, range(8 * len(saved.artifacts))))
    assert texts == [a.text for a in saved.artifacts] * 8


#: A trace with a failure of format 2.
FAILED = Trace({"name": "n"}, failures=(Failure("kernel", "triton_poi_0", "no"),))


def written_as(number: object, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file in parts of another format."""
    with monkeypatch.context() as patch:
        patch.setattr(files, "FORMAT", number)
        data = files.dumps(trace)
    assert parts.index_at(data) is not None
    return data


def test_a_newer_format_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file of a later explorer says to upgrade, as a small one does, whatever its limit."""
    newer = written_as(4, FAILED, monkeypatch)
    for limit in (1, files.LIMIT):
        with pytest.raises(FileError, match=says("t", "format 4", "3", "upgrade")):
            files.loads(newer, "t", limit)


def test_an_older_format_is_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts and failures of a large file of an older format are read in the present one."""
    metrics = Artifact("m", "compilation_metrics", "0/0", "", "", "text", "", data={"rows": [{"of": "compile", "seconds": 1.5}]})
    older = replace(FAILED, artifacts=(metrics,))
    loaded = loads(written_as(1, older, monkeypatch))
    assert [(f.step, f.kernel) for f in loaded.failures] == [("ladder", "triton_poi_0")]
    assert jsonable(loaded.artifacts[0].data) == {"rows": [{"of": "compile", "figures": {"seconds": 1.5}}]}
    assert loads(files.dumps(loaded)) == loaded


@pytest.mark.parametrize(
    ("number", "facts"),
    [
        ("null", ("format", "None")),
        ('"3"', ("format", "'3'")),
        ("0", ("format", "0")),
        ("-1", ("format", "-1")),
        ("1.0", ("format", "1.0")),
        ("true", ("format", "True")),
        ("9" * 5000, ("5000 digits",)),
    ],
    ids=lambda value: str(value)[:9],
)
def test_a_format_that_never_was_is_refused(number: str, facts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A format is a whole number from 1 on, also of a large file; the message has what stands there."""
    with pytest.raises(FileError, match=says("damaged", *facts)):
        loads(written_as(number, FAILED, monkeypatch))


# Damaged files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.7, 0.95])
def test_a_damaged_file_is_refused_when_it_is_loaded(share: float, replayed: Callable[[str], Trace]) -> None:
    """One changed byte, wherever it is, and a file that was cut, are errors of loading, not of what is asked later."""
    data = files.dumps(replayed(PROGRAM))
    place = int(len(data) * share)
    flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    for damaged in (flipped, data[:place], data[:-1], data[place:]):
        with pytest.raises(FileError, match=r"damaged|altered|explorer trace"):
            loads(damaged)


def forged(data: bytes, change: Callable[[dict[str, object]], object]) -> bytes:
    """A file whose index was changed by someone who knows how it is written."""
    begin = parts.index_at(data)
    assert begin is not None
    index = parts.read_index(data, begin, *files._AROUND_INDEX, files.LIMIT)
    change(index)
    text = files._AROUND_INDEX[0] + json.dumps(index) + files._AROUND_INDEX[1]
    trailer = data[-parts._TRAILER.size :]
    return data[:begin] + gzip.compress(text.encode(), mtime=0) + trailer


def test_an_index_that_lies_is_found_out(replayed: Callable[[str], Trace]) -> None:
    """Where the index says another stage, size or memory than the file has, reading the artifact is an error that says so."""
    data = files.dumps(replayed(PROGRAM))
    assert loads(forged(data, lambda index: None)) == replayed(PROGRAM)

    def first(index: dict[str, object]) -> list[list[object]]:
        return index["artifacts"][0]  # type: ignore[index, no-any-return]

    lies: list[Callable[[dict[str, object]], object]] = [
        lambda index: first(index)[1][0].__setitem__(1, "joint"),  # type: ignore[index]
        lambda index: first(index)[1][0].__setitem__(-2, 7777),  # type: ignore[index]
        lambda index: first(index)[0].__setitem__(2, first(index)[0][2] - 1),  # type: ignore[index, operator]
        lambda index: first(index)[0].__setitem__(3, first(index)[0][3] - 1),  # type: ignore[index, operator]
        lambda index: first(index)[0].__setitem__(0, 5),
    ]
    for lie in lies:
        loaded = loads(forged(data, lie))
        with pytest.raises(FileError):
            loaded.artifacts[0].data  # noqa: B018
    for wrong in ({"artifacts": [[1, 2]]}, {"need": "x"}, {"meta": []}, {"packed_sha256": ""}):
        with pytest.raises(FileError):
            loads(forged(data, lambda index, wrong=wrong: index.update(wrong)))  # type: ignore[misc]


def test_the_memory_that_all_of_it_takes_is_bounded(replayed: Callable[[str], Trace]) -> None:
    """A file that would take more than the limit if it were all read is refused, as a file that is read whole."""
    data = files.dumps(replayed(PROGRAM))
    with pytest.raises(FileError, match="limit"):
        files.loads(data, "t", 100_000)
    assert files.loads(data, "t", 100_000_000).artifacts


def index_of(need: object, part_need: object, size: object, *sizes: object) -> Callable[[dict[str, Any]], object]:
    """A change of an index: the memory of all, of the first part of artifacts, the part's size, and its artifacts' sizes."""

    def change(index: dict[str, Any]) -> None:
        part, stubs = index["artifacts"][0]
        index.update(need=need, artifacts=[[[*part[:2], size, part_need], [[*stubs[0][:-1], each] for each in sizes]]])

    return change


LONG = 3_000_000
LARGE_ONE = Trace({"name": "n"}, (Artifact("a", "mine", "0/0", "", "t", "text", "x" * LONG),))


@pytest.mark.parametrize(
    ("need", "part_need", "size", "sizes"),
    [
        (1000, 2 * LONG + 10_000, LONG + 200, [LONG]),
        (1000, 900, LONG + 200, [LONG]),
        (1000, -(10**9), LONG + 200, [LONG]),
        (1000, 900, -1, [LONG]),
        (float("nan"), 2 * LONG + 10_000, LONG + 200, [LONG]),
        (1000, 900.0, 400, [10]),
        (1000, True, 0, [0]),
        (100_000, 90_000, 40_000, [40_000, -40_001, 40_000, -40_001, 40_000]),
        (100_000, 90_000, 40_000, [30_000, 30_000]),
    ],
)
def test_an_index_that_hides_the_memory_of_its_parts_is_refused(
    need: object, part_need: object, size: object, sizes: list[object]
) -> None:
    """Neither a part nor all of them take more memory than the limit, whatever the author of the file wrote into its index."""
    data = forged(files.dumps(LARGE_ONE), index_of(need, part_need, size, *sizes))
    assert len(data) < 20_000
    with pytest.raises(FileError, match=says("index")) as raised:
        files.loads(data, "t", 1_000_000)
    assert len(untold(str(raised.value), "memory", "size", "artifacts")) == 2, "one of the three is wrong"


def test_no_part_is_unpacked_beyond_the_size_that_its_index_states() -> None:
    """A part whose text is longer than stated is an error when it is read, of which no more than that is unpacked."""
    loaded = files.loads(forged(files.dumps(LARGE_ONE), index_of(100_000, 90_000, 40_000, 30_000)), "t", 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=says("damaged", "size", "index")):
            loaded.artifacts[0].text  # noqa: B018
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_memory_of_the_index_itself_is_bounded() -> None:
    """An index that stands for many objects is refused before they are made."""
    many = forged(files.dumps(LARGE_ONE), lambda index: index.update(need=1000, more=[[]] * 100_000))
    with pytest.raises(FileError, match=says("index", "limit")):
        files.loads(many, "t", 4_000_000)


def test_data_nested_too_deeply_is_refused() -> None:
    """What the trace is of may be nested no deeper than in a small file."""
    value: dict[str, Any] = {}
    for _ in range(300):
        value = {"a": value}
    with pytest.raises(FileError, match=says("nested", "64")):
        loads(files.dumps(replace(LARGE_ONE, meta=value)))
