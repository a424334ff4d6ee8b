"""The operators that a node computes as a whole, by a library or a template: their operations, dtypes and sizes.

Operations are those of matrix products, convolutions and attention. `torch.utils.flop_counter` has formulas for them, also
those that the user registered there; where it has none, the formulas below count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import getitem
from typing import Any, TypedDict

from explorer.capture.observe.scheduler_nodes import hint, inputs, is_loops, is_result, written_names
from explorer.capture.observe.views import is_view
from explorer.model.records import changed
from explorer.model.shared import OperatorCall, TensorLayout

#: The namespace of torch's collectives.
COLLECTIVES = "_c10d_functional."


def operator_call(part: Any) -> OperatorCall | None:
    """The operator that a library call or a template computes: its name, operations, dtype and sizes; None for loops."""
    inner = part.node
    if inner is None or is_result(part) or getattr(part, "_body", None) is not None:
        return None
    node = _origin(inner)
    call = OperatorCall(operator="", operations=None, template=is_loops(part), buffer=next(written_names(part), ""))
    if node is None:
        return changed(call, results=_output_layouts(inner))
    called, arguments = str(getattr(node.target, "overloadpacket", node.target)), _bound(node)
    count = _operations(node, called, arguments)
    dtype = _dtype(arguments)
    strides = [tuple(map(hint, tensor.get_stride())) for tensor in inputs(inner) if hasattr(tensor, "get_stride")]
    return changed(
        call,
        operator=called,
        operations=None if count is None else count * _numbers_each(dtype),
        node=node.name,
        dtype=dtype,
        tf32=tf32(called),
        strides=tuple(strides[:2]),
        results=_result_layouts(node),
        view=is_view(node) or None,
        **_product(called, arguments, count),
    )


def is_view_call(part: Any) -> bool:
    """Whether a scheduler node calls an operator that only gives a view of its argument, as `aten.view_as_real` does."""
    if part.node is None or is_result(part) or getattr(part, "_body", None) is not None:
        return False
    node = _origin(part.node)
    return node is not None and is_view(node)


def _dtype(arguments: Mapping[str, Any]) -> str:
    """Return the dtype of the first matrix among an operator's arguments, "" if there is none."""
    first = next((a for a in arguments.values() if getattr(a, "ndim", 0) >= 2), None)
    return str(getattr(first, "dtype", ""))[6:]


def _numbers_each(dtype: str) -> int:
    """How many products of real numbers the product of two elements is."""
    if dtype == "float4_e2m1fn_x2":  # two numbers an element along the inner size
        return 2
    return 4 if dtype.startswith("complex") else 1


def _result_layouts(node: Any) -> tuple[TensorLayout, ...]:
    """Size, stride and dtype of each value that an operator returns, and whether it is a view; an empty one for no tensor."""
    value = node.meta.get("val")
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    aliases = [stated.alias_info is not None for stated in returns]
    aliases += [False] * (len(values) - len(aliases))
    return tuple(_layout(one, alias) for one, alias in zip(values, aliases, strict=False))


def _output_layouts(inner: Any) -> tuple[TensorLayout, ...] | None:
    """Size, stride and dtype of each output of a call that no FX node stands for, as `aten.sort.stable` for `aten.sort`."""
    outputs = getattr(inner, "outputs", None)
    if not isinstance(outputs, (list, tuple)):
        return None
    returns = getattr(getattr(inner.op_overload, "_schema", None), "returns", ())
    aliases = [stated.alias_info is not None for stated in returns]
    return tuple(_buffer_layout(one, alias) for one, alias in zip(outputs, aliases, strict=False)) or None


def _buffer_layout(buffer: Any, alias: bool) -> TensorLayout:
    if not hasattr(buffer, "get_stride"):
        return TensorLayout()
    size, stride = (tuple(map(str, numbers)) for numbers in (buffer.get_size(), buffer.get_stride()))
    return TensorLayout(size=size, stride=stride, dtype=str(buffer.get_dtype()), alias=alias)


