"""Listen to torch's structured trace log, the channel that `TORCH_TRACE` writes and tlparse reads.

Of all ways into torch this one changes least: a logging handler in the process, as torch's own draft export has one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from explorer.capture.observe.patch import guarded, replaced
from explorer.model.stage import Emit

#: What takes one record: its metadata and its payload, a text or what torch would write as JSON (see `parsed`).
Listener = Callable[[Mapping[str, Any], Any], None]
TRACE_LOG = "torch.__trace"


class _Handler(logging.Handler):
    """Passes each record to those that listen for its name: one handler per recording, since torch's log calls each for all."""

    def __init__(self, emit: Emit) -> None:
        super().__init__()
        self.emit_event = emit
        #: By the names of records. A probe adds and takes away its own, and no function of explorer's can fail on the way.
        self.listeners: list[Mapping[str, Listener]] = []
        self.emit = guarded(lambda record: None, lambda _: self._heard, "structured log")  # type: ignore[method-assign]

    def _heard(self, record: logging.LogRecord) -> None:
        metadata: dict[str, Any] = getattr(record, "metadata", {})
        self.hear(name_of(metadata), metadata, getattr(record, "payload", None) or "")

    def hear(self, name: str, metadata: Mapping[str, Any], payload: object) -> None:
        """Pass a record of this name on."""
        for listener in [listeners[name] for listeners in self.listeners if name in listeners]:
            self.emit_event.attempt(name, "structured log", partial(listener, metadata, payload))

    def hears(self, name: str) -> bool:
        """Whether somebody listens for records of this name."""
        return any(name in listeners for listeners in self.listeners)


def name_of(metadata: Mapping[str, Any]) -> str:
    """What a record is listened for by: its first key, or an artifact's name."""
    name = next(iter(metadata), "")
    return str(metadata["artifact"].get("name", "")) if name == "artifact" else name


@contextmanager
def listening(emit: Emit, listeners: Mapping[str, Listener]) -> Iterator[None]:
    """Inside the block each structured record whose name is in `listeners` is passed to its listener."""
    log = logging.getLogger(TRACE_LOG)
    handler = next((one for one in log.handlers if isinstance(one, _Handler) and one.emit_event is emit), None)
    if handler is None:
        handler = _Handler(emit)
        log.addHandler(handler)
        # First in line: torch's own LazyTraceHandler takes itself off the list while the list is walked.
        log.handlers.insert(0, log.handlers.pop())
    handler.listeners.insert(0, listeners)  # before those that listen already
    try:
        yield
    finally:
        handler.listeners.remove(listeners)
        if not handler.listeners:
            log.removeHandler(handler)


#: Modules of torch that make most of the records. In the first two stand the functions that the others of torch call.
TALKATIVE = (
    "torch._logging",
    "torch._logging._internal",
    "torch._subclasses.meta_utils",
    "torch._functorch._aot_autograd.graph_capture",
    "torch._functorch._aot_autograd.graph_compile",
    "torch._inductor.codecache",
    "torch._inductor.compile_fx",
)


@contextmanager
def only_heard(emit: Emit) -> Iterator[None]:
    """Keep torch from making records for a log that only explorer reads inside the block.

    torch makes every record as soon as one handler is there: texts of graphs that explorer copies itself, and several for each
    tensor that it makes a fake one of. A record that nobody listens for is not made; of another what its listeners take is,
    but not what a line of a file has besides: context, JSON and a checksum.
    """
    with ExitStack() as stack:
        for name in TALKATIVE:
            stack.enter_context(replaced(import_module(name), "trace_structured", partial(_made_if_heard, emit)))
        yield


def _made_if_heard(emit: Emit, original: Any) -> Any:
    def trace_structured(name: str, metadata_fn: Any = dict, *args: Any, **more: Any) -> Any:
        handlers = logging.getLogger(TRACE_LOG).handlers
        own = [handler for handler in handlers if isinstance(handler, _Handler)]
        if len(own) < len(handlers):
            return original(name, metadata_fn, *args, **more)
        if own:
            emit.attempt(name, "structured log", partial(_tell, own, name, metadata_fn, more.get("payload_fn")))
        return None

    return trace_structured


def _tell(handlers: list[_Handler], name: str, metadata_fn: Callable[[], Any], payload_fn: Callable[[], Any] | None) -> None:
    """Make a record for those handlers that have listeners of its name."""
    if name != "artifact" and not any(handler.hears(name) for handler in handlers):
        return
    metadata = {name: metadata_fn()}
    heard = name_of(metadata)
    if handlers := [handler for handler in handlers if handler.hears(heard)]:
        payload = payload_fn() if payload_fn is not None else None
        for handler in handlers:
            handler.hear(heard, metadata, _written(payload))


def _written(payload: Any) -> Any:
    """A payload as listeners take it: a list as torch writes one, an item a line; an object as it is."""
    if isinstance(payload, list):
        return "[\n" + ",\n".join(json.dumps(item) for item in payload) + "\n]"
    return "" if payload is None else payload


def parsed(payload: Any) -> Any:
    """What a payload of JSON says, as torch made it or from its text."""
    return json.loads(payload) if isinstance(payload, str) else payload


def interned(index: object) -> str:
    """The string that a structured record refers to by number, such as a file name; "" where unknown."""
    from torch._logging import structured

    for text, number in structured.INTERN_TABLE.items():
        if number == index:
            return str(text)
    return ""
