"""The sanitizer: each kind of fault is found with its line, programs and element, and what is right is not a finding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from explorer.capture.interpret.interpreter import interpreting
from explorer.capture.interpret.sanitizer import Finding, Sanitizer
from explorer.errors import InputError

triton = pytest.importorskip("triton")
tl: Any = triton.language


@triton.jit
def copied(x, out, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """out = x moved by SHIFT."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i + SHIFT, i < n), i < n)


@triton.jit
def added_without_atomic(x, out):
    """out += x, by all programs at once."""
    old = tl.load(out)
    tl.store(out, old + tl.load(x + tl.program_id(0)))


@triton.jit
def added_with_atomic(x, out):
    """out += x, as it should be."""
    tl.atomic_add(out, tl.load(x + tl.program_id(0)))


@triton.jit
def same_for_all(out, value):
    """All programs but the first write one number to one element, half of them once more on a branch."""
    place = out + (tl.program_id(0) + 3) // 4
    tl.store(place, value)
    if tl.program_id(0) % 2 == 0:
        tl.store(place, value)


@triton.jit
def different_for_all(out):
    """All programs but the first write their numbers to one element."""
    tl.store(out + (tl.program_id(0) + 3) // 4, tl.program_id(0).to(tl.float32))


@triton.jit
def summed_by_last(x, parts, count, out, SEM: tl.constexpr, N: tl.constexpr):
    """The last program adds up what all have written."""
    tl.store(parts + tl.program_id(0), tl.load(x + tl.program_id(0)))
    if tl.atomic_add(count, 1, sem=SEM) == tl.num_programs(0) - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, N)), 0))


@triton.jit
def bytes_of(x, out, n, BLOCK: tl.constexpr):
    """Write a float's bytes, a program for each."""
    i = tl.program_id(0)
    tl.store(out.to(tl.pointer_type(tl.int8)) + i, tl.load(x.to(tl.pointer_type(tl.int8)) + i))


@triton.jit
def stopped(x, out, n):
    """Write outside, and stop."""
    tl.store(out + n, 1.0)
    tl.assume(n < 0)


@triton.jit
def through_number(x, number):
    """*number = 1, where the number is an address."""
    tl.store(x, tl.load(x) + 2)
    tl.store(number.to(tl.int64).to(tl.pointer_type(tl.float32)), 1.0)


def sanitized(
    kernel: Any, args: tuple[Any, ...], programs: int, sanitizer: Sanitizer | None = None, **constants: Any
) -> Sanitizer:
    """Run a kernel under a sanitizer."""
    sanitizer = sanitizer or Sanitizer()
    with interpreting(watcher=sanitizer.launch) as interpreter:
        interpreter.run(kernel, args, constants, (programs,))
    return sanitizer


def findings(kernel: Any, args: tuple[Any, ...], programs: int, **constants: Any) -> tuple[Finding, ...]:
    """The findings of one launch that was looked at."""
    (launch,) = sanitized(kernel, args, programs, **constants).launches
    assert not launch.why_not
    return launch.findings


def kinds(found: tuple[Finding, ...]) -> list[str]:
    return sorted(finding.kind for finding in found)


@pytest.mark.parametrize(("shift", "element", "program"), [(1, 6, (1, 0, 0)), (-1, -1, (0, 0, 0)), (0, None, None)])
def test_a_load_outside_of_its_tensor_is_found_on_both_sides(shift: int, element: int | None, program: object) -> None:
    """A load behind the end or before the start is found with element and program; one inside is not."""
    found = findings(copied, (torch.arange(6.0), torch.zeros(6), 6), 2, SHIFT=shift, BLOCK=4)
    assert [(f.kind, f.argument, f.element, f.program) for f in found] == (
        [("outside", "x", element, program)] if element is not None else []
    )


