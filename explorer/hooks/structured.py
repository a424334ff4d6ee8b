"""Listen to torch's structured trace log, the channel that `TORCH_TRACE` writes and tlparse reads.

It is the hook that rots most slowly: an in-process logging handler, as draft export has one inside torch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.stage import Emit

#: What is done with one record: (metadata, payload) → nothing.
Listener = Callable[[Mapping[str, Any], str], None]
TRACE_LOG = "torch.__trace"


class _Handler(logging.Handler):
    """Passes each record whose name is listened for to its listener."""

    def __init__(self, emit: Emit, listeners: Mapping[str, Listener]) -> None:
        super().__init__()
        self._emit_event = emit
        self._listeners = listeners

    def emit(self, record: logging.LogRecord) -> None:
        metadata: dict[str, Any] = getattr(record, "metadata", {})
        name = next(iter(metadata), "")
        if name == "artifact":
            name = metadata["artifact"].get("name", "")
        listener = self._listeners.get(name)
        if listener is not None:
            payload = getattr(record, "payload", None) or ""
            self._emit_event.attempt(name, "structured log", lambda: listener(metadata, payload))


@contextmanager
def listening(emit: Emit, listeners: Mapping[str, Listener]) -> Iterator[None]:
    """Inside the block each structured record named in `listeners` reaches its listener."""
    log = logging.getLogger(TRACE_LOG)
    handler = _Handler(emit, listeners)
    log.addHandler(handler)
    # First in line: torch's own LazyTraceHandler takes itself off the list while the list is walked.
    log.handlers.insert(0, log.handlers.pop())
    try:
        yield
    finally:
        log.removeHandler(handler)


def interned(index: object) -> str:
    """The string that a structured record refers to by number, such as a file name; "" where unknown."""
    from torch._logging import structured

    for text, number in structured.INTERN_TABLE.items():
        if number == index:
            return str(text)
    return ""
