"""The JSON Schema of trace files and recordings, made of the records that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.model.records import Record
from explorer.model.schema import Definitions, Schema, needs_data
from explorer.model.values import Artifact, Event, Failure
from explorer.sources.files.upgrades import FORMAT
from explorer.stages.records import ARTIFACTS, EVENTS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ABOUT = (
    "A trace file (Trace.save, `explorer trace -o`), unpacked with gunzip; or a recording of the events that a trace is made of. "
    "Files of an older format are read too, but are not described here: load one and save it again."
)


def schema() -> Schema:
    """The JSON Schema (2020-12) of the files that explorer writes, as a dict; they are gzipped JSON.

    It describes the present format: an object with "explorer" ("trace" or "events"), "format", the checksum "sha256", and the
    trace or recording by that name. The `data` of an artifact is described by its stage, the `data` of an event by its kind; a
    stage or probe of your own may put anything there. `explorer schema` prints it.
    """
    definitions = Definitions()
    trace = _object(
        meta={"type": "object"},
        artifacts=_list(_by_kind(definitions, Artifact, "stage", ARTIFACTS)),
        links=_list(_link(definitions)),
        failures=_list(definitions.of(Failure)),
    )
    events = _object(
        meta={"type": "object"},
        events=_list(_by_kind(definitions, Event, "kind", EVENTS)),
        failures=_list(definitions.of(Failure)),
    )
    kinds = {"trace": trace, "events": events}
    return {
        "$schema": _DIALECT,
        "title": "explorer's trace files",
        "description": _ABOUT,
        "type": "object",
        "required": ["explorer", "format", "sha256"],
        "properties": {
            "explorer": {"enum": list(kinds)},
            "format": {"const": FORMAT},
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        "allOf": [
            {"if": {"properties": {"explorer": {"const": kind}}}, "then": {"required": [kind], "properties": {kind: held}}}
            for kind, held in kinds.items()
        ],
        "$defs": dict(sorted(definitions.named.items())),
    }


def _object(**properties: Schema) -> Schema:
    """An object with all of these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _link(definitions: Definitions) -> Schema:
    """A link is a list: text, its lines, text, its lines, how it is known."""
    about = "Lines of one artifact that come from lines of another: artifact, lines, artifact, lines, how that is known."
    lines = tuple[int, ...]
    return {"description": about, **definitions.row((str, lines, str, lines, str))}


def _by_kind(definitions: Definitions, value: type, key: str, records: Mapping[str, type[Record]]) -> Schema:
    """An Artifact or Event, whose data is the record of its stage or kind."""
    whole = definitions.of(value)
    kinds: dict[type[Record], list[str]] = {}
    for name, record in records.items():
        kinds.setdefault(record, []).append(name)
    cases: list[dict[str, Any]] = []
    for record, names in kinds.items():
        then: Schema = {"properties": {"data": definitions.of(record)}}
        if needs_data(record):
            then["required"] = ["data"]
        cases.append({"if": {"properties": {key: {"enum": names}}, "required": [key]}, "then": then})
    return {**whole, "allOf": cases}
