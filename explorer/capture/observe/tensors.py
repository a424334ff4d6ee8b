"""Find, change and copy the tensors in nested arguments: those of torch's pytree, and of plain objects that hold tensors."""

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

    A tensor or dataclass that is there twice is one afterwards too. A dataclass with tensors is copied and the copy changed;
    one without tensors stays itself.
    """
    return _mapped(change, value, {})


def hidden_tensors(value: Any, root: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each tensor that an object of another class holds as an attribute, which the functions above do not find."""
    import torch

    known = (torch.Tensor, torch.nn.Module, type, types.ModuleType, types.FunctionType)
    for path, leaf in _named_leaves(value, root, ()):
        own = getattr(leaf, "__dict__", None)
        if not isinstance(own, dict) or isinstance(leaf, known):
            continue
        for name, part in own.items():
            yield from named_tensors(part, f"{path}.{name}")


def copier(kept: Iterable[Any] = (), wide: bool = False) -> Callable[[Any], Any]:
    """Return a function that copies tensors, with `wide` in float64. Copies of views of one storage share a storage too.

    A copy has the original's strides, type, gradient and attributes, so that Dynamo's guards accept it. A tensor that shares
    a storage with one of `kept` is returned itself.
    """
    import torch

    stay = {_storage(tensor) for tensor in kept} - {None}
    storages: dict[tuple[int | None, Any], Any] = {}

    def one(tensor: Any) -> Any:
        storage = _storage(tensor)
        if storage in stay:
            return tensor
        plain = storage is not None and type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_quantized
        if not plain or tensor.is_conj() or tensor.is_neg():
            return _widest(copied(tensor), tensor) if wide else copied(tensor)
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            key = (storage, tensor.dtype if wide else None)
            if key not in storages:
                storages[key] = _whole_storage(tensor, wide)
            made = torch.empty(0, dtype=wide_type(tensor.dtype) if wide else tensor.dtype, device=tensor.device)
            made.set_(storages[key], tensor.storage_offset(), tensor.shape, tensor.stride())
        return _like(tensor, made, one)

    return one


def _whole_storage(tensor: Any, wide: bool) -> Any:
    """A copy of a tensor's storage, each number of it in float64 where that is asked for."""
    import torch

    storage = tensor.untyped_storage()
    if not wide or wide_type(tensor.dtype) == tensor.dtype:
        return storage.clone()
    count = storage.nbytes() // tensor.dtype.itemsize
    numbers = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, 0, (count,), (1,))
    return numbers.to(wide_type(tensor.dtype)).untyped_storage()


def wide_type(dtype: Any) -> Any:
    """Return float64 for a float, complex128 for a complex type, and any other type as it is."""
    import torch

    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def _widest(copy_of: Any, tensor: Any) -> Any:
    return copy_of.detach().to(wide_type(tensor.dtype)).requires_grad_(tensor.requires_grad)


def _like(tensor: Any, made: Any, copy_one: Callable[[Any], Any]) -> Any:
    """Make a copy like its original: a parameter where that is one, with its attributes and a copy of its gradient."""
    import torch

    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    elif tensor.requires_grad:
        made.requires_grad_()
    vars(made).update(vars(tensor))
    if tensor.is_leaf and tensor.grad is not None:
        made.grad = copy_one(tensor.grad)
    return made


def _storage(tensor: Any) -> int | None:
    """Return an id of a tensor's storage, equal exactly for tensors that share memory; None if there is no storage to share."""
    import torch

    if tensor.layout != torch.strided or tensor.device.type == "meta":
        return None
    try:
        storage = tensor.untyped_storage()
        return int(storage._cdata) if storage.nbytes() else None
    except (RuntimeError, NotImplementedError):
        return None


def storage_of(tensor: Any) -> int | None:
    """A number that is the same for two tensors exactly if they share memory; None where there is no memory."""
    return None if type(tensor).__name__ == "NestedTensor" else _storage(tensor)


def memory_of(tensor: Any) -> tuple[int, int] | None:
    """Return the addresses where a tensor's storage starts and ends; None where there is no memory.

    Another library that is handed a tensor by DLPack can return its memory in a storage of its own, which `storage_of` does
    not see. A storage without an address, such as that of a tensor of several ranks, shares with itself alone.
    """
    key = storage_of(tensor)
    if key is None:
        return None
    storage = tensor.untyped_storage()
    try:
        start = storage.data_ptr()
    except RuntimeError:
        start = 0
    return (start, start + storage.nbytes()) if start else (key, key + 1)


def copied(tensor: Any) -> Any:
    """Copy a tensor so that Dynamo's guards accept the copy. The copy requires a gradient if the original does.

    A jagged NestedTensor is mostly a view of its values, so its copy is a view of the copied values. The copy keeps the same
    offsets, by which torch identifies its ragged size.
    """
    import torch

    base = tensor._base if tensor.layout == torch.jagged and tensor._is_view() else None
    if base is None or base.is_nested:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    with torch.no_grad():
        return jagged_like(tensor, tensor.values().detach().clone()).requires_grad_(tensor.requires_grad)


