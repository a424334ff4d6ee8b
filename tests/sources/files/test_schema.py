"""The JSON Schema of trace files, held to the `jsonschema` package and to what reading a file accepts."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from explorer.errors import FileError
from explorer.model.values import Event, Failure
from explorer.sources.files import schema, trace_file
from explorer.sources.files.trace_file import dump_events, dumps, load_events
from explorer.tracing.traced import Trace
from tests.each import each

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

DATA = Path(__file__).parents[2] / "data"
ALL = {path.name.partition(".events")[0]: path for path in sorted(DATA.glob("*.events.json.gz"))}
#: One recording of each program, and one for a GPU: they have every kind of event and every stage that any recording has.
RECORDINGS = ["mlp_train-torch2.11-cuda", *(name for name in ALL if name.endswith("-torch2.13-cpu"))]
ONE = ALL["sin_cos-torch2.13-cpu"]
Recorded = Callable[[str], tuple[list[Event], list[Failure], dict[str, object]]]


@cache
def validator() -> Draft202012Validator:
    """What judges a file by explorer's schema."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema.schema())


def unpacked(data: bytes) -> Any:
    """The JSON of a file."""
    return json.loads(gzip.decompress(data))


def test_the_schema_is_one_of_the_dialect_that_it_names() -> None:
    """The schema itself is valid by the meta-schema of 2020-12, and all that it refers to is in it."""
    from jsonschema import Draft202012Validator

    made = schema.schema()
    Draft202012Validator.check_schema(made)
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    referred = {part.partition('"')[0] for part in json.dumps(made).split("#/$defs/")[1:]}
    assert referred == set(made["$defs"])


@each(RECORDINGS)
def test_a_recording_and_its_trace_are_valid(name: str, recorded: Recorded, replayed: Callable[[str], Trace]) -> None:
    """A recorded program, upgraded where its format is older, and the trace that is made of it, fit the schema."""
    for data in (dump_events(*recorded(name)), dumps(replayed(name))):
        errors = [f"{list(error.absolute_path)}: {error.message[:200]}" for error in validator().iter_errors(unpacked(data))]
        assert errors == []


def test_the_validated_recordings_have_all_that_is_recorded(recorded: Recorded, replayed: Callable[[str], Trace]) -> None:
    """The recordings of other versions of torch have no kind of event, format and stage that those do not have."""

    def contents(names: Iterable[str]) -> set[tuple[str, object]]:
        kinds = {("kind", event.kind) for name in names for event in recorded(name)[0]}
        stages = {("stage", artifact.stage) for name in names for artifact in replayed(name).artifacts}
        return kinds | stages | {("format", unpacked(ALL[name].read_bytes())["format"]) for name in names}

    assert contents(RECORDINGS) == contents(ALL)


def first(value: Any, kind: str) -> Any:
    """The data of the first event of a kind."""
    return next(event for event in value["events"]["events"] if event["kind"] == kind)["data"]


DAMAGE: dict[str, Callable[[Any], object]] = {
    "a field of another type": lambda v: first(v, "frame")["stack"][0].update(line="three"),
    "a field that the record has not": lambda v: first(v, "phase").update(colour="red"),
    "a field that is missing": lambda v: first(v, "output_code").pop("text"),
    "a list in the place of a number": lambda v: first(v, "source").update(line=[]),
    "an event without data": lambda v: next(e for e in v["events"]["events"] if e["kind"] == "source").pop("data"),
    "an event with another field": lambda v: v["events"]["events"][0].update(who="me"),
    "a failure without a message": lambda v: v["events"]["failures"].append({"stage": "guards", "step": "render"}),
}


@pytest.fixture(scope="module")
def valid() -> Any:
    """The JSON of a recording that fits the schema."""
    value = unpacked(dump_events(*load_events(ONE.read_bytes())))
    assert validator().is_valid(value)
    return value


@each(DAMAGE)
def test_what_reading_refuses_the_schema_refuses(name: str, valid: Any) -> None:
    """A damaged event is not valid by the schema, and explorer does not read it either, though its checksum is right."""
    value = copy.deepcopy(valid)
    DAMAGE[name](value)
    assert not validator().is_valid(value)
    value["sha256"] = trace_file._digest(value["events"])
    with pytest.raises(FileError):
        load_events(gzip.compress(json.dumps(value).encode()))


def test_an_event_of_your_own_may_hold_anything(valid: Any) -> None:
    """Of an event whose kind explorer does not have the schema asks nothing but JSON, as reading does."""
    value = copy.deepcopy(valid)
    value["events"]["events"].append({"kind": "mine", "time": 1.0, "data": {"any": [1, {"thing": None}]}})
    assert validator().is_valid(value)


def test_another_format_is_not_described(valid: Any) -> None:
    """A file of an older or a newer format is not valid: the schema says which one it describes."""
    assert not validator().is_valid({**valid, "format": valid["format"] - 1})
    assert not validator().is_valid({**valid, "format": valid["format"] + 1})
