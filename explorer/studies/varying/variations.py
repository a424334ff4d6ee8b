"""The variations that a probe tries by itself, of the arguments and the state that it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import and_
from typing import Any

from explorer.lab.live.call import Call
from explorer.studies.varying.varied_call import argument_names, global_values, tensor_names
from explorer.studies.varying.vary import Vary

#: How many tensors are varied; of more, the first.
MAX_TENSORS = 3

Runs = Callable[[Vary], bool]


def variations(call: Call, runs: Runs) -> Iterator[Vary]:
    """Yield what may make a call compile again: sizes, dtype, layout, gradients, values, state of the program.

    `runs` says whether the function, not compiled, takes a variation: sizes that belong together are varied together.
    """
    tensors = dict(list(tensor_names(call).items())[:MAX_TENSORS])
    for name, tensor in tensors.items():
        for dim in range(tensor.dim()):
            yield from _sizes(name, dim, tensors, runs)
    for name, tensor in tensors.items():
        yield from _dtypes(name, tensors, runs)
        yield from filter(runs, _of_tensor(name, tensor))
    if others := [Vary(name, value=other) for name, t in tensors.items() if (other := _other_tensor(t)) is not None]:
        yield from filter(runs, (reduce(and_, others),))
    for name, value in argument_names(call).items():
        yield from filter(runs, (Vary(name, value=other) for other in other_values(value)))
    for name, value in global_values(call).items():
        yield from filter(runs, (Vary(name, value=other) for other in other_values(value)))
    yield from filter(runs, _of_module(call))
    yield from _of_program()


def _sizes(name: str, dim: int, tensors: dict[str, Any], runs: Runs) -> Iterator[Vary]:
    """Another size of one dimension, and the size 1, which Dynamo keeps apart.

    The other size is one more, and one less where the function takes no more, such as a table of positions.
    """
    size = tensors[name].size(dim)
    others = (_size(name, dim, other, tensors, runs) for other in (size + 1, size - 1) if other > 1)
    if other := next(filter(None, others), None):
        yield other
    if size != 1 and (one := _size(name, dim, 1, tensors, runs)):
        yield one


def _size(name: str, dim: int, other: int, tensors: dict[str, Any], runs: Runs) -> Vary | None:
    """Give one dimension another size; where the function does not take that, all dimensions of that size; None for neither."""
    alone = Vary(name, size={dim: other})
    if runs(alone):
        return alone
    together = _together(tensors[name].size(dim), other, tensors)
    if together.changes != alone.changes and _first_of_size(name, dim, tensors) and runs(together):
        return together
    return None


def _first_of_size(name: str, dim: int, tensors: dict[str, Any]) -> bool:
    """Whether no dimension before this one has its size: those that are varied together are varied once."""
    size = tensors[name].size(dim)
    return next((other, n) for other, t in tensors.items() for n in range(t.dim()) if t.size(n) == size) == (name, dim)


def _together(size: int, other: int, tensors: dict[str, Any]) -> Vary:
    """Another size of every dimension that has this size."""
    changed = [(name, {n: other for n in range(t.dim()) if t.size(n) == size}) for name, t in tensors.items()]
    return reduce(and_, (Vary(name, size=sizes) for name, sizes in changed if sizes))


def _other_tensor(tensor: Any) -> Any:
    """A tensor of other values, as a number that the program takes from one, by .item(), may be guarded; None for an empty one.

    Whole numbers are all the least one of the tensor, which the function takes as indices or lengths too.
    """
    if not tensor.numel() or tensor.is_meta:
        return None
    if tensor.is_floating_point():
        return (tensor.detach() * 0.5 + 0.25).requires_grad_(tensor.requires_grad)
    return None if tensor.is_complex() else tensor.min().expand_as(tensor).contiguous()


def _dtypes(name: str, tensors: dict[str, Any], runs: Runs) -> Iterator[Vary]:
    """Another dtype of one tensor. Where the function does not take that, all tensors of its dtype have the other one."""
    dtype = tensors[name].dtype
    if (other := _other_dtype(dtype)) is None:
        return
    alike = [each for each, tensor in tensors.items() if tensor.dtype == dtype]
    alone = Vary(name, dtype=other)
    if runs(alone):
        yield alone
    elif alike[0] == name and len(alike) > 1:
        together = reduce(and_, (Vary(each, dtype=other) for each in alike))
        if runs(together):
            yield together


def _other_dtype(dtype: Any) -> Any:
    """Return the dtype that is tried in place of another; None for a dtype that is left as it is."""
    import torch

    if dtype.is_floating_point:
        return torch.bfloat16 if dtype != torch.bfloat16 else torch.float32
    return {torch.int64: torch.int32, torch.int32: torch.int64}.get(dtype)


def _of_tensor(name: str, tensor: Any) -> Iterator[Vary]:
    if tensor.dim() >= 2:
        yield Vary(name, stride="transposed" if tensor.is_contiguous() else "contiguous")
    yield Vary(name, stride="offset")
    if tensor.is_floating_point():
        yield Vary(name, requires_grad=not tensor.requires_grad)


def other_values(value: Any) -> Iterator[Any]:
    """Another value of a Python argument, and for a whole number one of another type; none for what cannot be told."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield float(value)
    elif isinstance(value, float):
        yield value + 1.0


def _of_module(call: Call) -> Iterator[Vary]:
    import torch

    if isinstance(call.function, torch.nn.Module):
        yield Vary("self.training", value=not call.function.training)
        for name, value in vars(call.function).items():
            if not name.startswith("_") and name != "training" and isinstance(value, (int, float)):
                yield from (Vary(f"self.{name}", value=other) for other in list(other_values(value))[:1])


def _of_program() -> Iterator[Vary]:
    import torch

    yield Vary(grad=not torch.is_grad_enabled())
    yield Vary(stance="force_eager")
