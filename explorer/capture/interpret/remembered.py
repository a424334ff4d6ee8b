"""What interpreted launches wrote, so that the same launch is not interpreted again.

An edit is judged by calls of the whole function, and of these only what comes after the edited kernel can give other numbers.
The interpreter takes seconds for a launch, a hash of all that the launch reads milliseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The most bytes that are kept, as long as the trace lives; launches after that are interpreted each time.
MAX_BYTES = 2**30
#: Arguments whose `repr` says all that there is to know of them.
PLAIN = (bool, int, float, str, type(None))


@dataclass
class Remembered:
    """The memory that launches left, by their kernel and by all memory and numbers that they were given."""

    max_bytes: int = MAX_BYTES
    _written: dict[bytes, Sequence[tuple[int, Any]]] = field(default_factory=dict)
    _bytes: int = 0

    def launch(self, kernel: str, arguments: Mapping[str, Any], grid: Sequence[int], interpreted: Callable[[], Any]) -> None:
        """Launch a kernel on CPU tensors: leave what it wrote before, or call `interpreted`, which runs it.

        `kernel` is its source. One without it, or with arguments that are neither tensors nor plain numbers, is always
        interpreted.
        """
        import torch

        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        rest = {name: value for name, value in arguments.items() if name not in tensors}
        is_plain = all(type(value) in PLAIN for value in rest.values()) and all(t.is_cpu for t in tensors.values())
        if not (kernel and is_plain and self.max_bytes):
            interpreted()
            return
        memory: list[Any] = []  # each storage once, as bytes: arguments may share one
        numbers: dict[int, int] = {}
        places = []
        for name, tensor in tensors.items():
            storage = tensor.untyped_storage()
            if (number := numbers.setdefault(storage.data_ptr(), len(memory))) == len(memory):
                memory.append(torch.empty(0, dtype=torch.uint8).set_(storage))
            places.append((name, number, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), str(tensor.dtype)))
        before = [_hash(each) for each in memory]
        key = hashlib.blake2b(repr((kernel, sorted(rest.items()), tuple(grid), places, before)).encode()).digest()
        if key in self._written:
            for number, left in self._written[key]:
                memory[number].copy_(left)
            return
        interpreted()
        changed = [(number, each) for number, each in enumerate(memory) if _hash(each) != before[number]]
        size = sum(each.numel() for _, each in changed)
        if self._bytes + size <= self.max_bytes:
            self._bytes += size
            self._written[key] = [(number, each.clone()) for number, each in changed]


def _hash(memory: Any) -> bytes:
    return hashlib.blake2b(memory.numpy(), digest_size=16).digest()


__all__ = ["Remembered"]
