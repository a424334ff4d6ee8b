"""Copy an FX graph: its readable text and one row of plain facts a node, at that instant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypedDict

from explorer.capture.observe.nested import inner_graphs
from explorer.capture.observe.places import in_package, without_modules
from explorer.capture.observe.retraced import NAME, STACK, traced_stack
from explorer.model.shared import FxNode, Names, Output
from explorer.stages.fx_graph import FxGraphText

#: The stack of a node that states none itself; "" where nothing is known.
MadeAt = Callable[[Any], str]


def graph_record(gm: Any, made_at: MadeAt = lambda node: "", *, of: str | None = None) -> FxGraphText:
    """The readable text of a GraphModule, its nodes, and the user's stacks, which nodes refer to by number.

    `inner` has the nodes of the graphs inside it, such as the branches of a cond, each with its graph's path before its own name.
    `made_at` gives the stack of a node that states none itself, `of` is the path of the graph.
    """
    stacks: dict[str, int] = {}
    nodes = tuple(node_row(node, stacks, made_at) for node in gm.graph.nodes)
    inner = tuple(row for path, graph in inner_graphs(gm) for row in inner_rows(path, graph, stacks, made_at))
    return FxGraphText(text=readable(gm), nodes=nodes, inner=inner or None, stacks=tuple(stacks), graph_text=printed(gm), of=of)


def printed(gm: Any) -> str:
    """The graph as `print(gm.graph)` writes it, and after it each graph inside under its path."""
    inside = (f"{path}:\n{graph.graph}" for path, graph in inner_graphs(gm))
    return "\n\n".join([str(gm.graph), *inside])


def inner_rows(path: str, graph: Any, stacks: dict[str, int], made_at: MadeAt) -> Iterator[FxNode]:
    """Yield the nodes of a nested graph, with the path of the graph before each name: `graph.node`."""
    for node in graph.graph.nodes:
        row = node_row(node, stacks, made_at)
        yield replace(row, name=f"{path}.{row.name}", inputs=tuple(f"{path}.{name}" for name in row.inputs))


def readable(gm: Any) -> str:
    """The graph as Python with shapes, strides, devices and the user's lines as comments."""
    return str(gm.print_readable(print_output=False, include_stride=True, include_device=True))


def node_row(node: Any, stacks: dict[str, int], made_at: MadeAt = lambda node: "") -> FxNode:
    """Describe one node: op, name, target, arguments, inputs, and the shape and origin from its meta.

    `stacks` maps each stack seen so far to its number. The node's own stack is added.
    """
    meta = node.meta
    target, modules = target_name(node.target), meta.get("nn_module_stack")
    stack = without_modules(traced_stack(meta) or made_at(node))
    original = None if (aten := meta.get("original_aten")) is None else str(aten)
    decomposed = original is not None and original != target and node.op == "call_function"
    return FxNode(
        name=node.name,
        op=node.op,
        target=target,
        args=str(node.args),
        kwargs=str(node.kwargs) if node.kwargs else "",
        inputs=tuple(n.name for n in node.all_input_nodes),
        **_value_fields(meta.get("val", meta.get("example_value"))),
        stack=stacks.setdefault(stack, len(stacks)) if stack else None,
        module=module_path(modules) if modules else None,
        original=original,
        decomposition=decomposition_site(original) if original is not None and decomposed else None,
        seq_nr=meta.get("seq_nr"),
        input=input_name(meta) if node.op == "placeholder" else None,
        from_=_traced_for(meta),
    )


def _traced_for(meta: Any) -> Names | None:
    """Name the nodes of Dynamo's graph that a node was traced for; None for a gradient and for other new nodes."""
    if name := meta.get(NAME):
        return (name,)
    return None if STACK in meta or not (origin := meta.get("from_node")) else tuple(str(source.name) for source in origin)


def input_name(meta: Any) -> str | None:
    """What an input is: to Dynamo a value of the program ("L['x']"), to AOTAutograd an input of Dynamo's graph ("args[0]")."""
    argument, descriptor = meta.get("grapharg"), meta.get("desc")
    if descriptor is not None and hasattr(descriptor, "expr"):
        return str(descriptor.expr())
    if argument is not None and getattr(argument, "source", None) is not None:
        name = argument.source.name  # a method before torch 2.11
        return str(name() if callable(name) else name)
    return None


@lru_cache(maxsize=2048)
def decomposition_site(operator: str) -> str:
    """Where the decomposition of an ATen operator is defined, "file:line function"; "" for those inside ATen itself.

    By name, since a graph that was copied holds copies of its operators.
    """
    from torch._inductor.decomposition import select_decomp_table

    found = next((function for op, function in select_decomp_table().items() if _written(op) == operator), None)
    code = getattr(inspect.unwrap(found), "__code__", None) if found is not None else None
    if code is None:
        return ""
    return f"{in_package(code.co_filename) or code.co_filename}:{code.co_firstlineno} {code.co_name}"


@lru_cache(maxsize=8192)
def _written(operator: Any) -> str:
    """An operator's name, kept since each decomposition is looked for among a thousand names, which take long to write."""
    return str(operator)


class _ValueFields(TypedDict, total=False):
    """The fields that say what a node gives; see `Output`."""

    shape: Names
    stride: Names
    dtype: str
    device: str
    outputs: tuple[Output, ...]
    value: str


def _value_fields(value: Any) -> _ValueFields:
    """Shape, stride, dtype and device of a (fake) tensor; of a tuple of them, each; nothing for the rest."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        stride = tuple(str(s) for s in value.stride()) if value.layout.__str__() == "torch.strided" else ()
        shape = tuple(str(s) for s in value.shape)
        return {"shape": shape, "stride": stride, "dtype": str(value.dtype)[6:], "device": str(value.device)}
    if isinstance(value, (tuple, list)):
        return {"outputs": tuple(Output(**_value_fields(v)) for v in value)}
    return {} if value is None else {"value": str(value)}


def target_name(target: Any) -> str:
    """A node's target as people write it: "aten.add.Tensor", "torch.sin", "l_x_"."""
    if isinstance(target, str):
        return target
    if hasattr(target, "_opname") or type(target).__name__ in ("OpOverload", "OpOverloadPacket"):
        return str(target)
    from torch.fx.node import _get_qualified_name

    return str(_get_qualified_name(target))


def module_path(stack: Any) -> str:
    """The innermost nn.Module of a node as Dynamo reaches it, such as "L['self'].h.0.attn"."""
    return str(list(stack.values())[-1][0])


def stacks_of(nodes: Iterable[Any]) -> dict[str, str]:
    """The user's stack of each node that has one, by name."""
    return {node.name: stack for node in nodes if (stack := traced_stack(node.meta))}


def line_of(node: Any) -> str:
    """One node as a line: name = target(arguments)."""
    arguments = [str(a) for a in node.args] + [f"{k} = {v}" for k, v in node.kwargs.items()]
    kind = "" if node.op == "call_function" else f"{node.op} "
    line = f"{node.name} = {kind}{target_name(node.target)}({', '.join(arguments)})"
    return line.replace("\n", "\\n")  # an argument may be a text
