"""Records: frozen dataclasses that are mappings too, made of JSON-like values whose types are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any, NamedTuple, get_type_hints

import pytest

from explorer.model import records
from explorer.model.records import FieldError, Record, blank, changed, record, typed
from explorer.model.values import jsonable, plain
from explorer.stages.records import ARTIFACTS, EVENTS
from tests.facts import says, untold


class Pair(NamedTuple):
    """A record that stands for two values in a row."""

    left: int
    right: str


@record
class Inner(Record):
    """A row."""

    name: str
    ms: float | None = None


@record
class Outer(Record):
    """A record with every kind of field there is."""

    number: int
    share: float
    sure: bool
    size: int | str
    from_: tuple[str, ...] | None = None
    rows: tuple[Inner, ...] = ()
    pairs: tuple[Pair, ...] | None = None
    counts: Mapping[str, int] | None = None
    found: float | None
    rest: Mapping[str, Any] | None = None


GIVEN: dict[str, Any] = {
    "number": 3,
    "share": 0.5,
    "sure": True,
    "size": "s0",
    "from": ["a", "b"],
    "rows": [{"name": "x"}, {"name": "y", "ms": 2}],
    "pairs": [[1, "one"]],
    "counts": {"a": 1},
    "found": None,
    "rest": {"deep": [{"k": [1]}]},
}


def test_a_record_is_a_mapping_of_its_fields() -> None:
    """Fields are attributes and keys; one that is None by default is no key, and a required one stays."""
    made = typed(Outer, GIVEN)
    assert made.rows[1].ms == 2 and made["rows"][1]["ms"] == 2
    assert made.from_ == ("a", "b") and made["from"] == ("a", "b")
    assert made.pairs is not None and made.pairs[0].right == "one"
    assert dict(made.rows[0]) == {"name": "x"} and "ms" not in made.rows[0] and made.rows[0].get("ms", 7) == 7
    assert len(made.rows[0]) == 1 and made["found"] is None and "found" in made
    with pytest.raises(KeyError):
        made.rows[0]["ms"]
    with pytest.raises(KeyError):
        made["from_"]


def test_a_record_is_equal_to_the_mapping_it_was_made_of() -> None:
    """And to a record of the same fields; its JSON gives it back."""
    made = typed(Outer, GIVEN)
    assert made == typed(Outer, jsonable(made)) and jsonable(made) == GIVEN
    assert made == plain(GIVEN) and made != {**GIVEN, "number": 4} and made != 3
    assert made != typed(Outer, {**GIVEN, "number": 4})


def test_a_record_with_other_values_is_what_replace_gives() -> None:
    """A given value is read by its field's type, other fields keep their objects, and the old record stays as it was."""
    made = typed(Outer, GIVEN)
    other = changed(made, rows=[{"name": "z"}], from_=None, size=4)
    assert other == replace(made, rows=[{"name": "z"}], from_=None, size=4) != made
    assert type(other) is Outer and other.rows == (Inner(name="z"),) and "from" not in other and other.rest is made.rest
    assert made == typed(Outer, GIVEN) and changed(made) == made
    for wrong, facts in (({"number": "3"}, ("number", "int", "str")), ({"naem": 1}, ("Outer", "naem"))):
        with pytest.raises(FieldError, match=says(*facts)):
            changed(made, **wrong)


def test_a_record_cannot_be_changed() -> None:
    """Neither its fields nor what they hold can be changed."""
    made = typed(Outer, GIVEN)
    with pytest.raises(FrozenInstanceError):
        made.number = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.rest["deep"] = 1  # type: ignore[index]
    assert plain(made) is made and typed(Outer, made) is made


