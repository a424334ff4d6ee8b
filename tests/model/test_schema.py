"""The JSON Schema of a record says what `records.typed` reads, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from explorer.model.records import FieldError, Record, blank, record, typed
from explorer.model.schema import Definitions, needs_data
from explorer.model.values import jsonable
from explorer.stages.records import ARTIFACTS, EVENTS


class Point(NamedTuple):
    x: int
    y: float


@record
class Inner(Record):
    name: str


@record
class Outer(Record):
    """An example of each type that a field may have."""

    text: str
    count: int
    share: float
    sure: bool
    places: tuple[Point, ...]
    pair: tuple[str, int]
    by_name: Mapping[str, tuple[int, ...]]
    inner: Inner
    seconds: float | None
    anything: Any
    from_: str
    note: str | None = None


GOOD: dict[str, Any] = {
    "text": "a",
    "count": 1,
    "share": 0.5,
    "sure": True,
    "places": [[1, 2.5]],
    "pair": ["a", 1],
    "by_name": {"a": [1, 2]},
    "inner": {"name": "n"},
    "seconds": None,
    "anything": {"a": [1, None]},
    "from": "here",
}


def validator(kind: type[Record]) -> Draft202012Validator:
    """What judges a record's JSON."""
    definitions = Definitions()
    whole = definitions.of(kind)
    return Draft202012Validator({**whole, "$defs": definitions.named})


def test_a_good_record_is_valid() -> None:
    """What a record is read of is valid, and so is the record's own JSON, with and without what may be left out."""
    for value in (GOOD, {**GOOD, "note": "x"}):
        assert validator(Outer).is_valid(value)
        assert validator(Outer).is_valid(jsonable(typed(Outer, value)))


@pytest.mark.parametrize(
    "change",
    [
        {"text": 1},
        {"count": "1"},
        {"count": 1.5},
        {"count": True},
        {"share": "half"},
        {"sure": 1},
        {"places": [[1]]},
        {"places": [[1, 2.0, 3]]},
        {"places": {}},
        {"pair": ["a"]},
        {"pair": ["a", 1, 2]},
        {"by_name": {"a": ["x"]}},
        {"inner": {}},
        {"inner": {"name": "n", "more": 1}},
        {"inner": None},
        {"seconds": "1"},
        {"note": 1},
        {"new": 1},
        {"from_": "x"},
    ],
    ids=str,
)
def test_what_a_record_refuses_is_not_valid(change: dict[str, Any]) -> None:
    """A value that does not fit its field, and a field that there is not, is refused by both."""
    with pytest.raises(FieldError):
        typed(Outer, {**GOOD, **change})
    assert not validator(Outer).is_valid({**GOOD, **change})


@pytest.mark.parametrize("field", list(GOOD))
def test_a_field_that_is_missing_is_not_valid(field: str) -> None:
    """A field without a default must be there, by both."""
    less = {key: value for key, value in GOOD.items() if key != field}
    with pytest.raises(FieldError):
        typed(Outer, less)
    assert not validator(Outer).is_valid(less)


def test_every_record_of_the_package_has_a_schema() -> None:
    """The emptiest record of each kind of event and of each stage is valid by the schema of its kind."""
    for kind in {*EVENTS.values(), *ARTIFACTS.values()}:
        value = jsonable(blank(kind))
        assert [error.message for error in validator(kind).iter_errors(value)] == [], kind.__name__
        assert needs_data(kind) == bool(value)


@pytest.mark.compile
def test_two_records_of_one_name_are_both_there() -> None:
    """A record named as another one is gets the name of its module too."""
    other = record(type("Inner", (Record,), {"__annotations__": {"size": int}, "__module__": "somewhere.else_", "__doc__": ""}))
    definitions = Definitions()
    assert [definitions.of(kind)["$ref"] for kind in (Inner, other)] == ["#/$defs/Inner", "#/$defs/else_.Inner"]
    assert definitions.named["else_.Inner"]["required"] == ["size"]
