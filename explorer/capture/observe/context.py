"""Observe where a compile is: its frame, its graph, Inductor's round of passes, and the graph that the round is at."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from explorer.capture.observe.patch import observed
from explorer.model.stage import Emit

#: Inductor's rounds of passes: the function in compile_fx, which calls itself for the graphs inside a graph, and its section.
ROUNDS = {
    "_recursive_pre_grad_passes": "pre_grad",
    "_recursive_joint_graph_passes": "joint",
    "_recursive_post_grad_passes": "post_grad",
}
#: The path of a graph that is inside another one, but is no attribute of it.
UNKNOWN = "?"
#: The path of the joint graph of a nested_compile_region, which AOTAutograd makes for its passes alone and takes apart again.
REGION = "nested_compile_region"
#: How the path of a part of such a joint graph begins, where the passes come after it is taken apart: torch 2.11.
PART_OF_REGION = "partitioned_"


def current_compile_id() -> str:
    """The compile id under way in this thread, such as "0/1"; "" outside a compile."""
    from torch._guards import CompileContext

    return str(CompileContext.current_compile_id() or "")


def graph_of(kwargs: Mapping[str, Any]) -> str:
    """Which graph of a frame Inductor is asked for, by the arguments it is given."""
    return "backward" if kwargs.get("is_backward") else "inference" if kwargs.get("is_inference") else "forward"


@contextmanager
def context(emit: Emit) -> Iterator[None]:
    """Tell the recording which graph Inductor compiles, which round of passes it runs, and on which graph inside a graph."""
    from torch._functorch._aot_autograd import graph_compile
    from torch._inductor import compile_fx
    from torch._inductor.codecache import FxGraphCache

    rounds = _Rounds(emit)

    def compiled(self: Any, gm: Any, inputs: Any, check: Any, kwargs: Any) -> Iterator[None]:
        with emit.during(graph_of(kwargs)):
            yield

    def cached(graph: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with emit.during(graph_of(getattr(graph, "fx_kwargs", None) or {})):
            yield

    with ExitStack() as stack:
        stack.enter_context(observed(compile_fx._InProcessFxCompile, "codegen_and_compile", compiled))
        stack.enter_context(observed(FxGraphCache, "cache_hit_post_compile", cached))
        stack.enter_context(observed(graph_compile, "run_joint_graph_passes_on_hops", rounds.on_regions))
        for function, section in ROUNDS.items():
            stack.enter_context(observed(compile_fx, function, partial(rounds.on_graph, section)))
        yield


class _Rounds(threading.local):
    """The rounds of passes under way in a thread, innermost last: the graph that each is at, and the graph's path."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._under_way: list[tuple[Any, str]] = []

    def on_graph(self, section: str, gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        """A round of passes over one graph."""
        with self._at(section, gm, self._path_of(gm)):
            yield

    def on_regions(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """The rounds of passes over the graphs of nested_compile_regions."""
        with self._at(self._emit.here().section, None, REGION):
            yield

    @contextmanager
    def _at(self, section: str, gm: Any, path: str) -> Iterator[None]:
        self._under_way.append((gm, path))
        try:
            with self._emit.at(section, path):
                yield
        finally:
            self._under_way.pop()

    def _path_of(self, gm: Any) -> str:
        if not self._under_way:
            return ""
        outer, path = self._under_way[-1]
        if outer is None:
            return path
        name = next((name for name, child in outer.named_children() if child is gm), UNKNOWN)
        return f"{path}.{name}" if path else name
