"""Random numbers that a program draws on an absent GPU: the CPU's generator gives them, and the trace says so.

A GPU has a generator of its own. Where the program runs on the CPU in its place, each draw on the GPU moves the CPU's
generator, so what the program draws on the CPU afterwards differs from a run on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from explorer.capture.absent.measured import Assume

WHERE = "random numbers on the GPU"
ASSUMED = "drawn with the CPU's generator"
WHY = (
    "the program runs on the CPU; on the GPU they come from the GPU's own generator, and the CPU's stays as it is, "
    "so later draws on the CPU differ from those of a run on the GPU"
)


@lru_cache
def draws_random_numbers(name: str) -> bool:
    """Whether an operator of ATen with this name draws random numbers, as its own tags say."""
    import torch

    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() and not name.startswith("__") else None
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, overload).tags for overload in packet.overloads())


def noting_draws(assume: Assume) -> Callable[[], None]:
    """Make a function that records the assumption on random draws."""
    return lambda: assume(WHERE, ASSUMED, WHY)
