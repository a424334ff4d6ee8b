"""Classify scheduler nodes (loops, call, result), and read their inputs, outputs and sizes in the traced call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any


def is_loops(part: Any) -> bool:
    """True for what Inductor generates code for: loops and templates, whose accesses it knows."""
    return bool(type(part).__name__ == "SchedulerNode")


def is_result(part: Any) -> bool:
    """True for what moves nothing itself: one of several results of a call, and a node that runs nothing."""
    from torch._inductor import ir

    return type(part).__name__ == "NopKernelSchedulerNode" or isinstance(part.node, ir.MultiOutput)


def written_names(part: Any) -> Iterator[str]:
    """The buffers that a node makes."""
    return (buffer.get_name() for buffer in part.get_outputs())


def called_node(inner: Any) -> Any:
    """The FX node that a library call or a template computes: the one that Inductor states, else the one that was lowered.

    That is the last of the origins in the graph, as the others are its arguments'. None for a call without origins.
    """
    stated = inner.get_origin_node()
    return stated if stated is not None else max(inner.get_origins(), default=None)


def inputs(inner: Any) -> Iterator[Any]:
    """Yield the tensors that a library call takes, those in lists one by one, without constants."""
    waiting = list(getattr(inner, "inputs", ()))
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, (list, tuple)):
            waiting[:0] = one
        elif hasattr(one, "get_size") and hasattr(one, "get_name"):
            yield one


def iterations(part: Any) -> int:
    """Count the iterations of a loop body."""
    return math.prod(hint(size) for sizes in part.get_ranges() for size in sizes)


def reduction_type(part: Any) -> str:
    """Return the reduction type of a loop body, "" if the loop is no reduction."""
    inner = part.node
    return str((inner.get_reduction_type() if hasattr(inner, "get_reduction_type") else "") or "")


def hint(size: Any) -> int:
    """A size as it is in the traced call, 0 for one that only the run knows."""
    from torch._inductor.virtualized import V

    if isinstance(size, int):
        return size
    sizevars = V.graph.sizevars
    ask = getattr(sizevars, "optimization_hint", None) or sizevars.size_hint  # the latter before torch 2.12
    return int(ask(size, fallback=0))
