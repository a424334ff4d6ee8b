"""The plain values: what `plain` freezes, what records look like in JSON, and how tables show themselves."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
from types import MappingProxyType

import pytest

from explorer.model.values import (
    EMPTY,
    Artifact,
    Event,
    Failure,
    Link,
    Table,
    calls,
    jsonable,
    once,
    plain,
    record_from_json,
    record_to_json,
    text_lines,
)
from tests.facts import untold

NODES = plain(
    [
        {"name": "x", "op": "placeholder", "target": "x", "args": "()", "kwargs": "", "inputs": []},
        {"name": "sin", "op": "call_function", "target": "aten.sin.default", "args": "(x,)", "kwargs": "", "inputs": ["x"]},
        {
            "name": "add",
            "op": "call_function",
            "target": "aten.add.Tensor",
            "args": "(sin, x)",
            "kwargs": "{}",
            "inputs": ["sin", "x"],
        },
    ]
)


def artifact(**changes: object) -> Artifact:
    values = {
        "id": "0/0:post_grad",
        "stage": "post_grad",
        "frame": "0/0",
        "graph": "",
        "title": "T",
        "language": "fx",
        "text": "a\nb",
    }
    return Artifact(**{**values, **changes})  # type: ignore[arg-type]


# plain -------------------------------------------------------------------------------------------------------------


class Anything:
    def __str__(self) -> str:
        return "anything"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("s", "s"),
        ([1, [2]], (1, (2,))),
        ((1, "a"), (1, "a")),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (Anything(), "anything"),
        ({1: [Anything()]}, {"1": ("anything",)}),
    ],
)
def test_plain_keeps_values_and_freezes_the_rest(given: object, expected: object) -> None:
    """Strings and numbers stay, lists become tuples, keys strings, numbers that JSON lacks and unknown objects text."""
    assert plain(given) == expected
    assert type(plain(given)) is (MappingProxyType if isinstance(given, dict) else type(expected))


def test_plain_data_cannot_be_changed() -> None:
    """What a hook recorded stays as it was: the frozen mapping refuses changes, and keeps none made to the original."""
    original = {"rows": [{"n": 1}]}
    frozen = plain(original)
    original["rows"].append({"n": 2})
    assert frozen == {"rows": ({"n": 1},)}
    with pytest.raises(TypeError):
        frozen["rows"] = ()
    with pytest.raises(TypeError):
        frozen["rows"][0]["n"] = 2


@pytest.mark.compile
def test_a_set_is_frozen_in_the_same_order_in_every_process() -> None:
    """The order of a set's strings changes from process to process, that of its frozen form does not."""
    code = "from explorer.model.values import plain; print(plain({'b', 'a', 'd', 'c', 'f', 'e', 'g'}))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "12"
    }
    assert seen == {"('a', 'b', 'c', 'd', 'e', 'f', 'g')\n"}


def test_numbers_of_other_kinds_become_pythons_own() -> None:
    """A subclass of int or float, as a numpy or symbolic number may be, is kept as the plain number."""

    class Size(int):
        pass

    assert type(plain(Size(4))) is int
    assert type(plain(type("F", (float,), {})(0.5))) is float


def test_jsonable_is_what_json_writes_and_plain_reads() -> None:
    """plain → jsonable → JSON → plain gives an equal value."""
    value = plain({"rows": [{"a": 1, "b": [None, True, 2.5]}], "text": "é\u2028"})
    assert plain(json.loads(json.dumps(jsonable(value)))) == value


# Records -----------------------------------------------------------------------------------------------------------

RECORDS = [
    Event("dynamo", 1.5, "0/0", "forward", plain({"text": "t", "nodes": NODES}), (("torch/a.py", 3, "f"),)),
    Event("frame", 0.0),
    artifact(seconds=0.25, time=2.0, kernel="k", data=plain({"nodes": NODES}), path=(("torch/a.py", 3, "f"),)),
    artifact(),
    Failure("guards", "render", "KeyError: 'x'", fatal=True),
    Failure("guards", "render", "KeyError: 'x'"),
]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_records_survive_json(record: Event | Artifact | Failure) -> None:
    """A record written as JSON and read again is equal, and its call path consists of tuples again."""
    value = json.loads(json.dumps(record_to_json(record)))
    if "path" in value:
        value["path"] = calls(value["path"])
    assert record_from_json(type(record), value) == record


