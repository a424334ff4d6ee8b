"""Pause Python's garbage collection while torch's million objects are alive."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: A threshold for the oldest generation that no compile reaches.
NO_FULL_COLLECTION = 1_000_000


@contextmanager
def collection_paused() -> Iterator[None]:
    """Collect no garbage in the block. One walk over torch's objects takes longer than a replay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def full_collections_paused() -> Iterator[None]:
    """Run no full garbage collection in the block. Each walks all objects of torch and the compile, for 0.3 to 0.5 s.

    Young objects are collected as before, so that what the compile drops does not pile up.
    """
    before = gc.get_threshold()
    if before[2] >= NO_FULL_COLLECTION:  # another thread pauses them, and restores the thresholds
        yield
        return
    gc.set_threshold(before[0], before[1], NO_FULL_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)
