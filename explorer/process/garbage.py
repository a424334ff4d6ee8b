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

    Young objects are collected as before, so that what the compile drops does not pile up. The full collection that is due
    after the block is put off too, but never twice in a row: many blocks, one after the other, do not pile up garbage either.
    """
    before = gc.get_threshold()
    if before[2] >= NO_FULL_COLLECTION:  # another thread pauses them, and restores the thresholds
        yield
        return
    gc.set_threshold(before[0], before[1], NO_FULL_COLLECTION)
    try:
        yield
    finally:
        _DUE.put_off()
        gc.set_threshold(*before)


class _DueCollection:
    """The process's full collection that is due after a pause."""

    def __init__(self) -> None:
        self._full_collections = -1  # that Python had run when one was last put off

    def put_off(self) -> None:
        """Count the young generations from zero, as after a full collection, unless none has run since this was last done."""
        full_collections = gc.get_stats()[-1]["collections"]
        if full_collections == self._full_collections or not gc.isenabled() or gc.get_freeze_count():
            return  # to thaw what the program froze would change the program
        self._full_collections = full_collections
        gc.collect(1)  # what has died young is not to wait for a full collection
        gc.freeze()
        gc.unfreeze()  # puts all in the oldest generation, and its count is zero now


_DUE = _DueCollection()
