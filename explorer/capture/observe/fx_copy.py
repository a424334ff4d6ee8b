"""Copy an FX graph as it is now, so that torch can write its text when the recording is read.

A copy has the name, target and arguments of each node, and of its meta what a text shows: of a fake tensor its shape, strides,
dtype and device. It holds no tensor, no module, no node and no symbolic size, so nothing that goes on in the compile changes it.
A graph with anything else in it is no `GraphCopy`: its text is written at once.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, NamedTuple

from explorer.capture.observe.fx import MadeAt, graph_record, input_name
from explorer.capture.observe.retraced import traced_stack
from explorer.model.stage import Unmade
from explorer.stages.fx_graph import FxGraphText


class NotCopied(Exception):
    """A graph holds a value whose copy torch might print differently."""


@dataclass(eq=False, slots=True)
class NodeCopy:
    """One node; in arguments a copy stands for its node. `stack` is given for a node that states none itself."""

    name: str
    op: str
    target: Any
    args: Any
    kwargs: Any
    type: Any
    meta: dict[str, Any]
    stack: str


@dataclass(frozen=True, slots=True)
class GraphCopy:
    """A GraphModule as its text shows it: the name of its class, its nodes, and the graphs inside it by their names."""

    name: str
    nodes: tuple[NodeCopy, ...]
    inner: tuple[tuple[str, GraphCopy], ...]
    codegen: Any  # torch's, which writes the first line and the last

    @classmethod
    def of(cls, gm: Any, made_at: MadeAt = lambda node: "") -> GraphCopy:
        """Copy a GraphModule; NotCopied where something in it cannot be."""
        from torch.fx import GraphModule

        kinds = _kinds()
        codegen = gm.graph._codegen
        plain = type(codegen) in kinds.codegens and codegen._body_transformer is None
        if not plain or type(gm).print_readable is not GraphModule.print_readable or os.environ.get("FX_GRAPH_SHOW_META") == "1":
            raise NotCopied
        copies: dict[Any, NodeCopy] = {}
        for node in gm.graph.nodes:
            copies[node] = _node(node, copies, kinds, made_at)
        children = ((name, child) for name, child in gm.named_children() if isinstance(child, GraphModule))
        inner = tuple((name, cls.of(child, made_at)) for name, child in children)
        return cls(gm._get_name(), tuple(copies.values()), inner, copy(codegen))

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks of the graph's nodes, each once, then the stacks of nested graphs."""
        own = (stack for node in self.nodes if (stack := traced_stack(node.meta) or node.stack))
        return tuple(dict.fromkeys([*own, *(stack for _, graph in self.inner for stack in graph.stacks)]))

    def written(self, of: str | None = None) -> FxGraphText:
        """`graph_record` of the graph that was copied."""
        stacks: dict[Any, str] = {}
        return graph_record(_module(self, stacks), lambda node: stacks.get(node, ""), of=of)


def copied(gm: Any, made_at: MadeAt = lambda node: "") -> GraphCopy | None:
    """The copy of a GraphModule, None where there can be none."""
    try:
        return GraphCopy.of(gm, made_at)
    except NotCopied:
        return None


def graph_facts(gm: Any, *, of: str | None = None) -> FxGraphText | Unmade:
    """What `graph_record` gives, or the function that gives it of a copy."""
    found = copied(gm)
    return graph_record(gm, of=of) if found is None else partial(found.written, of)


# Copying ----------------------------------------------------------------------------------------------------------------


class _Kinds(NamedTuple):
    """The types of torch's that decide how something is copied."""

    node: type
    tensors: tuple[type, ...]
    symbols: tuple[type, ...]
    plain: frozenset[type]  # values that are copied as they are
    targets: tuple[type, ...]
    codegens: tuple[type, ...]


@cache
def _kinds() -> _Kinds:
    import torch
    from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
    from torch._subclasses import FakeTensor
    from torch.fx import Node
    from torch.fx import graph as fx_graph

    plain = (int, float, str, bool, complex, type(None), type(...), torch.dtype, torch.device, torch.layout, torch.memory_format)
    return _Kinds(
        node=Node,
        tensors=(FakeTensor, torch.Tensor),
        symbols=(torch.SymInt, torch.SymFloat, torch.SymBool),
        plain=frozenset((*plain, OpOverload)),
        targets=(OpOverload, OpOverloadPacket, HigherOrderOperator, types.BuiltinFunctionType, type),
        codegens=(fx_graph.CodeGen, fx_graph._PyTreeCodeGen, getattr(fx_graph, "_BoxedCodeGen", fx_graph.CodeGen)),
    )


def _node(node: Any, copies: Mapping[Any, NodeCopy], kinds: _Kinds, made_at: MadeAt) -> NodeCopy:
    meta = node.meta
    args, kwargs = _argument(node.args, copies, kinds), _argument(node.kwargs, copies, kinds) if node.kwargs else {}
    if node.type is not None and not isinstance(node.type, type):
        raise NotCopied
    kept = _meta(node, meta, kinds)
    stack = "" if traced_stack(kept) else made_at(node)
    return NodeCopy(node.name, node.op, _target(node.target, kinds), args, kwargs, node.type, kept, stack)


def _target(target: Any, kinds: _Kinds) -> Any:
    """A target as it is: a name, or a function that holds nothing of the program's."""
    if type(target) is str or isinstance(target, kinds.targets):
        return target
    if isinstance(target, types.FunctionType) and target.__closure__ is None:
        return target
    raise NotCopied