def _layout(tensor: Any, alias: bool) -> TensorLayout:
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "stride"):
        return TensorLayout()
    size, stride = (tuple(map(str, numbers)) for numbers in (tensor.shape, tensor.stride()))
    return TensorLayout(size=size, stride=stride, dtype=str(tensor.dtype), alias=alias)


def _origin(inner: Any) -> Any:
    """The FX node that a call computes: the one that Inductor states, or else the origin with the operator that is called."""
    stated = inner.get_origin_node()
    called = str(getattr(inner, "op_overload", None))
    if stated is not None and not (_is_of_collectives(stated.target) and not called.startswith(COLLECTIVES)):
        return stated.args[0] if stated.target is getitem else stated
    origins = sorted(inner.get_origins())  # the node itself comes after those that its arguments are of
    same = [node for node in origins if str(node.target) == called] or [node for node in origins if _is_counted(node)]
    return same[-1] if same else None


def _is_of_collectives(target: Any) -> bool:
    """Whether an operator is a collective or its wait: one in place becomes the stated origin of the tensors it changes."""
    return str(target).startswith(COLLECTIVES)


def _is_counted(node: Any) -> bool:
    """Whether a formula says how many operations an FX node is."""
    from torch.utils.flop_counter import flop_registry

    packet = getattr(node.target, "overloadpacket", node.target)
    return packet in flop_registry or str(packet) in OWN


def tf32(operator: str) -> bool:
    """Whether float32 products of an operator may run in TF32 as torch is set now: cuDNN's convolutions have their own switch."""
    import torch

    setting = torch.backends.cudnn if "conv" in operator else torch.backends.cuda.matmul
    try:
        return bool(setting.allow_tf32)
    except RuntimeError:  # set by fp32_precision, which the older switch then refuses to read
        inner = torch.backends.cudnn.conv if "conv" in operator else setting
        return str(inner.fp32_precision) == "tf32"


def _bound(node: Any) -> dict[str, Any]:
    """The arguments of an FX node by the names of the operator's schema, tensors as they are in the traced call's shapes."""
    from torch.utils._pytree import tree_map

    def value(one: Any) -> Any:
        return one.meta.get("val") if hasattr(one, "meta") else one

    schema = getattr(node.target, "_schema", None)
    given = [tree_map(value, one) for one in node.args]
    if schema is None:
        return {**{str(n): one for n, one in enumerate(given)}, **tree_map(value, dict(node.kwargs))}
    bound = {a.name: a.default_value if a.has_default_value() else None for a in schema.arguments}
    return {**bound, **dict(zip(bound, given, strict=False)), **tree_map(value, dict(node.kwargs))}


def _operations(node: Any, operator: str, arguments: dict[str, Any]) -> int | None:
    """Count the multiplications and additions of an operator; None where no formula says how many they are."""
    from torch.utils._pytree import tree_map
    from torch.utils.flop_counter import flop_registry

    if operator == "aten.convolution_backward":
        return _convolution_backward(arguments)
    if operator == "aten.linear_backward":
        return _linear_backward(arguments)
    if operator in OWN:
        return OWN[operator](*(_shape(a) for a in arguments.values() if hasattr(a, "shape")))
    formula = flop_registry.get(getattr(node.target, "overloadpacket", node.target))
    if formula is None:
        return None
    args, kwargs = tree_map(lambda n: n.meta.get("val") if hasattr(n, "meta") else n, (node.args, dict(node.kwargs)))
    try:
        count = _integer(formula(*args, **kwargs, out_val=node.meta.get("val")))
    except AssertionError:  # shapes that a formula does not know, as torch 2.11's of attention with fewer heads of keys
        return None
    return round(count * _causal(arguments)) if count is not None and "attention" in operator else count


def _integer(count: Any) -> int | None:
    """A count as a number, a symbolic one as it is in the traced call."""
    if not hasattr(count, "node"):
        return int(count)
    return hint(count.node.expr) or None


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else hint(size.node.expr) for size in tensor.shape)


def _causal(arguments: dict[str, Any]) -> float:
    """The share of the scores that a causal mask leaves: kernels skip the tiles above the diagonal."""
    query, key = arguments.get("query"), arguments.get("key")
    if not arguments.get("is_causal") or query is None or key is None:
        return 1.0
    rows, columns = _shape(query)[-2], _shape(key)[-2]
    kept = sum(min(row + 1, columns) for row in range(rows))
    return kept / max(1, rows * columns)


