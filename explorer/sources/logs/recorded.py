"""What every kind of log is read into: events, as explorer's probes would have recorded them, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.model.values import Event, Failure, Plain


@dataclass(frozen=True, slots=True)
class Recorded:
    """A log as a recording: its events, its losses, and the facts of the trace."""

    events: tuple[Event, ...]
    failures: tuple[Failure, ...]
    meta: Mapping[str, Plain]
