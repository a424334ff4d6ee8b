"""The regions of a model in the order in which they run, which of them stand for others, and the walk through their graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.observe.tensors import named_tensors
from explorer.capture.observe.without_data import mixing
from explorer.model.trace_data import TraceData
from explorer.studies.fitting.graphs import region_of
from explorer.studies.fitting.memory import AFTER, Call, Walk
from explorer.studies.fitting.regional import Regional

#: What regions are called that are no block, beside AFTER.
BEFORE, WHOLE = "the part before the blocks", "the model"


@dataclass(frozen=True)
class Part:
    """A region with its arguments: the path of the one that is traced for it, and how many it stands for, 0 for the others.

    `train` tells whether it has a backward.
    """

    path: str
    module: Any
    args: tuple[Any, ...]
    like: str
    stands_for: int
    train: bool


def parts_of(regions: Regional, inputs: Sequence[Any], train: bool) -> list[Part]:
    """List the regions in the order in which they run; a model without blocks is one region.

    They are called with what the regions before them give. The part before the blocks is not a region if it computes nothing, and
    has no backward if nothing in it is learned. The first block is then a separate region: its hidden states need no gradient.
    """
    import torch

    found = regions.found
    if found is None:
        return [Part(WHOLE, regions.after, tuple(inputs), WHOLE, 1, train)]
    with mixing(inputs):
        extras = tuple(tensor.detach() for tensor in regions.extras(*inputs))
        with torch.set_grad_enabled(train):
            first = regions.before(*inputs)
    is_given, learned = first is inputs[0], first.requires_grad
    later = first.detach().requires_grad_(train)
    parts = [] if is_given else [Part(BEFORE, regions.before, tuple(inputs), BEFORE, 1, learned)]
    alike = _apart(found.alike) if train and not learned else found.alike
    for number, (block, like) in enumerate(zip(regions.blocks, alike, strict=True)):
        hidden = first.detach() if number == 0 and not learned else later
        path, name = _path(found.path, number), _path(found.path, like)
        parts.append(Part(path, block, (hidden, extras), name, alike.count(number), train))
    return parts if _gives_on(regions, later, inputs) else [*parts, Part(AFTER, regions.after, (later, *inputs), AFTER, 1, train)]


def _gives_on(regions: Regional, hidden: Any, inputs: Sequence[Any]) -> bool:
    """Whether a model gives what its last block gives."""
    import torch

    with mixing((hidden,)), torch.no_grad():
        return regions.after(hidden, *inputs) is hidden


def _apart(alike: Sequence[int]) -> tuple[int, ...]:
    """The same with the first alone, and the second of its form in its place."""
    second = next((number for number, like in enumerate(alike) if like == 0 and number), 0)
    return tuple(second if like == 0 and number else like for number, like in enumerate(alike))


def _path(path: str, number: int) -> str:
    return f"{path}.{number}" if path else str(number)


def walked(parts: Sequence[Part], traces: Mapping[str, TraceData], model: Any, inputs: Sequence[Any]) -> Walk:
    """Go through the regions with the graphs of those that stand for them; `traces` are by path."""
    graphs = {path: region_of(traced, path) for path, traced in traces.items()}
    own = {id(tensor): number for number, tensor in enumerate(tensors_of(model).values())}
    calls = []
    for part in parts:
        named = (*part.module.named_parameters(remove_duplicate=False), *part.module.named_buffers(remove_duplicate=False))
        calls.append(Call(part.path, graphs[part.like], {name: own[id(tensor)] for name, tensor in named if id(tensor) in own}))
    extras = next((part.args[1] for part in parts if part.path not in (BEFORE, AFTER, WHOLE)), ())
    return Walk(calls, _sizes(extras), _sizes(inputs)).run()


def _sizes(tensors: Sequence[Any]) -> list[int]:
    return [tensor.untyped_storage().nbytes() for _, tensor in named_tensors(tuple(tensors))]


def tensors_of(model: Any) -> dict[str, Any]:
    """The parameters and buffers by name, tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


__all__ = ["Part", "parts_of", "tensors_of", "walked"]
