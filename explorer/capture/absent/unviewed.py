"""Return a graph's outputs as Inductor's code does: views only where AOTAutograd makes views.

Eager code marks a view with the tensor that it is a view of, and Dynamo guards on that tensor's sizes where they are symbols.
AOTAutograd gives the mark back to a view of an input, and to several outputs that share memory and are differentiated; every
other output comes as a tensor of its own. Where Dynamo's graph runs in the place of Inductor's code its outputs must be
alike, or code compiled after a graph break has guards that it has on no GPU, and that Inductor's own outputs fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from explorer.capture.observe.patch import guarded_always
from explorer.capture.observe.tensors import map_tensors, named_tensors, storage_of


def unviewed(graph: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a graph so that an output is a view only if it is also a view in Inductor's code."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            return as_compiled(original(*args), _storages(args, getattr(graph, "parameters", tuple)()))

        return run

    return guarded_always(graph, make, "views among the outputs")


def _storages(args: Any, parameters: Iterable[Any]) -> set[Any]:
    """The storages of a graph's inputs, and of the parameters that it holds itself."""
    return {storage_of(tensor) for tensor in (*args, *parameters) if hasattr(tensor, "untyped_storage")}


def as_compiled(returned: Any, given: set[Any]) -> Any:
    """Remove the marks of views that AOTAutograd does not give; `given` are the inputs' storages."""
    views = [tensor for _, tensor in named_tensors(returned) if _is_plain_view(tensor) and storage_of(tensor) not in given]
    if not views:
        return returned
    counts = Counter(storage_of(tensor) for _, tensor in named_tensors(returned) if not tensor.is_nested)

    def one(tensor: Any) -> Any:
        if not any(tensor is view for view in views):
            return tensor
        alone = counts[storage_of(tensor)] == 1
        differentiated = tensor.requires_grad and tensor._base.requires_grad
        return tensor if differentiated and not alone else _without_mark(tensor, alone)

    return map_tensors(one, returned)


def _is_plain_view(tensor: Any) -> bool:
    """Whether a tensor is an ordinary one on the CPU, with data, that eager code marked as a view."""
    import torch
    from torch.autograd import forward_ad

    ordinary = type(tensor) is torch.Tensor and tensor.layout == torch.strided and tensor.device.type == "cpu"
    return (
        ordinary
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and forward_ad._current_level < 0
        and tensor._base is not None
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _without_mark(tensor: Any, alone: bool) -> Any:
    """Remove a tensor's view mark; it stays differentiable, and shares memory if it is not `alone`.

    Autograd may have kept the memory for the backward, and sees a change in place only where it sees the view: while it
    records, an output that shares with no other gets memory of its own.
    """
    import torch

    copied = alone and torch.is_grad_enabled()

    class Unmarked(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, given: Any) -> Any:
            storage = given.untyped_storage()
            made = torch.empty(0, dtype=given.dtype, device=given.device)
            return made.set_(storage.clone() if copied else storage, given.storage_offset(), given.size(), given.stride())

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    return Unmarked.apply(tensor)


__all__ = ["as_compiled", "unviewed"]