def jagged_like(tensor: Any, values: Any) -> Any:
    """A jagged NestedTensor with the layout of this one and other values."""
    from torch.nested._internal.nested_tensor import nested_view_from_values_offsets_lengths

    return nested_view_from_values_offsets_lengths(
        values, tensor.offsets(), tensor.lengths(), tensor._ragged_idx, tensor._maybe_min_seqlen, tensor._maybe_max_seqlen
    )


def dense_parts(name: str, tensor: Any) -> list[tuple[str, Any]]:
    """Return the dense tensors of a tensor: itself, or the values and offsets of a jagged NestedTensor."""
    import torch

    if tensor.layout != torch.jagged:
        return [(name, tensor)]
    return [(f"{name}.values()", tensor.values()), (f"{name}.offsets()", tensor.offsets())]


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _fields(leaf: Any) -> dict[str, Any] | None:
    """Return the contents of a container that pytree does not open, by attribute; None for every other object."""
    import torch

    if isinstance(leaf, (type, torch.nn.Module)):
        return None
    if dataclasses.is_dataclass(leaf):
        return {f.name: getattr(leaf, f.name) for f in dataclasses.fields(leaf) if hasattr(leaf, f.name)}
    if isinstance(leaf, types.SimpleNamespace):
        return dict(vars(leaf))
    return {"data": leaf.data} if isinstance(leaf, UserDict) else None


def _named_leaves(value: Any, root: str, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield each leaf with its path; `above` are the containers around it, which are not opened again."""
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
    """Map the leaves of a nest. `known` has the result for each leaf that was met before, by identity."""
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


def version_of(tensor: Any) -> int:
    """Return autograd's version counter of a tensor, which counts changes in place."""
    return 0 if tensor.is_inference() else int(tensor._version)


def has_fractions(tensor: Any) -> bool:
    """Whether a tensor has floats or complex numbers, which are rounded and can be differentiated."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def same_bits(one: Any, other: Any) -> bool:
    """True where two tensors are the same to the bit, NaN included; of a DTensor this rank's part, which sends nothing."""
    import torch

    one, other = (getattr(tensor, "_local_tensor", tensor) for tensor in (one, other))
    if one.dtype != other.dtype or one.shape != other.shape or one.layout != other.layout:
        return False
    if one.layout != torch.strided or one.is_quantized:
        return all(same_bits(a, b) for a, b in zip(strided_parts(one), strided_parts(other), strict=True))
    one, other = (t.detach().resolve_conj().resolve_neg() for t in (one, other))
    one, other = (torch.view_as_real(t) if t.is_complex() else t for t in (one, other))  # complex32 has no `equal`
    if torch.equal(one, other) or not has_fractions(one):
        return bool(torch.equal(one, other))
    one, other = ((t.float() if t.dtype.itemsize < 2 else t) for t in (one, other))
    return bool(torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num()))


def strided_parts(tensor: Any) -> list[Any]:
    """The strided tensors that a tensor of another layout consists of; a strided one itself."""
    import torch

    if tensor.layout == torch.strided and not tensor.is_quantized:
        return [tensor.detach().resolve_conj().resolve_neg()]
    if tensor.layout == torch.jagged:
        return [tensor.values(), tensor.offsets()]
    if tensor.is_quantized:
        return [tensor.int_repr()]
    if tensor.layout == torch.sparse_coo:
        made = tensor.coalesce()
        return [made.indices(), made.values()]
    return [tensor.detach().to_dense()]


def put_back(tensor: Any, saved: Any, version: int) -> None:
    """Restore a tensor's saved data and version, so that a pending backward that saved the tensor still runs."""
    import torch

    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        if tensor.layout == torch.strided and (tensor.shape != saved.shape or tensor.stride() != saved.stride()):
            tensor.data = saved.clone()
        else:
            tensor.data.copy_(saved)
    if not tensor.is_inference() and tensor._version != version:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def plain_objects(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that may hold the program's values, as its own dict; None for what torch or Python define."""
    import torch

    if isinstance(value, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, torch.Tensor)):
        return None
    if isinstance(value, (torch.nn.Module, torch.optim.Optimizer)):
        attributes: dict[str, Any] = vars(value)
        return attributes
    home = type(value).__module__.partition(".")[0]
    if home in ("builtins", "threading", "_thread", "weakref", "logging", "functools", "re", "ast"):
        return None
    if home in ("torch", "triton", "helion", "numpy"):
        return None
    own = getattr(value, "__dict__", None)
    return own if isinstance(own, dict) else None


def opened_leaves(value: Any, root: str = "", depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Yield each leaf of a nest with its path, and in place of an object of the program's its attributes."""
    for path, leaf in _named_leaves(value, root, ()):
        own = None if depth == 0 else plain_objects(leaf)
        if own and not callable(leaf):
            for name, part in own.items():
                yield from opened_leaves(part, f"{path}.{name}", depth - 1)
        else:
            yield path, leaf
