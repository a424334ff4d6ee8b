"""Make the numbers of a launch that is off fewer: set what can be zero to zero, as long as the same element is off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.lab.bisecting.case import Case, Compared, Launch
from explorer.lab.live.float64_reference import IMPOSSIBLE
from explorer.process.under_way import step

#: The most launches that making the inputs smaller may take, and seconds.
MAX_LAUNCHES, MAX_SECONDS = 300, 20.0


@dataclass(frozen=True)
class Shrunk:
    """The values with which the launch is still off. Of `of` floats, `left` are not zero.

    `at` is the index of the first element that is off, in the output with the number `output`. `tried` counts the launches.
    """

    values: tuple[Any, ...] = field(repr=False)
    output: int
    at: tuple[int, ...]
    left: int
    of: int
    tried: int


@dataclass
class Memory:
    """The floats of one storage, as one row, the tensors on it by the number of their value, and which floats are kept."""

    whole: Any
    numbers: list[int]
    kept: Any


def shrunk(case: Case, launch: Launch, eager: Callable[..., Any], *, fewer: bool = True) -> Shrunk | None:
    """Launch a case with fewer and fewer numbers; None where it is not off when it is launched alone.

    Whole numbers stay as they are: they may be indices, or divisors. Without `fewer` nothing is made smaller.
    """
    search = _Search(case, launch, eager)
    found = search.first()
    if found is None:
        return None
    if fewer:
        search.shrink()
    output, at = found
    left, of = search.count()
    return Shrunk(search.values(), output, at, left, of, search.tried)


class _Search:
    """The search for fewer numbers, which counts its launches."""

    def __init__(self, case: Case, launch: Launch, eager: Callable[..., Any]) -> None:
        self._case, self._launch, self._eager = case, launch, eager
        self._memories = _memories(case.values)
        self._target: tuple[int, tuple[int, ...]] | None = None
        self._finite, self.tried = True, 0
        self._until = time.monotonic() + MAX_SECONDS

    def first(self) -> tuple[int, tuple[int, ...]] | None:
        """The first output and element that is off; None where nothing is."""
        outcome = self._case.launched(self._case.values, self._launch)
        for number, mask in enumerate(outcome.off(self._eager)):
            if mask is not None and mask.any():
                places = mask.nonzero()
                self._target = number, tuple(places[0].tolist()) if places.dim() == 2 else ()
                self._finite = _is_finite(outcome)
                return self._target
        return None

    def count(self) -> tuple[int, int]:
        """How many floats are kept and not zero, and how many there are."""
        kept = sum(int(((memory.whole != 0) & memory.kept).sum()) for memory in self._memories)
        return kept, sum(memory.whole.numel() for memory in self._memories)

    # Trying ---------------------------------------------------------------------------------------------------------

    def shrink(self) -> None:
        """Zero the values that are no input, then those that the element does not depend on, then all others not needed."""
        inputs = {place.value for place in self._case.inputs if not place.after}
        for memory in self._memories:
            if not inputs & set(memory.numbers):
                self._try(memory, memory.kept & False)
        needed = self._needed()
        if needed is not None:
            self._try_all(needed)
        for memory in self._memories:
            if memory.kept.any():
                self._fewer(memory)

    def _fewer(self, memory: Memory) -> None:
        """Leave out halves, quarters and so on of the numbers of one storage."""
        import torch

        kept = (memory.kept & (memory.whole != 0)).nonzero().flatten()
        size = len(kept)
        while size and self._has_time():
            at = 0
            while at < len(kept) and self._has_time():
                rest = torch.cat([kept[:at], kept[at + size :]])
                mask = torch.zeros_like(memory.kept)
                mask[rest] = True
                if self._try(memory, mask):
                    kept = rest
                else:
                    at += size
            size //= 2

    def _has_time(self) -> bool:
        return self.tried < MAX_LAUNCHES and time.monotonic() < self._until

    def _try(self, memory: Memory, mask: Any) -> bool:
        """Keep only some numbers of one storage, if the element is still off."""
        return self._try_all([mask if each is memory else each.kept for each in self._memories])

    def _try_all(self, masks: Sequence[Any]) -> bool:
        before = [memory.kept for memory in self._memories]
        for memory, mask in zip(self._memories, masks, strict=True):
            memory.kept = mask
        self.tried += 1
        step(f"making the inputs of the launch smaller: {self.tried} launches")
        if self._is_off():
            return True
        for memory, mask in zip(self._memories, before, strict=True):
            memory.kept = mask
        return False

    def _is_off(self) -> bool:
        assert self._target is not None
        output, at = self._target
        try:
            outcome = self._case.launched(self.values(), self._launch)
            mask = outcome.off(self._eager)[output]
        except IMPOSSIBLE:
            return False
        return mask is not None and bool(mask[at]) and (_is_finite(outcome) or not self._finite)

    def values(self) -> tuple[Any, ...]:
        """Return the values of the case, with the numbers that are not kept set to zero."""
        import torch

        made = list(self._case.values)
        for memory in self._memories:
            whole = torch.where(memory.kept, memory.whole, torch.zeros_like(memory.whole))
            for number in memory.numbers:
                old = made[number]
                made[number] = whole.as_strided(old.shape, old.stride(), old.storage_offset())
        return tuple(made)

    # What the element depends on -----------------------------------------------------------------------------------

    def _needed(self) -> list[Any] | None:
        """Return masks of the numbers that change the eager nodes' element; None if autograd cannot tell."""
        import torch

        assert self._target is not None
        output, at = self._target
        leaves = [
            value.detach().clone().requires_grad_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for value in self._case.inputs_of(self._case.values, self._case.values)
        ]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        try:
            with torch.enable_grad():
                element = self._eager(*leaves)[output][at]
                gradients = torch.autograd.grad(element, tensors, allow_unused=True)
        except IMPOSSIBLE:
            return None
        masks = [memory.kept & False for memory in self._memories]
        floats = [place for place, leaf in zip(self._case.inputs, leaves, strict=False) if any(leaf is t for t in tensors)]
        for place, gradient in zip(floats, gradients, strict=True):
            for memory, mask in zip(self._memories, masks, strict=True):
                if place.value in memory.numbers and gradient is not None:
                    where = torch.arange(memory.whole.numel(), device=memory.whole.device)
                    old = self._case.values[place.value]
                    view = where.as_strided(old.shape, old.stride(), old.storage_offset())
                    view = place.of([view] * len(self._case.values))
                    mask[view[gradient != 0]] = True
        return [memory.kept & mask if mask.any() else memory.kept for memory, mask in zip(self._memories, masks, strict=True)]


def _memories(values: Sequence[Any]) -> list[Memory]:
    """The storages of floats; those that hold numbers of two types are left as they are."""
    import torch

    made: dict[int, Memory] = {}
    mixed: set[int] = set()
    for number, value in enumerate(values):
        if not isinstance(value, torch.Tensor) or not value.untyped_storage().nbytes():
            continue
        key = value.untyped_storage().data_ptr()
        if (key in made and made[key].whole.dtype != value.dtype) or not value.is_floating_point():
            mixed.add(key)
        elif key in made:
            made[key].numbers.append(number)
        else:
            count = value.untyped_storage().nbytes() // value.dtype.itemsize
            whole = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.untyped_storage(), 0, (count,), (1,))
            made[key] = Memory(whole, [number], torch.ones(count, dtype=torch.bool, device=value.device))
    return [memory for key, memory in made.items() if key not in mixed]


def _is_finite(outcome: Compared) -> bool:
    """Whether all that the launch read and wrote is a number."""
    return all(bool(tensor.isfinite().all()) for tensor in _tensors(outcome))


def _tensors(outcome: Compared) -> Iterator[Any]:
    import torch

    yield from (value for value in (*outcome.inputs, *outcome.given) if isinstance(value, torch.Tensor))
