"""Garbage collection is paused for a compile, and as before after it."""

from __future__ import annotations

import gc

from explorer.process.garbage import collection_paused, full_collections_paused


def test_threads_that_pause_full_collections_leave_the_thresholds_as_they_were() -> None:
    """A trace that is refused as busy begins and ends beside the one that is under way, in any order."""
    before = gc.get_threshold()
    first, second = full_collections_paused(), full_collections_paused()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (*before[:2], 1_000_000)
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_program_that_collects_no_garbage_still_does_not_after_a_replay() -> None:
    """The collector is off inside the block, and on after it only where it was on before."""
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
