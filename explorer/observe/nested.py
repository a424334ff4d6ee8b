"""Graphs inside a graph: the branches of a cond, the body of a loop, a checkpoint, and where among them Inductor is.

A graph inside another one is named by its path of attributes, such as "cond_true_0" or "true_graph_0.false_graph_0"; the
outermost graph has the path "".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.observe.patch import replaced

#: Inductor's rounds of passes in compile_fx; each goes through the graphs inside a graph by calling itself.
ROUNDS = ("_recursive_pre_grad_passes", "_recursive_joint_graph_passes", "_recursive_post_grad_passes")
#: The path of a graph that is inside another one, but is no attribute of it.
UNKNOWN = "?"
#: The path of the joint graph of a nested_compile_region, which AOTAutograd makes for its passes alone and takes apart again.
REGION = "nested_compile_region"


def inner_graphs(gm: Any) -> list[tuple[str, Any]]:
    """The graphs inside a GraphModule with their paths, outer ones before those inside them."""
    from torch.fx import GraphModule

    found: list[tuple[str, Any]] = []
    for name, child in gm.named_children():
        if isinstance(child, GraphModule):
            found += [(name, child), *((f"{name}.{path}", graph) for path, graph in inner_graphs(child))]
    return found


def lowered_path(graph: Any) -> str:
    """The path of a graph that Inductor lowers to its IR, which Inductor names by the attributes joined by "_"."""
    parent = getattr(graph, "parent", None)
    name = str(getattr(graph, "name", None) or "")
    if parent is None or not name:
        return ""
    above = str(getattr(parent, "name", None) or "")
    return ".".join(filter(None, (lowered_path(parent), name.removeprefix(f"{above}_") if above else name)))


class Nesting:
    """Which graph a round of passes is at."""

    def __init__(self) -> None:
        self._under_way: list[tuple[Any, str]] = []

    @property
    def path(self) -> str:
        """The path of the graph under way, "" for the outermost one and outside of every round."""
        return self._under_way[-1][1] if self._under_way else ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow the rounds of passes into the graphs inside a graph."""
        from torch._functorch._aot_autograd import graph_compile
        from torch._inductor import compile_fx

        def make(original: Any) -> Any:
            def run(gm: Any, *args: Any, **kwargs: Any) -> Any:
                self._under_way.append((gm, self._path_of(gm)))
                try:
                    return original(gm, *args, **kwargs)
                finally:
                    self._under_way.pop()

            return run

        def make_regions(original: Any) -> Any:
            def run_joint_graph_passes_on_hops(joint: Any, *args: Any, **kwargs: Any) -> Any:
                self._under_way.append((None, REGION))
                try:
                    return original(joint, *args, **kwargs)
                finally:
                    self._under_way.pop()

            return run_joint_graph_passes_on_hops

        with ExitStack() as stack:
            for function in ROUNDS:
                stack.enter_context(replaced(compile_fx, function, make))
            stack.enter_context(replaced(graph_compile, "run_joint_graph_passes_on_hops", make_regions))
            yield

    def _path_of(self, gm: Any) -> str:
        if not self._under_way:
            return ""
        outer, path = self._under_way[-1]
        if outer is None:
            return path
        name = next((name for name, child in outer.named_children() if child is gm), UNKNOWN)
        return f"{path}.{name}" if path else name
