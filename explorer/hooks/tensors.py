"""The tensors in a nest of arguments: torch's own idea of a nest (pytree), and plain objects that hold tensors."""

from __future__ import annotations

import copy
import dataclasses
import types
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def named_tensors(value: Any, root: str = "") -> Iterator[tuple[str, Any]]:
    """Each tensor in a nest of tuples, lists, mappings, dataclasses and registered classes, with its path from `root`."""
    for path, leaf in _named_leaves(value, root, ()):
        if _is_tensor(leaf):
            yield path, leaf


def map_tensors(change: Callable[[Any], Any], value: Any) -> Any:
    """The same nest with each tensor changed and everything else as it is.

    A tensor or dataclass that is there twice is one afterwards too. What is changed of a dataclass is a copy of it; one
    without tensors stays itself.
    """
    return _mapped(change, value, {})


def hidden_tensors(value: Any, root: str = "") -> Iterator[tuple[str, Any]]:
    """Each tensor that an object of another class holds as an attribute: neither named nor changed by the functions above."""
    import torch

    known = (torch.Tensor, torch.nn.Module, type, types.ModuleType, types.FunctionType)
    for path, leaf in _named_leaves(value, root, ()):
        own = getattr(leaf, "__dict__", None)
        if not isinstance(own, dict) or isinstance(leaf, known):
            continue
        for name, part in own.items():
            yield from named_tensors(part, f"{path}.{name}")


def states(tensors: Iterable[tuple[str, Any]]) -> dict[str, tuple[int, int]]:
    """For each tensor, by its path, which one it is and how often it was changed in place."""
    return {path: (id(tensor), 0 if tensor.is_inference() else tensor._version) for path, tensor in tensors}


def copied(tensor: Any) -> Any:
    """A copy of a tensor that asks for a gradient where it does, and that Dynamo's guards take for it.

    A jagged NestedTensor is mostly a view of its values, and its copy of theirs; it keeps the offsets, by which torch
    knows its ragged size from others.
    """
    import torch

    base = tensor._base if tensor.layout == torch.jagged and tensor._is_view() else None
    if base is None or base.is_nested:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    with torch.no_grad():
        return jagged_like(tensor, tensor.values().detach().clone()).requires_grad_(tensor.requires_grad)


def jagged_like(tensor: Any, values: Any) -> Any:
    """A jagged NestedTensor with other values in the places of this one's."""
    from torch.nested._internal.nested_tensor import nested_view_from_values_offsets_lengths

    return nested_view_from_values_offsets_lengths(
        values, tensor.offsets(), tensor.lengths(), tensor._ragged_idx, tensor._maybe_min_seqlen, tensor._maybe_max_seqlen
    )


def dense_parts(name: str, tensor: Any) -> list[tuple[str, Any]]:
    """A tensor as it is; of a jagged NestedTensor its values and its offsets."""
    import torch

    if tensor.layout != torch.jagged:
        return [(name, tensor)]
    return [(f"{name}.values()", tensor.values()), (f"{name}.offsets()", tensor.offsets())]


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _fields(leaf: Any) -> dict[str, Any] | None:
    """What is in a container that pytree does not see, by attribute; None for every other object."""
    import torch

    if isinstance(leaf, (type, torch.nn.Module)):
        return None
    if dataclasses.is_dataclass(leaf):
        return {f.name: getattr(leaf, f.name) for f in dataclasses.fields(leaf) if hasattr(leaf, f.name)}
    if isinstance(leaf, types.SimpleNamespace):
        return dict(vars(leaf))
    return {"data": leaf.data} if isinstance(leaf, UserDict) else None


def _named_leaves(value: Any, root: str, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Each leaf with its path; `above` are the containers that it is in, of which none is opened again."""
    from torch.utils import _pytree as pytree

    for path, leaf in pytree.tree_flatten_with_path(value)[0]:
        here = root + pytree.keystr(path)
        inside = None if _is_tensor(leaf) or id(leaf) in above else _fields(leaf)
        if inside is None:
            yield here, leaf
        else:
            for name, part in inside.items():
                yield from _named_leaves(part, f"{here}.{name}", (*above, id(leaf)))


def _mapped(change: Callable[[Any], Any], value: Any, known: dict[int, Any]) -> Any:
    """`known` are the leaves that were met, by identity, and what became of each."""
    from torch.utils import _pytree as pytree

    def one(leaf: Any) -> Any:
        if id(leaf) in known:
            return known[id(leaf)]
        if _is_tensor(leaf):
            known[id(leaf)] = change(leaf)
            return known[id(leaf)]
        inside = _fields(leaf)
        if not inside or next(named_tensors(leaf), None) is None:
            return leaf
        made = known[id(leaf)] = copy.copy(leaf)
        for name, part in inside.items():
            object.__setattr__(made, name, _mapped(change, part, known))
        return made

    return pytree.tree_map(one, value)