def _convolution_backward(arguments: dict[str, Any]) -> int:
    """Count the operations of a convolution's gradients. Those of the input and of the weight take as many as the convolution.

    The flop counter's own formula counts the weight's gradient as if there were no groups.
    """
    grad, x, weight = (_shape(arguments[name]) for name in ("grad_output", "input", "weight"))
    places = x if arguments["transposed"] else grad
    forward = 2 * math.prod((x[0], *places[2:], *weight))
    return forward * sum(map(bool, arguments["output_mask"][:2]))


def _linear_backward(arguments: dict[str, Any]) -> int:
    """Count the operations of a linear layer's gradients: a product for the input's, one for the weight's."""
    grad, weight = _shape(arguments["grad_output"]), _shape(arguments["weight"])
    of_input, of_weight, _ = arguments["output_mask"]
    return 2 * math.prod(grad[:-1]) * math.prod(weight) * sum(map(bool, (of_input, of_weight)))


def _int_mm(left: Sequence[int], right: Sequence[int], *others: Sequence[int]) -> int:
    return 2 * left[-2] * left[-1] * right[-1]


def _grouped_mm(left: Sequence[int], right: Sequence[int], *others: Sequence[int]) -> int:
    """Count the operations of a grouped product. Two sides of three dimensions are a batch; a side of two is shared by groups."""
    batch = left[0] if len(left) == len(right) == 3 else 1
    return 2 * batch * left[-2] * left[-1] * right[-1]


def _attention(query: Sequence[int], key: Sequence[int], value: Sequence[int], *others: Sequence[int]) -> int:
    """Count the operations of attention's two products, all scores computed: MPS masks them afterwards."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


#: Operators that the flop counter has no formula for, each from the shapes of its tensors.
OWN: Mapping[str, Callable[..., int]] = {
    "aten._int_mm": _int_mm,
    "aten._grouped_mm": _grouped_mm,
    "aten._scaled_grouped_mm": _grouped_mm,
    "aten._scaled_grouped_mm_v2": _grouped_mm,
    "aten._scaled_mm_v2": _int_mm,
    "aten._weight_int8pack_mm": _int_mm,
    "aten._scaled_dot_product_attention_math_for_mps": _attention,
}


class _Product(TypedDict, total=False):
    """The fields that say which matrix product is behind an operator; see `OperatorCall`."""

    sizes: tuple[int, ...]
    groups: int
    channels: int
    transposed: bool


def _product(operator: str, arguments: dict[str, Any], count: int | None) -> _Product:
    """Batch, rows, columns and inner size of the matrix products that an operator is computed as; {} for the rest."""
    matrices = [shape for a in arguments.values() if hasattr(a, "shape") and len(shape := _shape(a)) >= 2]
    if operator.endswith(("mm", "mm_v2")) and len(matrices) >= 2:
        added = operator.rpartition(".")[2] in ("addmm", "baddbmm") and len(matrices) > 2
        left, right = matrices[1:3] if added else matrices[:2]
        return {"sizes": (math.prod(left[:-2]), left[-2], right[-1], left[-1])}
    if "conv" in operator and "weight" in arguments and count:
        weight, groups = _shape(arguments["weight"]), int(arguments.get("groups") or 1)
        passes = sum(map(bool, arguments.get("output_mask", (True,))[:2]))
        rows = count // max(1, 2 * passes * math.prod(weight))
        sizes = groups, rows, weight[0] // groups, math.prod(weight[1:])
        return {"sizes": sizes, "groups": groups, "channels": weight[1], "transposed": bool(arguments.get("transposed"))}
    query, key = (arguments.get(name, arguments.get(place)) for name, place in (("query", "0"), ("key", "1")))
    if "attention" in operator and hasattr(query, "shape") and hasattr(key, "shape"):
        query, key = _shape(query), _shape(key)
        return {"sizes": (math.prod(query[:-2]), query[-2], key[-2], query[-1])}
    return {}
