"""Observe what Dynamo does with a call: which compiled graphs ran, and how full the frame's cache was before a compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.patch import replaced

#: Dynamo's settings that end the recompiles of a frame: per object that the frame was compiled for, and in all.
LIMITS = ("recompile_limit", "accumulated_recompile_limit")


@dataclass(frozen=True)
class CompileAttempt:
    """A compile that Dynamo began: its compile id, the entries of the frame's cache before it, and the limit that ended it.

    `exceeded` is the name of the limit, "" where the compile went on.
    """

    frame: str
    entries: int
    exceeded: str


@dataclass
class CallsOfDynamo:
    """The events of one call of a compiled function: the compile ids of the graphs that ran, in order, and the compiles."""

    ran: list[str] = field(default_factory=list)
    attempts: list[CompileAttempt] = field(default_factory=list)


def recompile_limits() -> dict[str, int]:
    """The limits on recompiles that the program has set, by the names of Dynamo's settings."""
    import torch._dynamo.config

    return {name: int(getattr(torch._dynamo.config, name)) for name in LIMITS}


@contextmanager
def calls_of_dynamo(calls: CallsOfDynamo) -> Iterator[None]:
    """Note in `calls` each compile in the block, and each run of a graph that is compiled in it, also after the block.

    What a backend gives back is wrapped in a function that notes the compile id whenever it runs.
    """
    from torch._dynamo import convert_frame
    from torch._dynamo.output_graph import OutputGraph

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def call_user_compiler(self: Any, *args: Any, **kwargs: Any) -> Any:
            return _noted(original(self, *args, **kwargs), current_compile_id(), calls)

        return call_user_compiler

    def asking(original: Callable[..., Any]) -> Callable[..., Any]:
        def exceeds_recompile_limit(cache_size: Any, compile_id: Any) -> Any:
            exceeded, limit = original(cache_size, compile_id)
            entries = int(cache_size.num_cache_entries_with_same_id_matched_objs)
            calls.attempts.append(CompileAttempt(str(compile_id), entries, limit if exceeded else ""))
            return exceeded, limit

        return exceeds_recompile_limit

    with ExitStack() as stack:
        stack.enter_context(replaced(OutputGraph, "call_user_compiler", noting))
        stack.enter_context(replaced(convert_frame, "exceeds_recompile_limit", asking))
        yield


def _noted(compiled: Any, frame: str, calls: CallsOfDynamo) -> Any:
    """The same compiled graph, which notes its compile id in `calls` when it runs."""
    if not callable(compiled):
        return compiled

    @functools.wraps(compiled, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        calls.ran.append(frame)
        return compiled(*args, **kwargs)

    for name in ("_boxed_call",):
        if hasattr(compiled, name):
            setattr(run, name, getattr(compiled, name))
    return run


class SizesSeen:
    """The sizes that Dynamo has seen, from which it tells what to make dynamic: kept from one call of a probe to the next."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside the block Dynamo goes on from the sizes that it saw in the earlier blocks, and writes no profile of them."""
        from torch._dynamo import pgo

        names = ("_CODE_STATE", "_INIT_CODE_STATE")
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(replaced(pgo, name, lambda _, name=name: self._states.get(name)))  # type: ignore[misc]
            try:
                yield
            finally:
                self._states = {name: getattr(pgo, name) for name in names}


@contextmanager
def limits_kept(limits: dict[str, int]) -> Iterator[None]:
    """Inside the block Dynamo's limits on recompiles are these, whatever was set since."""
    import torch._dynamo.config

    with torch._dynamo.config.patch(limits):
        yield


def mark(tensor: Any, how: str, dimension: int) -> None:
    """Mark a dimension of a tensor for Dynamo, by its function of that name: mark_dynamic, mark_unbacked, mark_static."""
    import torch._dynamo

    getattr(torch._dynamo.decorators, how)(tensor, dimension)