@pytest.mark.parametrize(
    ("key", "value", "where", "facts"),
    [
        ("number", True, "number", ("int", "bool")),
        ("number", 2.0, "number", ("int", "float")),
        ("share", "0.5", "share", ("float", "str")),
        ("share", float("nan"), "share", ("finite", "nan")),
        ("sure", 1, "sure", ("bool", "int")),
        ("size", None, "size", ("int", "str", "NoneType")),
        ("from", "ab", "from", ("values", "str")),
        ("rows", [{"name": "x"}, {"name": 3}], "rows[1].name", ("str", "int")),
        ("rows", [{"nam": "x"}], "rows[0]", ("Inner", "nam")),
        ("rows", [{}], "rows[0]", ("Inner", "name")),
        ("rows", [4], "rows[0]", ("Inner", "int")),
        ("pairs", [[1]], "pairs[0]", ("2 values", "1")),
        ("pairs", [[1, 2]], "pairs[0][1]", ("str", "int")),
        ("counts", {"a": "b"}, "counts['a']", ("int", "str")),
    ],
)
def test_what_does_not_fit_is_refused(key: str, value: object, where: str, facts: tuple[str, ...]) -> None:
    """The error names the place, what fits, and what came."""
    with pytest.raises(FieldError, match=says(where, *facts)) as raised:
        typed(Outer, {**GIVEN, key: value})
    assert raised.value.where == where and not untold(raised.value.why, *facts)


@pytest.mark.parametrize(
    ("given", "where", "facts"),
    [
        ({"name": 3}, "name", ("str", "int")),
        ({"nam": "x"}, "", ("Inner", "nam")),
        ({"ms": 1.0}, "", ("Inner", "name")),
        ({"name": "x", "ms": float("inf")}, "ms", ("finite", "inf")),
    ],
)
def test_the_constructor_reads_each_field_by_its_type(given: dict[str, Any], where: str, facts: tuple[str, ...]) -> None:
    """A value that does not fit is refused where the record is made."""
    with pytest.raises(FieldError, match=says(*facts)) as raised:
        Inner(**given)
    assert raised.value.where == where and not untold(str(raised.value), *filter(None, [where]), *facts)


def test_the_constructor_keeps_what_is_plain() -> None:
    """A list becomes a tuple, what torch writes as text a text, and a field is given by its attribute, not its key."""

    class Size:
        def __str__(self) -> str:
            return "s0"

    names: Any = ["a", Size()]
    made = Outer(number=3, share=1, sure=False, size=4, from_=names, found=None)
    assert made.from_ == ("a", "s0") and made.mapping() == {**made, "from": ("a", "s0")} and made.rows == ()
    with pytest.raises(FieldError, match=says("Outer", "from")):
        Outer(**{**vars_of(made), "from": ("a",)})


def vars_of(made: Outer) -> dict[str, Any]:
    """The constructor's arguments, without the field whose key is a keyword of Python's."""
    return {key: value for key, value in made.items() if key != "from"}


def test_what_is_no_json_is_taken_as_text() -> None:
    """A symbolic size, a device or a dtype becomes its text; a set a sorted tuple; a whole number of another type an int."""

    class Size:
        def __str__(self) -> str:
            return "s0 + 1"

        def __index__(self) -> int:
            return 5

    made = typed(Outer, {**GIVEN, "from": {Size()}, "number": Size()})
    assert made.from_ == ("s0 + 1",) and made.number == 5


def test_the_types_of_fields_are_those_of_typing() -> None:
    """Each record of events and artifacts reads its fields by the types that `typing.get_type_hints` gives."""
    for kind in {*EVENTS.values(), *ARTIFACTS.values()}:
        hints = get_type_hints(kind)
        assert records._hints(kind) == {name: hints[name] for name in records._hints(kind)}
        assert {name for name, _, _ in kind._layout} <= records._hints(kind).keys()


def test_the_types_of_a_blank_record_are_worked_out_once_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of thousands of kernels has a blank record for each kernel that was not compiled."""
    first = blank(Outer)
    calls: list[object] = []
    for function in ("get_type_hints", "get_annotations"):
        monkeypatch.setattr(records, function, calls.append)
    assert blank(Outer) == first and first.number == 0 and not calls
