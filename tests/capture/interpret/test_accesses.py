"""Watched launches: what is told of each access, and that a launch computes the same as unwatched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from explorer.capture.interpret import accesses
from explorer.capture.interpret.accesses import Access, Listener, UnwatchableError, WatchedMemory
from explorer.capture.interpret.interpreter import interpreting

triton = pytest.importorskip("triton")
tl: Any = triton.language


@triton.jit
def shifted(x, out, n, BLOCK: tl.constexpr):
    """out = x moved by one, with a load that leaves x at the end."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i + 1, i < n)
    tl.store(out + i, value, i < n)


@triton.jit
def counted(count, out):
    """out = how many programs have been here, by the last one."""
    tl.store(out + tl.program_id(0), 1.0)
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        tl.store(out, tl.sum(tl.load(out + tl.arange(0, 4)), 0))


@triton.jit
def halves(x, out):
    """The upper 16 bits of each bfloat16 sum, added up atomically."""
    tl.atomic_add(out, tl.load(x + tl.program_id(0)))


@triton.jit
def through_number(x, number):
    """*number = 1, where the number is an address."""
    tl.store(number.to(tl.int64).to(tl.pointer_type(tl.float32)), 1.0)


class Heard(Listener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.inside: list[Access] = []
        self.left: list[Access] = []
        self.undone_batches = 0

    def accessed(self, access: Access) -> None:
        self.inside.append(access)

    def outside(self, access: Access) -> None:
        self.left.append(access)

    def undone(self) -> None:
        self.undone_batches += 1


def watched(kernel: Any, args: tuple[Any, ...], grid: tuple[int, ...], **constants: Any) -> Heard:
    """Run a kernel with its accesses told."""
    heard = Heard()
    with interpreting(watcher=lambda blocks, function, launch: launch(WatchedMemory(heard))) as interpreter:
        interpreter.run(kernel, args, constants, grid)
    return heard


def line_of(kernel: Any, text: str) -> int:
    """The line of the file on which the kernel has a text."""
    lines = kernel.raw_src
    return int(kernel.starting_line_number) + next(n for n, line in enumerate(lines) if text in line)


def test_accesses_are_told_with_program_line_argument_and_offset() -> None:
    """Each element is told with its program, the kernel's line, the argument and the offset in bytes; masked ones are not."""
    x, out = torch.arange(6.0), torch.zeros(6)
    heard = watched(shifted, (x, out, 5), (2,), BLOCK=4)
    stores = [each for each in heard.inside if each.kind == "store"]
    assert {(each.line, each.region.name) for each in stores} == {(line_of(shifted, "tl.store"), "out")}
    pairs = sorted((int(p), int(o)) for each in stores for p, o in zip(each.programs, each.offsets, strict=True))
    assert pairs == [(0, 0), (0, 4), (0, 8), (0, 12), (1, 16)]
    assert out.tolist() == [1, 2, 3, 4, 5, 0]
    assert not heard.left


def test_an_access_that_leaves_its_tensor_is_told_and_has_no_effect() -> None:
    """A load behind the end is told with the tensor that it left, even if another tensor's memory is there."""
    both = torch.arange(8.0)
    x, out = both[:4].clone(), torch.full((4,), -1.0)
    heard = watched(shifted, (x, out, 4), (1,), BLOCK=4)
    assert [(each.kind, each.region.name, each.offsets.tolist()) for each in heard.left] == [("load", "x", [16])]
    assert out.tolist() == [1, 2, 3, 0]


def test_a_batch_that_diverges_is_undone_and_told_again() -> None:
    """Programs that branch on an atomic's result leave what they leave unwatched."""
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(4)
    heard = watched(counted, (count, out), (4,))
    assert (int(count), out.tolist()) == (4, [4, 1, 1, 1])
    assert heard.undone_batches
    assert all(each.orders for each in heard.inside if each.kind == "atomic")


def test_atomics_of_small_floats_are_no_loads_and_stores() -> None:
    """An atomic addition that the interpreter performs itself is told as one atomic."""
    x, out = torch.ones(3, dtype=torch.float16), torch.zeros(1, dtype=torch.float16)
    heard = watched(halves, (x, out), (3,))
    assert {each.kind for each in heard.inside if each.region.name == "out"} == {"atomic"}
    assert float(out) == 3


def test_a_number_as_an_address_cannot_be_watched() -> None:
    """A launch whose tensors are unknown says so, and what it wrote before can be undone."""
    x = torch.zeros(1)
    with pytest.raises(UnwatchableError, match="number as an address"):
        watched(through_number, (x, x.data_ptr()), (1,))


def test_a_view_is_addressed_from_its_own_start() -> None:
    """Offsets count from the storage's start, and the region says where the argument begins in it."""
    base = torch.zeros(8)
    heard = watched(shifted, (torch.arange(6.0), base[2:], 2), (1,), BLOCK=4)
    (store,) = (each for each in heard.inside if each.kind == "store")
    assert (store.region.offset, store.offsets.tolist()) == (8, [8, 12])
    assert np.flatnonzero(base.numpy()).tolist() == [2, 3]


def test_a_launch_with_large_tensors_cannot_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch whose tensors are larger than what may be kept says so, and names the tensor."""
    monkeypatch.setattr(accesses, "MAX_BYTES", 2**20)
    with pytest.raises(UnwatchableError, match=r"more than 1 MiB .* up to out"):
        watched(shifted, (torch.zeros(8), torch.zeros(2**18), 4), (1,), BLOCK=4)
