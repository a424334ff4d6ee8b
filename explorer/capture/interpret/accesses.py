"""Tell each load, store and atomic of an interpreted launch: by which programs, on which line, where in which tensor.

Each storage gets addresses far from all others, so an address that leaves its tensor still says which tensor it left.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from explorer.capture.interpret.blocks import Array, Memory

#: Each storage has addresses of this many bits for itself, above all that a process can have.
BITS, FIRST = 40, 2**13
#: The most bytes of one launch's tensors: what a listener keeps of each element is up to twelve times a float's size.
MAX_BYTES = 2**27
#: A name that only the rewritten source of a kernel has among its globals.
_OF_KERNELS = "_explorer_value"


class UnwatchableError(Exception):
    """A launch does what cannot be watched, such as using a number as an address."""


@dataclass(frozen=True)
class Region:
    """The storage of a tensor: the first argument in it, its bytes, and where the argument begins in it."""

    name: str
    number: int
    data_ptr: int
    bytes: Array = field(repr=False)
    before: Array = field(repr=False)
    offset: int
    itemsize: int

    @property
    def first(self) -> int:
        """The first of its addresses in a watched launch, aligned as the storage is."""
        return ((FIRST + self.number) << BITS) + (self.data_ptr & 0xFFF)

    def holds(self, offset: Array, size: int) -> Array:
        """Tell for each offset whether so many bytes from there are inside of the storage."""
        inside: Array = (offset >= 0) & (offset + size <= len(self.bytes))
        return inside

    def read(self, offset: Array, kind: Any) -> Array:
        """Read elements at offsets in bytes."""
        if kind.itemsize == 1 or not (offset % kind.itemsize).any():
            return self._elements(kind)[offset // kind.itemsize]
        return self.bytes[offset[:, None] + np.arange(kind.itemsize)].reshape(-1).view(kind)

    def write(self, offset: Array, data: Array) -> None:
        """Write elements at offsets in bytes; of several at one offset the last stays."""
        size = data.dtype.itemsize
        if size == 1 or not (offset % size).any():
            self._elements(data.dtype)[offset // size] = data
        else:
            self.bytes[offset[:, None] + np.arange(size)] = np.ascontiguousarray(data).view(np.uint8).reshape(-1, size)

    def _elements(self, kind: Any) -> Array:
        return self.bytes[: len(self.bytes) // kind.itemsize * kind.itemsize].view(kind)


@dataclass(frozen=True)
class Access:
    """One load, store or atomic in one storage.

    `programs` and `offsets`, in bytes from the storage's start, have one number per element. Where all programs of a batch access
    the same elements, only the first and the last program are told; `count` counts all. `data` and `overwritten` are the values
    of a store. `orders` says that an atomic orders other accesses too: it is not relaxed.
    """

    kind: str
    line: int
    region: Region
    programs: Array
    offsets: Array
    itemsize: int
    count: int
    data: Array | None = None
    overwritten: Array | None = None
    orders: bool = False


class Listener:
    """Is told what the programs of a launch access. An undone batch runs again in parts, and is told again."""

    def began(self, programs: Array) -> None:
        """Hear that a batch of programs begins."""

    def undone(self) -> None:
        """Hear that the batch is undone."""

    def outside(self, access: Access) -> None:
        """Hear of elements outside of the storage; they are neither read nor written."""

    def accessed(self, access: Access) -> None:
        """Hear of elements inside of the storage; a store is heard after it was done."""


class WatchedMemory(Memory):
    """The memory of a launch whose accesses are told to a listener. An access outside of its tensor has no effect."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.regions: list[Region] = []
        self._listener = listener
        self._programs: Array = np.zeros(1, np.int64)
        self._overwritten: list[tuple[Region, Array, Array]] | None = None
        self._nowhere = np.zeros(16, np.uint8)

    def allow(self, tensor: Any, name: str) -> int:
        """Give a tensor's storage addresses of its own; return what to add to those that it has."""
        import torch

        storage = tensor.untyped_storage()
        data_ptr = int(storage.data_ptr())
        region = next((each for each in self.regions if each.data_ptr == data_ptr and data_ptr), None)
        if region is None:
            if (size := storage.nbytes() + sum(len(each.bytes) for each in self.regions)) > MAX_BYTES:
                raise UnwatchableError(
                    f"its tensors have more than {MAX_BYTES >> 20} MiB ({size >> 20} MiB up to {name}): trace with smaller inputs"
                )
            memory = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            offset = tensor.data_ptr() - data_ptr if data_ptr else 0
            region = Region(name, len(self.regions), data_ptr, memory, memory.copy(), offset, tensor.element_size())
            self.regions.append(region)
            self.ranges.append((region.first, region.first + len(memory), name))
        return region.first - data_ptr

    def begin(self, programs: Array) -> None:
        """Start a batch of programs, by their numbers in the launch."""
        super().begin(programs)
        self._programs = programs
        self._listener.began(programs)

    def uncheck(self) -> None:
        """UnwatchableError: the tensor of an address that was a number is not known."""
        raise UnwatchableError("it uses a number as an address, and the tensor of such an address is not known")

    def remember(self, on: bool) -> None:
        """Start or stop keeping overwritten values."""
        self._overwritten = [] if on else None

    def undo(self) -> None:
        """Undo all writes since `remember`."""
        for region, offset, data in reversed(self._overwritten or ()):
            region.write(offset, data)
        self._listener.undone()

    def restore(self) -> None:
        """Undo the whole launch."""
        for region in self.regions:
            region.bytes[:] = region.before

    # Accesses --------------------------------------------------------------------------------------------------------

    def load(self, address: Array, mask: Array, other: Array, kind: Any) -> Array:
        """Load the elements at the addresses where `mask` holds, `other` elsewhere."""
        self.watch.read(address)
        whole, chosen = np.broadcast_arrays(address, mask)
        self._tell("load", whole, chosen, kind.itemsize)
        return self.peek(address, mask, other, kind)

    def store(self, address: Array, data: Array, mask: Array) -> None:
        """Write the elements where `mask` holds."""
        address, mask, data = np.broadcast_arrays(address, mask, data)
        self.watch.wrote()
        before = self.peek(address, mask, np.zeros(1, data.dtype), data.dtype)
        self.poke(address, data, mask)
        self._tell("store", address, mask, data.dtype.itemsize, data, before)

    def atomic(self, address: Array, mask: Array, kind: Any, sem: Any) -> Array:
        """Tell an atomic operation, and return the process's addresses; what is outside goes to memory of no tensor."""
        self._tell("atomic", address, mask, kind.itemsize, orders="relaxed" not in str(sem).lower())
        self.touch(address, mask, kind)
        real = np.full(address.shape, self._nowhere.ctypes.data, np.uint64)
        for region, where, offset in self._inside(address, mask, kind.itemsize):
            real.reshape(-1)[where] = offset.astype(np.uint64) + np.uint64(region.data_ptr)
        return real

    def peek(self, address: Array, mask: Array, other: Array, kind: Any) -> Array:
        """Load elements without telling it."""
        address, mask, other = np.broadcast_arrays(address, mask, other)
        loaded = np.array(other.astype(kind, copy=False), order="C")
        for region, where, offset in self._inside(address, mask, kind.itemsize):
            loaded.reshape(-1)[where] = region.read(offset, kind)
        return loaded

    def poke(self, address: Array, data: Array, mask: Array) -> None:
        """Write elements without telling it."""
        self.touch(address, mask, data.dtype)
        for region, where, offset in self._inside(address, mask, data.dtype.itemsize):
            region.write(offset, data.reshape(-1)[where])

    def touch(self, address: Array, mask: Array, kind: Any) -> None:
        """Note that elements are about to be written, and keep their old values for `undo`."""
        for region, _, offset in self._inside(address, mask, kind.itemsize):
            self.written.add(region.name)
            if self._overwritten is not None:
                self._overwritten.append((region, offset, region.read(offset, kind)))

    def _tell(
        self,
        kind: str,
        address: Array,
        mask: Array,
        itemsize: int,
        data: Array | None = None,
        before: Array | None = None,
        orders: bool = False,
    ) -> None:
        """Tell the listener of an access, one storage after the other."""
        programs, repeats = self._programs, 1
        if len(address) == 1 < len(programs):
            repeats = len(programs)
            programs = programs[[0, -1]]
            address, mask = (np.broadcast_to(each, (2, *each.shape[1:])) for each in (address, mask))
            if data is not None and before is not None:
                data, before = (np.broadcast_to(each, address.shape) for each in (data, before))
        of_elements = np.broadcast_to(programs.reshape(-1, *[1] * (address.ndim - 1)), address.shape).reshape(-1)
        line = _line()
        for region, where, offset in self._chosen(address, mask):
            inside = region.holds(offset, itemsize)
            for chosen, hear in ((inside, self._listener.accessed), (~inside, self._listener.outside)):
                if (count := int(chosen.sum())) == 0:
                    continue
                places = where[chosen]
                hear(
                    Access(
                        kind,
                        line,
                        region,
                        of_elements[places],
                        offset[chosen],
                        itemsize,
                        count if repeats == 1 else count // 2 * repeats,
                        None if data is None else data.reshape(-1)[places],
                        None if before is None else before.reshape(-1)[places],
                        orders,
                    )
                )

    def _inside(self, address: Array, mask: Array, itemsize: int) -> Iterator[tuple[Region, Array, Array]]:
        for region, where, offset in self._chosen(address, mask):
            inside = region.holds(offset, itemsize)
            yield (region, where, offset) if inside.all() else (region, where[inside], offset[inside])

    def _chosen(self, address: Array, mask: Array) -> Iterator[tuple[Region, Array, Array]]:
        """Yield each storage with the places that the mask leaves in the array, and their offsets in bytes."""
        where = np.flatnonzero(mask)
        chosen = address.reshape(-1)[where]
        numbers = ((chosen + np.uint64(1 << (BITS - 1))) >> np.uint64(BITS)).astype(np.int64) - FIRST
        several = numbers.size and (numbers != numbers[0]).any()
        for number in np.unique(numbers) if several else numbers[:1]:
            if not 0 <= number < len(self.regions):
                raise UnwatchableError("it accesses an address that is of none of its arguments, such as one that it loaded")
            region = self.regions[number]
            of_region = numbers == number if several else slice(None)
            yield region, where[of_region], (chosen[of_region] - np.uint64(region.first)).view(np.int64)


def _line() -> int:
    """The line of the launched kernel that is running, in its file; 0 where none is."""
    frame: FrameType | None = sys._getframe(1)
    line = 0
    while frame is not None:
        if _OF_KERNELS in frame.f_globals:
            line = frame.f_lineno
        frame = frame.f_back
    return line


__all__: Sequence[str] = ("Access", "Listener", "Region", "UnwatchableError", "WatchedMemory")
