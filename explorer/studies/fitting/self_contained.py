"""Whether blocks can be regions of their own: what the operators of a call outside of them take.

The region after the blocks is given the hidden states and the model's inputs, and computes anything else again. A tensor that it
takes besides, of a block or of what is learned before the blocks, would be held by the real model and by none of the regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.observe.tensors import named_tensors
from explorer.capture.observe.without_data import lacks_data


@dataclass(frozen=True)
class Operator:
    """An operator of a call: the storages of its inputs and of its results."""

    given: frozenset[int]
    results: frozenset[int]


class Storages:
    """Number each storage of a call, ignoring how long the storage lives."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}  # an address is given again once its storage is freed

    def of(self, tensors: Iterable[Any]) -> frozenset[int]:
        """Return the storages of fake tensors; for a wrapper, such as a DTensor, the storages of the wrapped tensors.

        A real tensor of such a call, such as an `arange`, is made of no parameter and no input.
        """
        import torch

        found: set[int] = set()
        for tensor in tensors:
            if hasattr(tensor, "__tensor_flatten__"):
                found |= self.of(getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
            elif isinstance(tensor, torch.Tensor) and lacks_data(tensor):
                storage = tensor.untyped_storage()
                self._kept[storage._cdata] = storage
                found.add(storage._cdata)
        return frozenset(found)


def is_self_contained(
    model: Any,
    inputs: Sequence[Any],
    storages: Storages,
    operators: Sequence[Operator],
    spans: Sequence[range],
    output: Any,
    result: Any,
) -> bool:
    """Tell whether operators outside of the blocks take nothing of them, and those behind them nothing learned before them.

    `spans` are each block's operators by their numbers, `output` is what the last block gives on, and `result` what the model
    gives. A value that needs no parameter and no floating-point input, such as a mask, may be used after the blocks: it is
    computed again.
    """
    floating = [tensor for _, tensor in named_tensors(tuple(inputs)) if tensor.is_floating_point()]
    sources = storages.of([*model.parameters(), *floating])
    always = storages.of([*model.parameters(), *model.buffers(), *(tensor for _, tensor in named_tensors(tuple(inputs)))])
    given_on = storages.of([output])
    inside = {number for span in spans for number in span}
    of_blocks: set[int] = set()
    learned: set[int] = set()
    for number, operator in enumerate(operators):
        behind = number >= spans[-1].stop
        if number in inside:
            of_blocks |= operator.results - operator.given - always
        elif operator.given & ((of_blocks | learned) - given_on if behind else of_blocks):
            return False
        elif not behind and operator.given & (sources | learned):
            learned |= operator.results - always
    return not storages.of(tensor for _, tensor in named_tensors(result)) & ((of_blocks | learned) - given_on)


__all__ = ["Operator", "Storages", "is_self_contained"]
