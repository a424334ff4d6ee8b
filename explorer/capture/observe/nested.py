"""Graphs inside a graph: the branches of a cond, the body of a loop, a checkpoint.

A graph inside another one is named by its path of attributes, such as "cond_true_0" or "true_graph_0.false_graph_0"; the
outermost graph has the path "".
"""

from __future__ import annotations

from typing import Any


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
