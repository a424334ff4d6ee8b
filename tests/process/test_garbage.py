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


def test_the_full_collection_that_is_due_after_a_pause_is_put_off_but_never_twice_in_a_row() -> None:
    """After a first pause the oldest generation counts from zero; after a second it does not, so that garbage is found."""
    gc.collect()
    with full_collections_paused():
        _collect_young_generations(20)
    assert gc.get_count()[2] == 0
    with full_collections_paused():
        _collect_young_generations(20)
    assert gc.get_count()[2] >= 20


def test_objects_that_the_program_froze_stay_frozen() -> None:
    """A server freezes its objects before it forks; the collection that is due is not put off then."""
    frozen = [[number] for number in range(100)]
    gc.collect()
    gc.freeze()
    try:
        with full_collections_paused():
            _collect_young_generations(20)
        ids = set(map(id, frozen))
        assert gc.get_freeze_count() >= len(frozen) and not any(id(each) in ids for each in gc.get_objects())
    finally:
        gc.unfreeze()
    assert sum(id(each) in ids for each in gc.get_objects()) == len(frozen)  # they are seen where they are not frozen


def _collect_young_generations(times: int) -> None:
    for _ in range(times):
        gc.collect(1)
