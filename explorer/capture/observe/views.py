"""Name the view operators behind the index of a load. A view computes nothing: it only changes how its readers load.

lowering:  a view's IR remembers the FX node under way, and the views that this one is a view of  (`remember_view`)
tracing:   a load is made while the views that are between it and its consumer are under way       (`viewed`)
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.nested import lowered_path
from explorer.capture.observe.patch import followed, replaced
from explorer.capture.observe.subclasses import subclasses
from explorer.model.stage import Emit

#: Under this name a view of Inductor's IR has the FX nodes that it is for.
NODES = "explorer_view_nodes"


class Views(threading.local):
    """The views under way, innermost last."""

    def __init__(self) -> None:
        self.nodes: tuple[str, ...] = ()


@contextmanager
def views(emit: Emit, state: Views) -> Iterator[None]:
    """Inside the block each view of Inductor's IR remembers its FX nodes, and counts as under way while its data is loaded."""
    from torch._inductor import ir

    def made(_: None, node: Any) -> None:
        if isinstance(node, ir.BaseView):
            remember_view(node)

    def make_loader(original: Callable[..., Any]) -> Callable[..., Any]:
        def loader(self: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(self, *args, **kwargs)
            nodes = vars(self).get(NODES)
            return viewed(made, nodes, state) if nodes else made

        return loader

    with ExitStack() as stack:
        stack.enter_context(followed(ir.IRNode, "__post_init__", made))
        for kind in (ir.BaseView, *subclasses(ir.BaseView)):
            if "make_loader" in vars(kind):
                stack.enter_context(replaced(kind, "make_loader", make_loader))
        yield


def viewed(loader: Callable[..., Any], nodes: tuple[str, ...], state: Views) -> Callable[..., Any]:
    """Wrap a loader so that the FX nodes of these views are in `state.nodes` while it runs."""

    def load(*args: Any, **kwargs: Any) -> Any:
        outer, state.nodes = state.nodes, (*state.nodes, *nodes)
        try:
            return loader(*args, **kwargs)
        finally:
            state.nodes = outer

    return load


def remember_view(view: Any) -> None:
    """Give a view of the IR the names of the view operators that are lowered to it: the one under way, and those before it.

    Inductor makes one layout of a view of a view, so only the FX graph knows the views before.
    """
    from torch._inductor.virtualized import V

    node, names = getattr(V.graph, "current_node", None), list[str]()
    while node is not None and is_view(node):
        names.append(node.name)
        node = next(iter(node.all_input_nodes), None)
    if names:
        inside = lowered_path(V.graph)
        object.__setattr__(view, NODES, tuple(f"{inside}.{name}" if inside else str(name) for name in names))


def is_view(node: Any) -> bool:
    """Whether an FX node gives a view of its first argument, by the operator's own schema; one of several such results too."""
    if node.op == "call_function" and node.target is operator.getitem:
        return is_view(node.args[0]) if node.args and hasattr(node.args[0], "op") else False
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return any(value.alias_info is not None and not value.alias_info.is_write for value in returns)
