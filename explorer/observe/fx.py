"""Copy an FX graph: its readable text and one row of plain facts a node, at that instant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from explorer.model.stage import Facts
from explorer.model.values import Plain
from explorer.observe.nested import inner_graphs
from explorer.observe.places import in_package

#: The stack of a node that states none itself; "" where nothing is known.
MadeAt = Callable[[Any], str]


def graph_facts(gm: Any, made_at: MadeAt = lambda node: "") -> Facts:
    """The readable text of a GraphModule, its nodes, and the user's stacks, which nodes refer to by number.

    `inner` has the nodes of the graphs inside it, such as the branches of a cond, each with its graph's path before its own name.
    `made_at` gives the stack of a node that states none itself.
    """
    stacks: dict[str, int] = {}
    nodes = [node_row(node, stacks, made_at) for node in gm.graph.nodes]
    inner = [row for path, graph in inner_graphs(gm) for row in inner_rows(path, graph, stacks, made_at)]
    return {
        "text": readable(gm),
        "nodes": nodes,
        **({"inner": inner} if inner else {}),
        "stacks": list(stacks),
        "graph_text": printed(gm),
    }


def printed(gm: Any) -> str:
    """The graph as `print(gm.graph)` writes it, and after it each graph inside under its path."""
    inside = (f"{path}:\n{graph.graph}" for path, graph in inner_graphs(gm))
    return "\n\n".join([str(gm.graph), *inside])


def inner_rows(path: str, graph: Any, stacks: dict[str, int], made_at: MadeAt) -> list[dict[str, Plain]]:
    """The nodes of a graph inside another one, which are named `graph.node` in it."""
    rows = (node_row(node, stacks, made_at) for node in graph.graph.nodes)
    return [{**r, "name": f"{path}.{r['name']}", "inputs": [f"{path}.{name}" for name in r["inputs"]]} for r in rows]


def readable(gm: Any) -> str:
    """The graph as Python with shapes, strides, devices and the user's lines as comments."""
    return str(gm.print_readable(print_output=False, include_stride=True, include_device=True))


def node_row(node: Any, stacks: dict[str, int], made_at: MadeAt = lambda node: "") -> dict[str, Plain]:
    """One node: op, name, target, arguments, inputs, and what its meta says of shape and origin."""
    meta = node.meta
    row: dict[str, Plain] = {
        "name": node.name,
        "op": node.op,
        "target": target_name(node.target),
        "args": str(node.args),
        "kwargs": str(node.kwargs) if node.kwargs else "",
        "inputs": [n.name for n in node.all_input_nodes],
        **_tensor_facts(meta.get("val", meta.get("example_value"))),
    }
    if trace := meta.get("stack_trace") or made_at(node):
        row["stack"] = stacks.setdefault(trace, len(stacks))
    if modules := meta.get("nn_module_stack"):
        row["module"] = module_path(modules)
    if (aten := meta.get("original_aten")) is not None:
        row["original"] = str(aten)
        if row["original"] != row["target"] and node.op == "call_function":
            row["decomposition"] = decomposition_site(row["original"])
    if (number := meta.get("seq_nr")) is not None:
        row["seq_nr"] = number
    if node.op == "placeholder":
        row |= _input_facts(meta)
    if origin := meta.get("from_node"):
        row["from"] = [f"{source.name}" for source in origin]
    return row


def _input_facts(meta: Any) -> dict[str, Plain]:
    """What an input is: to Dynamo a value of the program ("L['x']"), to AOTAutograd an input of Dynamo's graph ("args[0]")."""
    argument, descriptor = meta.get("grapharg"), meta.get("desc")
    facts: dict[str, Plain] = {}
    if argument is not None and getattr(argument, "source", None) is not None:
        name = argument.source.name  # a method before torch 2.11
        facts["input"] = str(name() if callable(name) else name)
    if descriptor is not None and hasattr(descriptor, "expr"):
        facts["input"] = str(descriptor.expr())
    return facts


@lru_cache(maxsize=2048)
def decomposition_site(operator: str) -> str:
    """Where the decomposition of an ATen operator is defined, "file:line function"; "" for those inside ATen itself.

    By name, since a graph that was copied holds copies of its operators.
    """
    from torch._inductor.decomposition import select_decomp_table

    found = next((function for op, function in select_decomp_table().items() if str(op) == operator), None)
    code = getattr(inspect.unwrap(found), "__code__", None) if found is not None else None
    if code is None:
        return ""
    return f"{in_package(code.co_filename) or code.co_filename}:{code.co_firstlineno} {code.co_name}"


def _tensor_facts(value: Any) -> dict[str, Plain]:
    """Shape, stride, dtype and device of a (fake) tensor; of a tuple of them, each; nothing for the rest."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        stride = [str(s) for s in value.stride()] if value.layout.__str__() == "torch.strided" else []
        shape = [str(s) for s in value.shape]
        return {"shape": shape, "stride": stride, "dtype": str(value.dtype)[6:], "device": str(value.device)}
    if isinstance(value, (tuple, list)):
        return {"outputs": [_tensor_facts(v) for v in value]}
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
    """The innermost nn.Module path of a node, such as "h.0.attn.c_attn"."""
    path = list(stack.values())[-1][0]
    name = str(path).replace("._modules", "")
    for traced in ("L['self']", "L['fn']"):  # "fn" is a module of torch's own, which Dynamo compiles inside a wrapper
        name = name.removeprefix(f"{traced}.").removeprefix(traced)
    return name


def stacks_of(nodes: Iterable[Any]) -> dict[str, str]:
    """The user's stack of each node that has one, by name."""
    return {node.name: stack for node in nodes if (stack := node.meta.get("stack_trace"))}


def line_of(node: Any) -> str:
    """One node as a line: name = target(arguments)."""
    arguments = [str(a) for a in node.args] + [f"{k} = {v}" for k, v in node.kwargs.items()]
    kind = "" if node.op == "call_function" else f"{node.op} "
    line = f"{node.name} = {kind}{target_name(node.target)}({', '.join(arguments)})"
    return line.replace("\n", "\\n")  # an argument may be a text
