"""Observe what Dynamo captures of a whole function ahead of its calls: `torch.compile(f).aot_compile(…)`, strict torch.export.

Dynamo runs no hook there, and `aot_compile` hands the graph to its backend after the compile that captured it is over.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from explorer.capture.observe.bytecode import emit_transformed
from explorer.capture.observe.compile_calls import call_ahead
from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.functions import emit_function
from explorer.capture.observe.patch import observed
from explorer.capture.observe.versions import has_function
from explorer.model.stage import Emit


class _UnderWay(threading.local):
    """The calls of `aot_compile_fullgraph` under way in a thread: the backend of each, and what ends with it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ExitStack]] = []


@contextmanager
def captured_ahead(emit: Emit) -> Iterator[None]:
    """Record the bytecode and the call of each captured function, and give what is compiled of it the frame that captured it."""
    from torch._dynamo import convert_frame

    under_way = _UnderWay()

    def captured(frame: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        backend = under_way.calls[-1][0] if under_way.calls else None
        emit("compile_call", lambda: call_ahead(backend))
        emit_function(emit, frame.code)
        output = yield
        if under_way.calls:
            under_way.calls[-1][1].enter_context(emit.within(current_compile_id()))
        emit_transformed(emit, output.graph_capture_output.bytecode, frame.code)

    def ahead(model: Any, example_inputs: Any, hooks: Any, backend: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        with ExitStack() as stack:
            under_way.calls.append((backend, stack))
            try:
                yield
            finally:
                under_way.calls.pop()

    with ExitStack() as stack:
        if has_function(convert_frame, "_fullgraph_capture_frame"):
            stack.enter_context(observed(convert_frame, "_fullgraph_capture_frame", captured))
        with suppress(ImportError):  # before torch 2.9
            stack.enter_context(observed(importlib.import_module("torch._dynamo.aot_compile"), "aot_compile_fullgraph", ahead))
        yield
