"""Add the user's lines to what another compiler says of a graph that it cannot compile: it knows the graph alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from explorer.stages.fx_graph import StackPlace, places_of


def with_user_lines(said: str, nodes: Iterable[Any]) -> str:
    """Return what a compiler says, and below it the user's line of each of the FX nodes that it speaks of."""
    places = dict.fromkeys(place for node in nodes if (place := user_line(node)) is not None)
    return "\n".join((said, *(f"This is your line {p.file}:{p.line}, in {p.function}: {p.code}" for p in places)))


def user_line(node: Any) -> StackPlace | None:
    """Return the innermost place outside of torch on the stack of an FX node; None where the node has no such place."""
    import torch

    root = str(Path(torch.__file__).parent)
    outside = [place for place in places_of(node.meta.get("stack_trace") or "") if not place.file.startswith(root)]
    return outside[-1] if outside else None


__all__ = ["with_user_lines"]
