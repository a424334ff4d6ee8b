"""Copy an ONNX graph: its text in ONNX's own syntax, large constants left out of it, and its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from explorer.stages.onnxrt.graph import OnnxGraphText
from explorer.stages.onnxrt.origins import OnnxNode

#: The most elements of a constant that are written out.
LARGE = 16
#: Where the exporter writes the FX node that a node is of: "%relu : [num_users=1] = call_function[…".
_FX_NODE = "pkg.torch.onnx.fx_node"


def graph_facts(model: Any) -> OnnxGraphText:
    """The text and the nodes of an ONNX ModelProto, which is left as it is."""
    graph = model.graph
    constants = [initializer.name for initializer in graph.initializer]
    return OnnxGraphText(text=text_of(model), nodes=tuple(_nodes(graph)), constants=tuple(constants))


def text_of(model: Any) -> str:
    """The model in ONNX's syntax, each value's type on a line of its own, of large constants the number of their elements."""
    import onnx

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    for tensor in _tensors(shown.graph):
        _leave_out(tensor)
    before, brace, after = str(onnx.printer.to_text(shown)).partition("\n{\n")
    *head, values = before.split("\n") if before.endswith(">") and "\n   <" in before else (before, "")
    return "\n".join([*head, *_one_a_line(values)] if values else head) + brace + after


def _one_a_line(values: str) -> Iterator[str]:
    """The types of the values, one a line; the commas inside a shape or a constant divide nothing."""
    depth, begun = 0, 0
    for place, letter in enumerate(values):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            yield values[begun : place + 1] if not begun else f"    {values[begun : place + 1]}"
            begun = place + 2
    yield f"    {values[begun:]}" if begun else values


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield the constants of a graph, and of the graphs inside its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _tensors(inner)


def _leave_out(tensor: Any) -> None:
    """Take the elements out of a large constant, and say how many there are."""
    import onnx

    count = 1
    for size in tensor.dims:
        count *= size
    if count > LARGE:
        dims, kind, name = list(tensor.dims), tensor.data_type, tensor.name
        tensor.Clear()
        tensor.dims.extend(dims)
        tensor.data_type, tensor.name, tensor.data_location = kind, name, onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="left out", value=f"{count:,} elements")


def _nodes(graph: Any) -> Iterator[OnnxNode]:
    """The inputs of a graph and its nodes, in their order."""
    made_by: dict[str, str] = {}
    for value in graph.input:
        made_by[value.name] = value.name
        yield OnnxNode(name=value.name, op="placeholder", target="", inputs=(), reads=(), writes=(value.name,))
    taken: set[str] = set(made_by)
    for number, node in enumerate(graph.node):
        name = _unused(node, number, taken)
        taken.add(name)
        made_by |= dict.fromkeys(node.output, name)
        reads = tuple(dict.fromkeys(_reads(node)))
        yield OnnxNode(
            name=name,
            op="node",
            target=operator(node.domain, node.op_type),
            inputs=tuple(dict.fromkeys(made_by[value] for value in reads if value in made_by)),
            reads=reads,
            writes=tuple(value for value in node.output if value),
            fx_node=next((m[1] for p in node.metadata_props if p.key == _FX_NODE and (m := re.match(r"%(\S+)", p.value))), None),
        )


def _unused(node: Any, number: int, taken: Iterable[str]) -> str:
    """Return a name that is not taken yet: the node's name, or the name of a value that the node computes."""
    names = (node.name, *node.output, f"node {number}")
    return next((name for name in names if name and name not in taken), f"node {number}")


def _reads(node: Any) -> Iterator[str]:
    """The values that a node reads, also inside the graphs that it holds."""
    yield from (value for value in node.input if value)
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from (value for each in inner.node for value in _reads(each))


def operator(domain: str, name: str) -> str:
    """An operator as the texts write it: behind its domain, but for ONNX's own, which has the empty name."""
    return f"{domain}.{name}" if domain else name
