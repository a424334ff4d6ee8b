"""Reads of which memory hands out more than is used, as the scheduler prints its dependencies."""

from __future__ import annotations

import pytest

from explorer.analysis.advice.accesses import across, apart, gathers, loop_calls, scan_steps

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


LOOP = """\
op0: SchedulerNode(ComputedBuffer)
op0.sizes = ([64{outer}], [])
arg0_1_layout = FixedLayout('cuda:0', torch.int64, size=[64], stride=[1])
arg1_1_layout = FixedLayout('cuda:0', torch.float32, size=[5000, 16], stride=[16, 1])
class op0_loop_body:
    var_ranges = {{p0: 64, p1: 16}}
    index0 = {place}
    index1 = {read}
    index2 = 16*p0 + p1
    def body(self, ops):
        get_index = self.get_index('index0')
        load = ops.load('arg0_1', get_index)
        set_indirect0 = self.set_indirect0(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('arg1_1', get_index_1)
        {between}
        get_index_2 = self.get_index('index2')
        store = ops.store('buf0', get_index_2, {stored}, None)
"""


def loop(read: str, place: str = "p0", between: str = "", stored: str = "load_1", outer: str = ", 16") -> str:
    return LOOP.format(read=read, place=place, between=between, stored=stored, outer=outer)


def test_an_index_that_is_read_and_a_scan_are_operations_of_a_loop() -> None:
    """An embedding and a cumulative sum load and store, and are no copies."""
    scan = loop("16*p0 + p1", between="scan1 = self.scan1((torch.float32,), (load_1,))", stored="scan1")
    assert loop_calls(loop("p1 + 16*indirect0")) == {"load", "store", "set_indirect"}
    assert "scan" in loop_calls(scan)


def test_a_gather_reads_side_by_side_what_its_index_does_not_depend_on() -> None:
    """A row for each index is read as a whole; where each element has an index, elements are read one by one."""
    (rows,) = gathers(loop("p1 + 16*indirect0"))
    assert (rows.run, rows.count, rows.span) == (64, 64, 5000 * 64)
    (elements,) = gathers(loop("p1 + 16*indirect0", place="16*p0 + p1"))
    assert (elements.run, elements.count, elements.span) == (4, 1024, 5000 * 64)
    (within,) = gathers(loop("16*p0 + indirect0", place="16*p0 + p1"))
    assert (within.run, within.count, within.span) == (4, 1024, 64)
    assert list(gathers(loop("16*p0 + p1"))) == []


def test_a_scan_along_a_strided_dimension_is_told_from_one_in_order() -> None:
    """The loops of the scan come last; their step decides."""
    scan = "scan1 = self.scan1((torch.float32,), (load_1,))"
    assert [index for _, index, _ in scan_steps(loop("p0 + 64*p1", between=scan, outer=""))] == ["p0 + 64*p1"]
    assert list(scan_steps(loop("16*p0 + p1", between=scan, outer=""))) == []
    assert list(scan_steps(loop("p0 + 64*p1"))) == []


def test_a_read_across_rows_is_one_along_another_loop_than_the_write() -> None:
    """A transposed read has its neighbours along the outer loop."""
    assert list(across(loop("p0 + 64*p1", place="16*p0 + p1"))) == ["float32"]
    assert list(across(loop("16*p0 + p1", place="16*p0 + p1"))) == []