def test_defaults_are_left_out_of_json() -> None:
    """A record's JSON has only the fields that say something."""
    assert record_to_json(Event("frame", 1.0)) == {"kind": "frame", "time": 1.0}
    assert record_to_json(Failure("a", "b", "c")) == {"stage": "a", "step": "b", "message": "c"}
    assert record_to_json(Event("frame", 1.0, data=plain({})))["kind"] == "frame"
    assert "data" not in record_to_json(Event("frame", 1.0, data=EMPTY))


def test_a_field_that_a_record_does_not_have_is_refused() -> None:
    """Nothing in a file is ignored: an unknown field is a TypeError."""
    with pytest.raises(TypeError, match="surprise"):
        record_from_json(Failure, {"stage": "a", "step": "b", "message": "c", "surprise": 1})


@pytest.mark.parametrize("record", [*RECORDS, Link("a", (1,), "b", (2,), ".loc")], ids=lambda r: type(r).__name__)
def test_records_are_frozen(record: object) -> None:
    """No field of a record can be set, and none added."""
    for name in (dataclasses.fields(record)[0].name, "another"):  # type: ignore[arg-type]
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(record, name, "x")


def test_a_failure_reads_as_stage_what_failed_and_message() -> None:
    """A Failure's text says where and what, the steps of explorer's own work in words."""
    assert not untold(str(Failure("guards", "render", "KeyError: 'x'")), "guards", "not shown", "KeyError: 'x'")
    assert not untold(str(Failure("decompiled", "record", "g++ is gone")), "decompiled", "not recorded", "g++ is gone")
    assert not untold(
        str(Failure("kernel", "ladder", "g++ is gone", kernel="triton_poi_0")), "kernel", "triton_poi_0", "g++ is gone"
    )
    assert not Failure("guards", "render", "KeyError: 'x'").fatal


def test_a_call_path_of_the_wrong_form_is_refused() -> None:
    """A call is file, line and function; a line that is no number is a ValueError."""
    assert calls([["f.py", "3", "g"]]) == (("f.py", 3, "g"),)
    with pytest.raises(ValueError):
        calls([["f.py", "three", "g"]])
    with pytest.raises(ValueError):
        calls([["f.py", 3]])


# Artifacts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_line_feeds_and_carriage_returns_end_a_line(odd: str) -> None:
    """As CPython counts lines: the other characters at which str.splitlines breaks would shift every line below them."""
    text = f"a{odd}b\nc\r\nd\re"
    assert text_lines(text) == [f"a{odd}b", "c", "d", "e"] and text_lines("") == [] and text_lines("a\n") == ["a"]
    assert text_lines(text, ends=True) == [f"a{odd}b\n", "c\r\n", "d\r", "e"]


def test_lines_of_a_text() -> None:
    """`lines` has no line ends, and an empty text has no lines."""
    assert artifact(text="a\n\nb\n").lines == ("a", "", "b")
    assert artifact(text="").lines == ()


def test_edges_go_from_producer_to_consumer() -> None:
    """An edge for each input of each node, in the nodes' order; none for a stage without nodes."""
    assert artifact(data=plain({"nodes": NODES})).edges == (("x", "sin"), ("sin", "add"), ("x", "add"))
    assert artifact().edges == () and artifact().nodes == ()


def test_tabular_is_one_aligned_row_a_node() -> None:
    """The graph as a table: a head, a row a node, columns that start at the same place, no spaces at the ends."""
    table = artifact(data=plain({"nodes": NODES})).tabular.splitlines()
    assert len(table) == 1 + len(NODES)
    assert table[0].split() == ["op", "name", "target", "args", "kwargs"]
    assert table[2].split() == ["call_function", "sin", "aten.sin.default", "(x,)"]
    for line, word in zip(table, ("target", "x ", "aten.sin", "aten.add"), strict=True):
        assert line[table[0].index("target") :].startswith(word)
    assert all(line == line.rstrip() for line in table)
    assert artifact().tabular == ""


def test_an_artifacts_data_is_frozen_whatever_mapping_a_stage_gave() -> None:
    """A stage's own dict is copied and frozen, lists in it too: a trace is equal to itself after a load."""
    given = {"rows": [{"n": 1}]}
    made = artifact(data=given)
    given["rows"].append({"n": 2})
    assert made.data == {"rows": ({"n": 1},)}
    with pytest.raises(TypeError):
        made.data["rows"] = ()  # type: ignore[index]


def test_repr_names_the_artifact_without_its_text() -> None:
    """The repr is one short line."""
    assert repr(artifact(text="x\n" * 500)) == "<Artifact '0/0:post_grad' fx 500 lines>"


