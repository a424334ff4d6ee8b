"""Observe Dynamo's guards, and where torch made those that come from no user line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.model.events import GuardTree
from explorer.model.rows import GuardPlace
from explorer.model.stage import Emit
from explorer.observe.patch import replaced
from explorer.observe.places import in_package
from explorer.observe.structured import listening


@contextmanager
def guards(emit: Emit) -> Iterator[None]:
    """Record Dynamo's guard tree, and where torch made the guards that come from no user line."""
    from torch._dynamo.guards import CheckFunctionManager

    made_at: list[GuardPlace] = []

    def make(original: Any) -> Any:
        def __init__(self: Any, code: Any, output_graph: Any, *args: Any, **kwargs: Any) -> None:
            made_at.clear()
            emit.attempt("guards", "origins", lambda: made_at.extend(_guards_of_torch(output_graph.guards)))
            original(self, code, output_graph, *args, **kwargs)

        return __init__

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit("guards", lambda: GuardTree(text=payload, made_at=tuple(made_at)))

    with replaced(CheckFunctionManager, "__init__", make), listening(emit, {"dynamo_cpp_guards_str": heard}):
        yield


def _guards_of_torch(made: Any) -> Iterator[GuardPlace]:
    """Kind, source and place in torch of each guard that comes from no user line."""
    for guard in made:
        summary = guard.stack.summary() if guard.stack is not None and not guard.user_stack else ()
        if summary:
            last = summary[-1]
            place = f"{in_package(last.filename).removeprefix('torch/') or last.filename}:{last.lineno} in {last.name}"
            yield GuardPlace(kind=guard.create_fn_name(), source=str(guard.name), place=place)