def test_a_sum_without_an_atomic_is_a_race_of_reads_and_of_writes() -> None:
    """Eight programs that add to one element without an atomic race; compute-sanitizer sees no hazard there."""
    found = findings(added_without_atomic, (torch.ones(8), torch.zeros(1)), 8)
    assert kinds(found) == ["read-write", "write-write"]
    first = int(added_without_atomic.starting_line_number)
    (race,) = (f for f in found if f.kind == "read-write")
    assert (race.line - first, race.other_line - first, race.argument, race.element) == (3, 4, "out", 0)
    assert race.program != race.other_program
    assert not findings(added_with_atomic, (torch.ones(8), torch.zeros(1)), 8)


def test_a_shift_in_place_reads_what_another_program_writes() -> None:
    """Programs that read their neighbour's elements in place race, also where the interpreter gives the expected numbers."""
    x = torch.arange(8.0)
    assert kinds(findings(copied, (x, x, 7), 2, SHIFT=1, BLOCK=4)) == ["read-write"]
    assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 7]


def test_equal_writes_are_told_from_different_ones() -> None:
    """A race of writes says whether all leave the same value, at once and where a batch diverges and runs again."""
    assert {f.same_value for f in findings(same_for_all, (torch.zeros(2), 5.0), 5)} == {True}
    assert {f.same_value for f in findings(different_for_all, (torch.zeros(2),), 5)} == {False}


def test_accesses_between_atomics_are_counted_and_not_judged() -> None:
    """The last program may read what the others wrote before their atomics; with relaxed ones it may not."""
    args = torch.ones(4), torch.zeros(4), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    (launch,) = sanitized(summed_by_last, args, 4, SEM="acq_rel", N=4).launches
    assert (launch.findings, launch.ordered > 0) == ((), True)
    args = torch.ones(4), torch.zeros(4), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    assert kinds(findings(summed_by_last, args, 4, SEM="relaxed", N=4)) == ["read-write"]


def test_programs_that_write_parts_of_one_element_do_not_race() -> None:
    """Accesses smaller than the tensor's elements are watched byte by byte."""
    x, out = torch.tensor([1.5, 2.5]), torch.zeros(2)
    assert not findings(bytes_of, (x, out, 2), 8, BLOCK=1)
    assert torch.equal(x, out)


def test_a_read_of_memory_that_nothing_wrote_is_found() -> None:
    """Memory that was allocated unwritten may be read where a kernel, or a library, has written it, and nowhere else."""
    sanitizer, memory, out = Sanitizer(), torch.empty(8), torch.zeros(8)
    sanitizer.allocated(memory)
    sanitized(copied, (torch.ones(8), memory, 6), 2, sanitizer, SHIFT=0, BLOCK=4)
    sanitized(copied, (memory, out, 8), 2, sanitizer, SHIFT=0, BLOCK=4)
    wrote, read = sanitizer.launches
    assert not wrote.findings
    assert [(f.kind, f.element, f.count) for f in read.findings] == [("uninitialized", 6, 2)]
    memory.fill_(1.0)
    sanitized(copied, (memory, out, 8), 2, sanitizer, SHIFT=0, BLOCK=4)
    assert not sanitizer.launches[-1].findings


def test_a_launch_that_stops_keeps_what_was_found() -> None:
    """A wrong assumption ends the launch; it is not complete, and its findings are there."""
    sanitizer = Sanitizer()
    with pytest.raises(InputError, match="does not hold"):
        sanitized(stopped, (torch.ones(1), torch.ones(1), 1), 1, sanitizer)
    (launch,) = sanitizer.launches
    assert (kinds(launch.findings), "did not run to its end" in launch.why_not) == (["outside"], True)


def test_a_launch_that_cannot_be_watched_runs_and_says_so() -> None:
    """What a launch writes through a number is written as without a sanitizer, and the launch is no clean one."""
    x, y = torch.zeros(1), torch.zeros(1)
    (launch,) = sanitized(through_number, (x, y.data_ptr()), 1).launches
    assert (float(x), float(y)) == (2, 1)
    assert "number as an address" in launch.why_not
