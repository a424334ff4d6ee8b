"""Compile with tensors without data, fake or on the meta device, so that a model of any size needs no memory.

A trace for a GPU you don't have needs only shapes. Tensors on the meta device become fake tensors on the CPU. Dynamo's graphs
then run on fake tensors, which computes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.patch import guarded_always
from explorer.capture.observe.tensors import map_tensors, named_tensors

#: Why a verb that needs numbers refuses.
NO_DATA = (
    "the tensors of this trace have no data (they are fake, or on the meta device), so nothing was computed and {what}: the "
    "stages, kernels, memory and estimates are there; for results trace with real tensors, such as a smaller model"
)


def without_data(function: Callable[..., Any], args: Any, kwargs: Any) -> str:
    """Name a tensor without data among a call's arguments, parameters and buffers; "" where all have data."""
    return next((name for name, tensor in _tensors(function, args, kwargs) if lacks_data(tensor)), "")


def lacks_data(tensor: Any) -> bool:
    """Whether a tensor is fake or on the meta device."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or tensor.device.type == "meta"


def _tensors(function: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    import torch

    yield from named_tensors(args, "args")
    yield from named_tensors(kwargs, "kwargs")
    if isinstance(function, torch.nn.Module):
        yield from function.named_parameters()
        yield from function.named_buffers()


def as_fake(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Replace all tensors of a call by fake tensors on the CPU; a module is copied where one of its tensors is replaced.

    A tensor that is there twice, such as a tied weight, becomes one fake tensor.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    fakes = (tensor for _, tensor in _tensors(function, args, kwargs) if isinstance(tensor, FakeTensor))
    mode = next((fake.fake_mode for fake in fakes), None) or FakeTensorMode()
    known: dict[int, Any] = {}

    def empty(tensor: Any) -> Any:
        if is_traceable_wrapper_subclass(tensor):  # such as a DTensor: a tensor of a mesh's ranks around this rank's part
            names, context = tensor.__tensor_flatten__()
            held = {name: getattr(tensor, name) for name in names}  # a DTensor's mesh is one of them since torch 2.13
            parts = {name: faked(part) if isinstance(part, torch.Tensor) else part for name, part in held.items()}
            return type(tensor).__tensor_unflatten__(parts, context, tensor.shape, tensor.stride())
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")

    def faked(tensor: Any) -> Any:
        if isinstance(tensor, FakeTensor) and tensor.device.type == "cpu":
            return tensor
        if id(tensor) not in known:
            made = empty(tensor).detach()
            own = torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made
            known[id(tensor)] = own.requires_grad_(tensor.requires_grad)
        return known[id(tensor)]

    if isinstance(function, torch.nn.Module):
        function = _module_of(function, faked)
    return function, map_tensors(faked, args), map_tensors(faked, dict(kwargs))


def _module_of(module: Any, faked: Callable[[Any], Any]) -> Any:
    """The module itself where all of its tensors are fake already, else a copy with fake ones in their places."""
    tensors = [*module.parameters(), *module.buffers()]
    if all(faked(tensor) is tensor for tensor in tensors):
        return module
    replaced = {id(tensor): faked(tensor) for tensor in tensors}  # deepcopy takes these for the copies
    return copy.deepcopy(module, replaced)


@contextmanager
def mixing(arguments: Iterable[Any]) -> Iterator[None]:
    """Let fake tensors meet real ones inside the block, such as an `arange` that a program makes of a fake tensor's shape."""
    from torch._subclasses.fake_tensor import FakeTensor

    mode = next((tensor.fake_mode for _, tensor in named_tensors(tuple(arguments)) if isinstance(tensor, FakeTensor)), None)
    if mode is None:
        yield
        return
    before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = before


def on_meta(value: Any) -> Any:
    """Replace fake tensors by meta tensors: triton asks for an address, which only meta tensors have."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    def one(tensor: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return tensor
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    return map_tensors(one, value)


def on_fakes(graph: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a graph so that, called with fake tensors, it also creates fake tensors, for example for an `arange`."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            from torch._subclasses.fake_tensor import FakeTensor

            mode = next((arg.fake_mode for arg in args if isinstance(arg, FakeTensor)), None)
            if mode is None:
                return original(*args)
            before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
            try:
                with mode:
                    return original(*args)
            finally:
                mode.allow_non_fake_inputs = before

        return run

    return guarded_always(graph, make, "fake tensors of the graph")


def needs_values(error: BaseException) -> bool:
    """Whether torch says that an operator needs the values of a tensor that has none, for a number or for its result's size."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    return isinstance(error, (DataDependentOutputException, DynamicOutputShapeException))


__all__ = ["NO_DATA", "as_fake", "lacks_data", "mixing", "needs_values", "on_fakes", "on_meta", "without_data"]
