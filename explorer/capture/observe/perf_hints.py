"""Observe Inductor's performance hints, each with the node that it is about."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from explorer.capture.observe.cuda_graphs import logged_in_torch, origins_of
from explorer.capture.observe.patch import replaced
from explorer.model.stage import Emit
from explorer.stages.inductor.perf_hint import GivenHint


@contextmanager
def perf_hints(emit: Emit) -> Iterator[None]:
    """Record Inductor's performance hints (`TORCH_LOGS=perf_hints`), each with the node that it is about."""
    from torch._inductor import compile_fx, graph  # noqa: F401 each brings a logger of its own
    from torch._inductor.codegen import simd, triton  # noqa: F401

    said: set[tuple[Any, ...]] = set()

    def make(original: Any) -> Any:
        def info(message: str, *args: Any, **kwargs: Any) -> None:
            emit.attempt("perf_hint", "record", lambda: _hinted(emit, said, message % args if args else message))
            original(message, *args, **kwargs)

        return info

    known = list(logging.root.manager.loggerDict.items())
    logs = [log for name, log in known if name.endswith(".__perf_hints") and isinstance(log, logging.Logger)]
    with ExitStack() as stack:
        for log in logs:
            stack.enter_context(logged_in_torch(log))
            stack.enter_context(replaced(log, "info", make))
        yield


def _hinted(emit: Emit, said: set[tuple[Any, ...]], text: str) -> None:
    """Emit a hint once for its nodes: the scheduler asks about the same nodes in every round."""
    nodes = _nodes_under_way()
    names = tuple(dict.fromkeys(node.name for node in nodes))
    hint = " ".join(text.split())
    key = (*emit.place(), hint, names)
    if key not in said:
        said.add(key)
        stack = next((str(s) for node in nodes if (s := node.meta.get("stack_trace"))), "")
        emit("perf_hint", lambda: GivenHint(hint=hint, nodes=names, stack=stack))


def _nodes_under_way() -> list[Any]:
    """Return the FX nodes that Inductor works on now: the origins of the scheduler nodes it tiles, or the node it lowers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if "node_schedule" in frame.f_locals and "simd" in frame.f_code.co_filename:
            parts = [part for part in frame.f_locals["node_schedule"] if hasattr(part, "node")]
            return list(dict.fromkeys(origin for part in parts for origin in origins_of(part)))
        if frame.f_code.co_name == "run_node":
            return [node] if (node := frame.f_locals.get("n")) is not None else []
        frame = frame.f_back
    return []