def test_html_shows_text_as_text() -> None:
    """Markup in titles, ids and texts is shown, not interpreted."""
    shown = artifact(text="<script>alert(1)</script>", title="<b>", id="<i>")._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "&lt;b&gt;" in shown and "&lt;i&gt;" in shown


# Rows --------------------------------------------------------------------------------------------------------------


def test_rows_are_a_tuple_and_a_table() -> None:
    """Table index and compare as a tuple; `.frame` has a column a key and a row a mapping; the repr is the table."""
    rows = Table([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert rows == ({"a": 1, "b": "x"}, {"a": 2, "b": "y"}) and rows[1]["b"] == "y"
    assert list(rows.to_pandas().columns) == ["a", "b"] and list(rows.to_pandas()["a"]) == [1, 2]
    assert "x" in repr(rows) and "y" in repr(rows)
    assert "<table" in rows._repr_html_()


def test_where_keeps_the_rows_that_match_everything() -> None:
    """`where` selects by equality on every field given; a field that a row lacks does not match."""
    rows = Table([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2}])
    assert rows.where(a=1) == rows[:2] and isinstance(rows.where(a=1), Table)
    assert rows.where(a=1, b=2) == (rows[1],)
    assert rows.where(b=3) == () and rows.where(c=1) == ()


def test_text_that_utf8_cannot_hold_is_escaped_in_the_table() -> None:
    """A file's name may hold half a surrogate pair: pandas with pyarrow refuses it, so the frame has its escape."""
    rows = Table([{"file": "caf\udce9.py", "line": 3}])
    assert rows.to_pandas()["file"].tolist() == ["caf\\udce9.py"] and rows.to_pandas()["line"].tolist() == [3]
    assert repr(rows).encode() and rows._repr_html_().encode()
    assert rows[0]["file"] == "caf\udce9.py"


def test_no_rows_say_so() -> None:
    """An empty table says that it is empty."""
    assert repr(Table()) == "<0 rows>" and Table()._repr_html_() == "<i>none</i>"
    assert Table().to_pandas().empty


def test_an_empty_table_keeps_its_columns() -> None:
    """Without rows, and with those that a condition leaves out, the columns stand in the repr, the HTML and the frame."""
    full = Table([{"name": "mm", "ms": 1.0}, {"name": "bmm", "ms": None, "why": ""}])
    assert full.columns == ("name", "ms", "why")
    for empty in (full.where(name="conv"), full.where(name="conv").where(ms=1.0), Table((), ("name", "ms", "why"))):
        assert repr(empty) == "<0 rows of name, ms, why>" and list(empty.to_pandas().columns) == ["name", "ms", "why"]
        assert all(f"<th>{name}</th>" in empty._repr_html_() for name in ("name", "ms", "why"))
        assert pickle.loads(pickle.dumps(empty)).columns == empty.columns and empty == ()


def test_a_question_about_a_value_is_answered_once_and_is_no_part_of_it() -> None:
    """The function runs once for each value; values compare and copy as before."""
    asked: list[str] = []

    @once
    def length(of: Artifact) -> int:
        asked.append(of.text)
        return len(of.text)

    one, two = artifact(text="one"), artifact(text="three")
    assert [length(one), length(one), length(two)] == [3, 3, 5]
    assert asked == ["one", "three"]
    assert one == artifact(text="one")
    assert length(dataclasses.replace(one, text="twelve")) == 6


def test_a_kernel_s_name_is_no_step() -> None:
    """What explorer's own steps are called in words; a kernel that is called as a step keeps its name."""
    assert not untold(Failure("dynamo", "link", "").what, "lines", "not linked")
    assert not untold(Failure("kernel", "render", "").what, "not shown")
    (copied,) = {Failure(stage, "copy", "").what for stage in ("kernel", "launch", "dynamo")}
    assert not untold(copied, "not recorded")
    assert Failure("kernel", "ladder", "", kernel="copy").what == "copy"


def test_an_answer_that_is_known_is_not_worked_out() -> None:
    """`once` takes an answer from who knows it, keeps the first, and says whether it is there."""
    asked: list[str] = []

    @once
    def stage_of(artifact: Artifact) -> str:
        asked.append(artifact.id)
        return artifact.stage

    first, second = (Artifact(id, "source", "", "", "", "", "") for id in "ab")
    stage_of.answer(first, "known")
    assert not stage_of.answered(second) and stage_of.answered(first)
    assert (stage_of(first), stage_of(second), stage_of(second)) == ("known", "source", "source") and asked == ["b"]
    stage_of.answer(second, "later")
    assert stage_of(second) == "source"