def _argument(value: Any, copies: Mapping[Any, NodeCopy], kinds: _Kinds) -> Any:
    """An argument, with copies in the place of nodes."""
    kind = type(value)
    if kind is kinds.node:
        if value not in copies:
            raise NotCopied
        return copies[value]
    if kind in kinds.plain:
        return value
    if kind is tuple:
        return tuple([_argument(part, copies, kinds) for part in value])
    if isinstance(value, list):
        return [_argument(part, copies, kinds) for part in value]
    if isinstance(value, dict):
        return {_argument(key, copies, kinds): _argument(part, copies, kinds) for key, part in value.items()}
    if kind is slice:
        return slice(*(_argument(part, copies, kinds) for part in (value.start, value.stop, value.step)))
    raise NotCopied


#: What of a node's meta is kept as it is, whatever it is called: a later torch's printer may read it.
_PLAIN_META = (str, bool, int)


def _meta(node: Any, meta: Any, kinds: _Kinds) -> dict[str, Any]:
    """What the texts and rows of a graph show of a node's meta."""
    if meta.get("custom"):
        raise NotCopied
    kept = {key: value for key, value in meta.items() if type(value) in _PLAIN_META}
    if "val" in meta:
        kept["val"] = _value(meta["val"], kinds)
    elif meta.get("tensor_meta") is not None:
        raise NotCopied
    elif "example_value" in meta:
        kept["example_value"] = _value(meta["example_value"], kinds)
    if modules := meta.get("nn_module_stack"):
        kept["nn_module_stack"] = {"": (str(next(reversed(modules.values()))[0]),)}
    if (operator := meta.get("original_aten")) is not None:
        kept["original_aten"] = _target(operator, kinds)
    if origin := meta.get("from_node"):
        kept["from_node"] = tuple([_Named(str(source.name)) for source in origin])
    if node.op == "placeholder" and (name := input_name(meta)) is not None:
        kept["desc"] = _Named(name)
    if meta.get("recompute") is not None:
        kept["recompute"] = _enumerated(meta["recompute"])
    if meta.get("ac_graph_id") is not None:
        kept["ac_graph_id"] = str(meta["ac_graph_id"])
    return kept


class _Named(NamedTuple):
    """What has a name, which for the input of a graph is an expression."""

    name: str

    def expr(self) -> str:
        """The expression, as AOTAutograd's descriptors give it."""
        return self.name


def _enumerated(value: Any) -> Any:
    if not isinstance(value, Enum):
        raise NotCopied
    return value


def _value(value: Any, kinds: _Kinds) -> Any:
    """What a node gives, as a text shows it."""
    import torch

    kind = type(value)
    if kind in kinds.tensors:
        if value.layout is not torch.strided:
            raise NotCopied
        return TensorCopy(_sizes(value.shape), _sizes(value.stride()), value.dtype, value.device)
    if kind in (int, float, bool, str, type(None)):
        return value
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return tuple([_value(part, kinds) for part in value])
    if kind in kinds.symbols:
        return SymbolCopy(str(value), repr(value), kind)
    raise NotCopied


def _sizes(sizes: Any) -> tuple[Any, ...]:
    """Return sizes or strides, symbolic ones as text: later facts about a symbol would change what torch writes."""
    return tuple([size if type(size) is int else str(size) for size in sizes])


@dataclass(frozen=True, slots=True)
class TensorCopy:
    """What a text shows of a (fake) tensor."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any
    device: Any


@dataclass(frozen=True, slots=True)
class SymbolCopy:
    """The texts of a symbolic number."""

    text: str
    representation: str
    kind: type


# Writing ----------------------------------------------------------------------------------------------------------------


class _TensorStandIn(TensorCopy):
    """A stand-in that torch's printer takes for a fake tensor. It lives only while the text is written, so no search finds it."""

    def stride(self) -> tuple[Any, ...]:
        """The strides, as a tensor gives them."""
        return self.strides

    @property
    def layout(self) -> Any:
        """Strided: no other tensor is copied."""
        import torch

        return torch.strided

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        from torch._subclasses import FakeTensor

        kind: type = FakeTensor
        return kind


class _SymbolStandIn(SymbolCopy):
    """What torch's printer takes for a symbolic number."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.representation

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self.kind


def _module(graph_copy: GraphCopy, stacks: dict[Any, str]) -> Any:
    """A GraphModule that torch writes as it would have written the copied one; `stacks` gets the stacks of nodes without one."""
    from torch.fx import Graph, GraphModule

    graph = Graph()
    nodes: dict[NodeCopy, Any] = {}
    for each in graph_copy.nodes:
        args, kwargs = _restored(each.args, nodes), _restored(each.kwargs, nodes)
        node = graph.create_node(each.op, each.target, args, kwargs, each.name, each.type)
        node.name = each.name  # the graph itself might give another one
        node.meta = _restored(each.meta, nodes)
        nodes[each] = node
        if each.stack:
            stacks[node] = each.stack
    graph._codegen = graph_copy.codegen
    module = GraphModule({}, Graph(), graph_copy.name)
    module._graph = graph  # by the property, torch would generate and compile the code
    for name, inner in graph_copy.inner:
        module.add_module(name, _module(inner, stacks))
    return module


def _restored(value: Any, nodes: Mapping[NodeCopy, Any]) -> Any:
    """An argument or a meta with nodes, tensors and symbolic numbers in their places again."""
    kind = type(value)
    if kind is NodeCopy:
        return nodes[value]
    if kind is TensorCopy:
        return _TensorStandIn(value.shape, value.strides, value.dtype, value.device)
    if kind is SymbolCopy:
        return _SymbolStandIn(value.text, value.representation, value.kind)
    if kind in (tuple, list):
        return kind([_restored(part, nodes) for part in value])
    if kind is dict:
        return {key: _restored(part, nodes) for key, part in value.items()}
    if kind is slice:
        return slice(*(_restored(part, nodes) for part in (value.start, value.stop, value.step)))
    return value
