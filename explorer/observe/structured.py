"""Listen to torch's structured trace log, the channel that `TORCH_TRACE` writes and tlparse reads.

Of all ways into torch this one changes least: a logging handler in the process, as torch's own draft export has one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.model.stage import Emit
from explorer.observe.patch import guarded, replaced

#: What takes one record: its metadata and its payload.
Listener = Callable[[Mapping[str, Any], str], None]
TRACE_LOG = "torch.__trace"


class _Handler(logging.Handler):
    """Passes each record whose name is listened for to its listener."""

    def __init__(self, emit: Emit, listeners: Mapping[str, Listener]) -> None:
        super().__init__()
        self._emit_event = emit
        self._listeners = listeners
        self.emit = guarded(lambda record: None, lambda _: self._heard, "structured log")  # type: ignore[method-assign]

    def _heard(self, record: logging.LogRecord) -> None:
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
    """Inside the block each structured record whose name is in `listeners` is passed to its listener."""
    log = logging.getLogger(TRACE_LOG)
    handler = _Handler(emit, listeners)
    log.addHandler(handler)
    # First in line: torch's own LazyTraceHandler takes itself off the list while the list is walked.
    log.handlers.insert(0, log.handlers.pop())
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def not_made(module: Any, names: Collection[str]) -> Iterator[None]:
    """Keep `module` from making the named artifacts inside the block, where only explorer would read them.

    torch makes every payload as soon as one handler is there, also of graphs that explorer copies itself.
    """

    def make(original: Any) -> Any:
        def trace_structured(name: str, metadata_fn: Any = dict, **more: Any) -> Any:
            ours = all(isinstance(handler, _Handler) for handler in logging.getLogger(TRACE_LOG).handlers)
            if ours and name == "artifact" and metadata_fn().get("name") in names:
                return None
            return original(name, metadata_fn, **more)

        return trace_structured

    with replaced(module, "trace_structured", make):
        yield


def interned(index: object) -> str:
    """The string that a structured record refers to by number, such as a file name; "" where unknown."""
    from torch._logging import structured

    for text, number in structured.INTERN_TABLE.items():
        if number == index:
            return str(text)
    return ""
