"""Name what a launch computes: a product by its sizes, a kernel by its operators in the program's order. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.findings.rules import listed
from explorer.analysis.questions.fusion import REDUCES
from explorer.analysis.questions.operator_places import COPIES, PRODUCTS, SUMS_OF_SOFTMAX, operator_name
from explorer.model.shared import OperatorCall
from explorer.stages.fx_graph import VIEWS

#: Operations of a loop that move values, or make none of them.
MOVES = re.compile(r"^(get_index|load|store|store_reduction|constant|to_dtype)(_\d+)?$")

#: Letters of a title that a list has room for.
MAX_LETTERS = 24


def title(call: TracedCall, launch: Launch) -> str:
    """Name a launch: "mm 512 × 96 × 32 float32", "add, gelu", "copy"; the call's name where nothing says more.

    What a kernel reduces comes first in a long title, whose end is cut: "softmax, div, masked_fill".
    """
    products = dict.fromkeys(map(_product, launch.row["calls"] or ()))
    computed = _computed(launch) if launch.row["kernels"] else []
    if launch.row["kernels"] and not computed and not products:
        computed = _named(call, launch)
    inside = {product.partition(" ")[0] for product in products}
    names = [name for name in computed if name not in inside]
    if len(", ".join(names)) > MAX_LETTERS:
        reduced = _reduced(launch)
        names.sort(key=lambda name: name not in reduced)
    return listed([*products, *names]) or launch.name


def _product(call: OperatorCall) -> str:
    """Name an operator that a library or a template computes, with its product's sizes, "?" where only the run knows one."""
    dtype = f" {call.dtype}" if call.dtype else ""
    if call.sizes:
        sizes = call.sizes if call.sizes[0] > 1 else call.sizes[1:]  # without a batch of one
        return f"{short(call.operator)} {' × '.join(str(size or '?') for size in sizes)}{dtype}"
    return f"{short(call.operator)}{dtype}"


def _computed(launch: Launch) -> list[str]:
    """The operators of the program that a kernel's loops compute, in their order; none where the loops were not recorded.

    A product that a library computes is in the loops with its bias alone. Loops that load and store alone are a copy, and those
    that store alone a fill.
    """
    nodes = _nodes(launch)
    operations = list(launch.graph.operations(launch.row))
    of = [name for operation, names in operations if not MOVES.match(operation) for name in names.split()[:1] if name in nodes]
    # what a pass put in has no stack, as the steps of a softmax whose scale it moved: the program has no such operators
    own = [name for name in of if nodes[name].get("stack") is not None or _operator(nodes[name]) in PRODUCTS]
    works = _works([nodes[name] for name in own]) or _works([nodes[name] for name in of])
    if works or not operations:
        return works
    if not any(operation.startswith("load") for operation, _ in operations):
        return ["fill"]
    stored = {short(str(nodes[name].get("target"))) for _, names in operations for name in names.split() if name in nodes}
    return ["copy for a convolution" if "convolution" in stored else "copy"]


def _reduced(launch: Launch) -> list[str]:
    """The operators that a kernel's loops reduce by, such as a softmax or a mean."""
    nodes = _nodes(launch)
    operations = launch.graph.operations(launch.row)
    of = [name for operation, names in operations if REDUCES.match(operation) for name in names.split()[:1]]
    return _works([nodes[name] for name in of if name in nodes])


def _nodes(launch: Launch) -> dict[str, Mapping[str, Any]]:
    """The FX nodes of a launch's graph, by the names that its loops have for them."""
    prefix = f"{launch.graph.of}." if launch.graph.of else ""  # loops of a graph inside another name its path before each node
    return {f"{prefix}{node['name']}": node for node in launch.graph.graph_nodes}


def _works(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """The operators of some nodes, without copies."""
    named = dict.fromkeys("bias" if name in PRODUCTS else name for name in map(_operator, nodes))
    if any(name.endswith("softmax") for name in named):
        named.pop(SUMS_OF_SOFTMAX, None)
    return ["softmax" if name == SUMS_OF_SOFTMAX else name for name in named if name not in COPIES]


def _operator(node: Mapping[str, Any]) -> str:
    return short(str(node.get("original") or node.get("target")))


def _named(call: TracedCall, launch: Launch) -> list[str]:
    """The operators that Inductor names for a launch's kernels, without views."""
    named = [name for kernel in call.kernels_of(launch) for name in kernel.operators]
    named = named or [str(node.get("target", "")) for node in call.nodes_of(launch)]
    return list(dict.fromkeys(short(name) for name in named if not VIEWS.match(f"{name}."))) or (["copy"] if named else [])


def short(operator: str) -> str:
    """An operator without its library, overload and leading underscores: "softmax" of "aten._softmax.default"."""
    return (operator_name(operator) or operator).strip("_")
