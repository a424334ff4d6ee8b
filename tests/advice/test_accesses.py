"""Reads of which memory hands out more than is used, as the scheduler prints its dependencies."""

from __future__ import annotations

import pytest

from explorer.advice.accesses import apart, loop_calls

NODE = """\
op0: SchedulerNode(ComputedBuffer)
op0.writes = [MemoryDep('buf0', 64*c0, {{c0: 100}})]
op0.unmet_dependencies = []
op0.met_dependencies = [{dependencies}]
arg0_1_layout = FixedLayout('cuda:0', torch.float32, size=[100, 32], stride=[32, 1])
        load = ops.load('arg0_1', get_index)
        store = ops.store('buf0', get_index_1, load, None)
"""


def reads(*indices: str, ranges: str = "c0: 100") -> str:
    return NODE.format(dependencies=", ".join(f"MemoryDep('arg0_1', {index}, {{{ranges}}})" for index in indices))


def test_fields_of_a_sector_are_fetched_once() -> None:
    """Two fields of a record share a sector of 32 bytes, one further off is in a sector of its own."""
    (one,) = apart(reads("32*c0", "32*c0 + 1"))
    assert (one.fetched, one.used, one.step) == (3200, 800, 32)
    (two,) = apart(reads("32*c0", "32*c0 + 20"))
    assert (two.fetched, two.used) == (6400, 800)


@pytest.mark.parametrize(
    ("index", "ranges"),
    [
        ("c0", "c0: 100"),
        ("32*c0 + c1", "c0: 100, c1: 32"),
        ("c0 + 100*c1", "c0: 100, c1: 32"),
        ("(c0//2)", "c0: 8"),
        ("32*c0 + (c1//20)", "c0: 100, c1: 640"),
        ("7", "c0: 1"),
    ],
)
def test_a_read_with_neighbours_or_one_that_is_not_linear_is_left_out(index: str, ranges: str) -> None:
    """A transposed read has neighbours along its other loop; what divides says nothing; what is written is no read."""
    assert list(apart(reads(index, ranges=ranges))) == []


def test_few_of_the_bytes_between_steps_are_no_more_than_all() -> None:
    """A step of two floats leaves half of what is fetched unused, and no sector counts twice."""
    (one,) = apart(reads("2*c0"))
    assert (one.fetched, one.used) == (800, 400)


def test_a_loop_that_the_index_does_not_depend_on_reads_nothing_more() -> None:
    """A value that is read again for each of many columns is in a cache."""
    (one,) = apart(reads("32*c0", ranges="c0: 100, c1: 640"))
    assert one.fetched == 3200


def test_the_operations_of_a_loop() -> None:
    """A loop that loads and stores copies; indices are no operations."""
    assert loop_calls(reads("c0")) == {"load", "store"}
