"""The records of a TORCH_TRACE log: heads, payloads, checksums, and what is damaged."""

from __future__ import annotations

import hashlib
import json

import pytest

from explorer.sources.logs.torch_trace import CHANGED, MALFORMED, MISSING, NO_JSON, NO_RECORD, Log


def head(name: str, payload: str | None = None, second: int = 0, **more: object) -> str:
    """The line of a record, as torch writes it."""
    data: dict[str, object] = {name: more.pop("facts", {}), **more}
    if payload is not None:
        data["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
    return f"V1123 10:50:{second:02d}.250000 9739 torch/_dynamo/utils.py:12] {json.dumps(data)}\n"


def body(payload: str) -> str:
    """The lines of a payload."""
    return "".join(f"\t{line}\n" for line in payload.split("\n"))


def read(text: str) -> Log:
    """The log of a text."""
    return Log(text.splitlines(keepends=True))


def test_a_record_has_its_name_payload_frame_time_and_rank() -> None:
    """The payload is as it was written, empty lines and tabs included; times count from the first record."""
    payload = "\nclass A:\n\n\tx = 1\n"
    log = read(head("first") + head("second", payload, 2, frame_id=3, frame_compile_id=1, attempt=0, rank=5) + body(payload))
    first, second = log.records
    assert (first.name, first.payload, first.time, first.frame, first.rank) == ("first", "", 0.0, "", None)
    assert (second.name, second.payload, second.time, second.frame, second.rank) == ("second", payload, 2.0, "3/1", 5)
    assert second.line == 2
    assert log.damage == []


def test_an_artifact_is_called_by_its_own_name() -> None:
    """Of an artifact the name in its facts counts; compiled autograd has an id of its own."""
    line = head("artifact", facts={"name": "fx_graph_runnable"}, frame_id=0, frame_compile_id=2, compiled_autograd_id=4)
    (record,) = read(line).records
    assert (record.name, record.frame) == ("fx_graph_runnable", "!4/0/2")


def test_strings_that_records_refer_to_are_kept_by_number() -> None:
    """A record that gives a string its number is none itself."""
    log = read(head("str", facts=["model.py", 7]) + head("dynamo_start"))
    assert [record.name for record in log.records] == ["dynamo_start"]
    assert (log.string(7), log.string(8), log.string("as it is")) == ("model.py", "", "as it is")


def test_two_writers_whose_heads_come_before_their_payloads() -> None:
    """Checksums tell which lines belong to which record, in either order."""
    one, two = "a\nb", "c"
    for bodies in (body(one) + body(two), body(two) + body(one)):
        log = read(head("one", one) + head("two", two) + bodies)
        assert {record.name: record.payload for record in log.records} == {"one": one, "two": two}
        assert log.damage == []


def test_two_writers_of_equal_payloads() -> None:
    """Two ranks often have the same guards: both records get theirs."""
    heads = head("guards", "same", rank=0) + head("guards", "same", rank=1)
    log = read(heads + body("same") + body("same"))
    assert [record.payload for record in log.records] == ["same", "same"]
    assert log.damage == []


@pytest.mark.parametrize("given", [5, None, ["a"], ["a", []], {"a": 1}])
def test_a_string_that_is_none_is_damage(given: object) -> None:
    """Records around it are read."""
    log = read(head("str", facts=given) + head("one"))
    assert [record.name for record in log.records] == ["one"]
    assert [tuple(damage) for damage in log.damage] == [(1, MALFORMED)]


def test_heads_with_an_impossible_date_or_bottomless_json_are_damage() -> None:
    """Neither stops the reading."""
    log = read(head("one").replace("V1123", "V1323") + head("two")[:50] + ' {"a": ' + "[" * 100_000 + "\n" + head("three"))
    assert [record.name for record in log.records] == ["three"]
    assert len(log.damage) == 2


def test_a_payload_that_was_cut_off_is_kept_and_named() -> None:
    """What is left of the payload is read; the damage names the record's line."""
    log = read(head("before") + head("graph", "a\nb\nc") + body("a\nb"))
    assert log.records[1].payload == "a\nb"
    assert [tuple(damage) for damage in log.damage] == [(2, CHANGED)]


def test_a_payload_that_is_missing_is_named() -> None:
    """A record whose lines are gone has an empty payload, and the next one its own."""
    log = read(head("graph", "a") + head("other", "b") + body("b"))
    assert [record.payload for record in log.records] == ["", "b"]
    assert [tuple(damage) for damage in log.damage] == [(1, MISSING)]


def test_lines_that_are_no_records_are_named_and_the_rest_is_read() -> None:
    """Foreign lines and heads that are not JSON lose nothing of the records around them."""
    torn = head("torn")[:-9] + "\n"
    log = read("hello\n" + head("one", "a") + body("a") + torn + head("two"))
    assert [record.name for record in log.records] == ["one", "two"]
    assert log.records[0].payload == "a"
    assert [tuple(damage) for damage in log.damage] == [(1, NO_RECORD), (4, NO_JSON)]
