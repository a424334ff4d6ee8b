"""Events whose facts are made when the recording is first read: what they are made of was copied while it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.model.events import event_data
from explorer.model.stage import Facts
from explorer.model.values import Event, Failure


@dataclass(frozen=True)
class Read:
    """What the events of a recording became: those with facts, and a Failure for each whose facts could not be made."""

    events: tuple[Event, ...] = ()
    failures: tuple[Failure, ...] = ()


class UnreadEvents:
    """The facts of one recording that are not made yet; they are made once, whichever thread reads them first."""

    def __init__(self) -> None:
        self._unread: dict[int, tuple[Event, Callable[[], Facts]]] = {}  # by the identity of the event, for which it is held
        self._read: dict[int, tuple[Event, Event | Failure]] = {}
        self._lock = threading.RLock()

    def add(self, event: Event, facts: Callable[[], Facts]) -> None:
        """One more event that has no facts yet; `facts` hold nothing that changes, and nothing that ran."""
        with self._lock:
            self._unread[id(event)] = event, facts

    def read(self, events: Sequence[Event]) -> Read:
        """These events, each with its facts."""
        with self._lock:
            found = [self._whole(event) for event in events]
        failures = dict.fromkeys(each for each in found if isinstance(each, Failure))
        return Read(tuple(each for each in found if isinstance(each, Event)), tuple(failures))

    def _whole(self, event: Event) -> Event | Failure:
        """The event with its facts; a Failure where they cannot be made, which must not take the rest away."""
        if id(event) in self._unread:
            _, facts = self._unread[id(event)]
            self._read[id(event)] = event, _made(event, facts)
            del self._unread[id(event)]
        return self._read[id(event)][1] if id(event) in self._read else event


def _made(event: Event, facts: Callable[[], Facts]) -> Event | Failure:
    try:
        return replace(event, data=event_data(event.kind, facts()))
    except Exception as error:  # noqa: BLE001 rule 5: what one cannot make must not take the rest away
        return Failure(event.kind, "record", f"{type(error).__name__}: {error}".strip())
