"""Events whose facts are made when the recording is first read: what they are made of was copied while it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from explorer.model.events import event_data
from explorer.model.stage import Facts
from explorer.model.values import Event, Failure


@dataclass(frozen=True)
class Read:
    """What the unread events of a recording became: events, and a Failure for each that could not be made."""

    events: tuple[Event, ...] = ()
    failures: tuple[Failure, ...] = ()


class UnreadEvents:
    """The unread events of one recording; they are made once, whichever thread reads them first."""

    def __init__(self) -> None:
        self._unread: list[tuple[str, str, float, Callable[[], Facts]]] = []
        self._events: list[Event] = []
        self._failures: list[Failure] = []
        self._lock = threading.RLock()

    def add(self, kind: str, frame: str, time: float, facts: Callable[[], Facts]) -> None:
        """One more event, whose `facts` hold nothing that changes, and nothing that ran."""
        with self._lock:
            self._unread.append((kind, frame, time, facts))

    def read(self) -> Read:
        """Make those that are not made yet, and give all."""
        with self._lock:
            while self._unread:
                kind, frame, time, facts = self._unread[0]
                try:
                    self._events.append(Event(kind, time, frame, data=event_data(kind, facts())))
                except Exception as error:  # noqa: BLE001 rule 5: what one cannot make must not take the rest away
                    self._failures.append(Failure(kind, "record", f"{type(error).__name__}: {error}".strip()))
                del self._unread[0]
            return Read(tuple(self._events), tuple(dict.fromkeys(self._failures)))
