"""Facts of events that are made when the recording is first read: what they are made of was copied while it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from explorer.model.values import Event, Failure, Plain
from explorer.stages.records import event_data

#: The compiler's own names for its frames.
NO_NAMES: Mapping[str, str] = MappingProxyType({})


class UnreadFacts(Mapping[str, Plain]):
    """What an event has in the place of its facts until they are read; nothing is in it.

    They are made once, whichever thread reads them first. `make` holds nothing that changes, and nothing that ran.
    """

    __slots__ = ("_lock", "_made", "_make")

    def __init__(self, make: Callable[[], Mapping[str, Plain]]) -> None:
        self._make: Callable[[], Mapping[str, Plain]] | None = make
        self._made: Mapping[str, Plain] | Failure | None = None
        self._lock = threading.RLock()

    def read(self, kind: str) -> Mapping[str, Plain] | Failure:
        """The facts of an event of `kind`; a Failure where they cannot be made, which must not take the rest away."""
        with self._lock:
            if self._make is not None:
                self._made, self._make = _event_data_or_failure(kind, self._make), None
            assert self._made is not None
            return self._made

    def __getitem__(self, key: str) -> Plain:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    __eq__ = object.__eq__  # those of two events differ, though both are empty
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Read:
    """What the events of a recording became: those with facts, and a Failure for each whose facts could not be made."""

    events: tuple[Event, ...] = ()
    failures: tuple[Failure, ...] = ()


def read(events: Sequence[Event], names: Mapping[str, str] = NO_NAMES) -> Read:
    """Return these events with their facts; a Failure names its frame by `names`, as the trace calls it."""
    found = [_whole(event, names) for event in events]
    failures = dict.fromkeys(each for each in found if isinstance(each, Failure))
    return Read(tuple(each for each in found if isinstance(each, Event)), tuple(failures))


def _whole(event: Event, names: Mapping[str, str]) -> Event | Failure:
    if not isinstance(event.data, UnreadFacts):
        return event
    data = event.data.read(event.kind)
    if not isinstance(data, Failure):
        return replace(event, data=data)
    place = " ".join(part for part in (names.get(event.frame, event.frame), event.graph) if part)
    return replace(data, message=f"{place}: {data.message}") if place else data


def _event_data_or_failure(kind: str, make: Callable[[], Mapping[str, Plain]]) -> Mapping[str, Plain] | Failure:
    try:
        return event_data(kind, make())
    except Exception as error:  # noqa: BLE001 rule 5: what one cannot make must not take the rest away
        return Failure(kind, "record", f"{type(error).__name__}: {error}".strip())
