"""The record of each kind of event and of each stage's artifacts, as `STAGES` and the events without a stage have them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.model.events import EVENTS_WITHOUT_STAGE
from explorer.model.records import Record, typed
from explorer.model.values import Plain, plain
from explorer.stages import STAGES

#: The records of artifacts by stage. An artifact of another stage, such as a user's own, holds any read-only mapping.
ARTIFACTS: Mapping[str, type[Record]] = MappingProxyType({s.name: s.artifact for s in STAGES if s.artifact is not None})
#: The records of events by kind. An event of another kind, such as that of a user's own probe, holds any read-only mapping.
EVENTS: Mapping[str, type[Record]] = MappingProxyType(
    {
        **EVENTS_WITHOUT_STAGE,
        **{kind: record for stage in STAGES for kind, record in stage.consumes.items() if record is not None},
        **{stage.name: stage.event for stage in STAGES if stage.event is not None},
    }
)


def artifact_data(stage: str, facts: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """Return facts as the record of a stage's artifacts, or as a read-only mapping for a stage without one.

    FieldError for facts that do not fit the record.
    """
    return _held(ARTIFACTS.get(stage), facts)


def event_data(kind: str, facts: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """Return facts as the record of a kind of event, or as a read-only mapping for a kind without one.

    FieldError for facts that do not fit the record.
    """
    return _held(EVENTS.get(kind), facts)


def _held(record: type[Record] | None, facts: Mapping[str, Plain]) -> Mapping[str, Plain]:
    if record is not None:
        return typed(record, facts)
    frozen: Mapping[str, Plain] = plain(facts)
    return frozen
