"""The JSON Schema of trace files, held to the `jsonschema` package and to what reading a file accepts."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import explorer
from explorer.errors import FileError
from explorer.files import trace_file
from explorer.files.trace_file import dump_events, dumps, load_events
from explorer.replay import replay

RECORDINGS = sorted((Path(__file__).parents[1] / "data").glob("*.events.json.gz"))
ONE = next(path for path in RECORDINGS if path.name == "sin_cos-torch2.13-cpu.events.json.gz")


@cache
def validator() -> Draft202012Validator:
    """What judges a file by explorer's schema."""
    return Draft202012Validator(explorer.schema())


def unpacked(data: bytes) -> Any:
    """The JSON of a file."""
    return json.loads(gzip.decompress(data))


def test_the_schema_is_one_of_the_dialect_that_it_names() -> None:
    """The schema itself is valid by the meta-schema of 2020-12, and all that it refers to is in it."""
    schema = explorer.schema()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    referred = {part.partition('"')[0] for part in json.dumps(schema).split("#/$defs/")[1:]}
    assert referred == set(schema["$defs"])


@pytest.mark.sampled
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".events")[0])
def test_every_recording_and_its_trace_are_valid(path: Path) -> None:
    """Each recorded program, upgraded where its format is older, and the trace that is made of it, fit the schema."""
    events, failures, meta = load_events(path.read_bytes())
    for data in (dump_events(events, failures, meta), dumps(replay(events, failures, meta))):
        errors = [f"{list(error.absolute_path)}: {error.message[:200]}" for error in validator().iter_errors(unpacked(data))]
        assert errors == []


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


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_reading_refuses_the_schema_refuses(damage: str) -> None:
    """A damaged event is not valid by the schema, and explorer does not read it either, though its checksum is right."""
    value = copy.deepcopy(unpacked(dump_events(*load_events(ONE.read_bytes()))))
    assert validator().is_valid(value)
    DAMAGE[damage](value)
    assert not validator().is_valid(value)
    value["sha256"] = trace_file._digest(value["events"])
    with pytest.raises(FileError):
        load_events(gzip.compress(json.dumps(value).encode()))


def test_an_event_of_your_own_may_hold_anything() -> None:
    """Of an event whose kind explorer does not have the schema asks nothing but JSON, as reading does."""
    value = copy.deepcopy(unpacked(dump_events(*load_events(ONE.read_bytes()))))
    value["events"]["events"].append({"kind": "mine", "time": 1.0, "data": {"any": [1, {"thing": None}]}})
    assert validator().is_valid(value)


def test_another_format_is_not_described() -> None:
    """A file of an older or a newer format is not valid: the schema says which one it describes."""
    value = unpacked(dump_events(*load_events(ONE.read_bytes())))
    assert not validator().is_valid({**value, "format": value["format"] - 1})
    assert not validator().is_valid({**value, "format": value["format"] + 1})
