"""Compile with a budget for the memory of activations: the share of them that AOTAutograd may save for the backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def activation_memory_budget(share: float) -> Iterator[None]:
    """Let AOTAutograd save that share of what it saves by default; the backward computes the rest again."""
    import torch._functorch.config

    with torch._functorch.config.patch(activation_memory_budget=share):
        yield


__all__ = ["activation_memory_budget"]
