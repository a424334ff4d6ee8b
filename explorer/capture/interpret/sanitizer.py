"""Find accesses of interpreted launches that read or write where they must not: outside, unwritten, or racing.

For each element of a tensor the launch's readers and writers are kept, two different programs of each. A program that accesses
what another one writes races with it, in whatever order the interpreter ran them. Memory is bounded by the tensors' sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from explorer.capture.interpret.accesses import Access, Listener, Region, UnwatchableError, WatchedMemory
from explorer.capture.interpret.blocks import Array, Blocks
from explorer.capture.interpret.interpreter import InterpretedLaunch
from explorer.errors import InputError

#: What a finding can be.
Kind = Literal["outside", "uninitialized", "write-write", "read-write"]
#: A place without an access; else the program, the site and the number of the program's atomics, in one number.
EMPTY = np.uint64(2**64 - 1)
#: The kinds of accesses that race with one of another program.
CONFLICTS: Mapping[str, tuple[str, ...]] = {
    "load": ("store", "atomic"),
    "store": ("load", "store", "atomic"),
    "atomic": ("load", "store"),
}
#: The bytes that unwritten memory is filled with: NaN as floats, and rare as other types.
UNWRITTEN_FLOAT, UNWRITTEN = 0xFF, 0xCD


@dataclass(frozen=True)
class Finding:
    """An access of a kernel's line that must not be, with the first element where it was seen, and how many there are.

    `element` counts from the start of `argument`. For a race `line` is that of the read or of the later write, `other_line` that
    of the write; `same_value` says whether two writes leave the same value. `program` and `other_program` are programs' ids.
    """

    kind: Kind
    access: str
    line: int
    argument: str
    element: int
    program: tuple[int, int, int]
    count: int
    other_access: str = ""
    other_line: int = 0
    other_program: tuple[int, int, int] | None = None
    same_value: bool | None = None


@dataclass(frozen=True)
class SanitizedLaunch:
    """What was looked at of one launch: programs, elements accessed, findings; `why_not` says why not all of it."""

    kernel: str
    file: str
    first_line: int
    source: tuple[str, ...] = field(repr=False)
    programs: int = 0
    accesses: int = 0
    findings: tuple[Finding, ...] = ()
    ordered: int = 0
    why_not: str = ""


@dataclass
class _Allocation:
    """Memory that was allocated unwritten: which bytes kernels wrote, and what the others hold."""

    filling: int
    written: Array


class Sanitizer:
    """Watches the launches of an interpreter: set its `launch` as the interpreter's watcher."""

    def __init__(self) -> None:
        self.launches: list[SanitizedLaunch] = []
        self.end = ""
        self._allocations: dict[int, _Allocation] = {}

    def ended(self, why: str) -> None:
        """Note that the call ended before all its launches ran."""
        self.end = why

    def allocated(self, tensor: Any) -> None:
        """Note a tensor that was allocated unwritten, and fill its memory."""
        memory = _bytes_of(tensor)
        filling = UNWRITTEN_FLOAT if tensor.dtype.is_floating_point else UNWRITTEN
        memory[:] = filling
        if len(memory):
            self._allocations[tensor.untyped_storage().data_ptr()] = _Allocation(filling, np.zeros(len(memory), bool))

    def launch(self, blocks: Blocks, function: Any, run: Callable[..., InterpretedLaunch]) -> InterpretedLaunch:
        """Run a launch and keep what was found of it. A launch that cannot be watched runs unwatched."""
        watch = _LaunchWatch(self._allocation, blocks, in_bytes=False)
        memory = WatchedMemory(watch)
        try:
            try:
                result = run(memory)
            except _SmallerError:
                memory.restore()
                watch = _LaunchWatch(self._allocation, blocks, in_bytes=True)
                memory = WatchedMemory(watch)
                result = run(memory)
        except UnwatchableError as error:
            memory.restore()
            for region in memory.regions:
                self._allocations.pop(region.data_ptr, None)
            self.launches.append(_launch_of(function, why_not=str(error)))
            return run()
        except InputError as error:
            self.launches.append(_launch_of(function, watch, why_not=f"it did not run to its end: {error}"))
            raise
        self.launches.append(_launch_of(function, watch, result.programs))
        return result

    def _allocation(self, region: Region) -> _Allocation | None:
        """Return what is known of unwritten memory; None if all of it may be written, such as by a library call."""
        allocation = self._allocations.get(region.data_ptr)
        if allocation is None:
            return None
        written = allocation.written
        if len(written) != len(region.bytes) or (region.before[~written] != allocation.filling).any():
            del self._allocations[region.data_ptr]
            return None
        return allocation


def _bytes_of(tensor: Any) -> Array:
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()


def _launch_of(function: Any, watch: _LaunchWatch | None = None, programs: int = 0, why_not: str = "") -> SanitizedLaunch:
    source = tuple(line.rstrip("\n") for line in function.raw_src)
    file = inspect.getfile(function.fn)
    launch = SanitizedLaunch(function.__name__, file, int(function.starting_line_number), source, programs, why_not=why_not)
    if watch is None:
        return launch
    return replace(
        launch,
        accesses=watch.accesses,
        findings=tuple(watch.findings.values()),
        ordered=watch.ordered,
    )


class _SmallerError(Exception):
    """An access is smaller than an element of its tensor, or in between two."""


class _LaunchWatch(Listener):
    """Keeps the readers and writers of each element of one launch, and what is found."""

    def __init__(self, allocation: Callable[[Region], _Allocation | None], blocks: Blocks, *, in_bytes: bool) -> None:
        self.findings: dict[tuple[object, ...], Finding] = {}
        self.accesses = 0
        self.ordered = 0
        self._allocations: dict[int, _Allocation | None] = {}
        self._allocation = allocation
        self._blocks = blocks
        self._in_bytes = in_bytes
        self._sites: list[tuple[str, int]] = []
        self._marks: dict[int, _Marks] = {}
        self._atomics: Array = np.zeros(0, np.int64)
        self._before: tuple[dict[tuple[object, ...], Finding], int, int, Array] | None = None
        self._overwritten: list[tuple[Array, Array, Array]] = []

    # Batches ---------------------------------------------------------------------------------------------------------

    def began(self, programs: Array) -> None:
        """Keep what is known before a batch of programs."""
        if not len(self._atomics):
            self._atomics = np.zeros(int(np.prod(self._blocks.grid)), np.int64)
        self._before = dict(self.findings), self.accesses, self.ordered, self._atomics.copy()
        self._overwritten = []

    def undone(self) -> None:
        """Go back to what was known before the batch. Its reads stay: the programs will read the same again."""
        assert self._before is not None
        self.findings, self.accesses, self.ordered, self._atomics = self._before
        for array, index, before in reversed(self._overwritten):
            array[index] = before

    # Accesses --------------------------------------------------------------------------------------------------------

    def outside(self, access: Access) -> None:
        """Keep an access outside of its tensor."""
        self.accesses += access.count
        self._keep(access, 0, "outside", access.count)

    def accessed(self, access: Access) -> None:
        """Keep who accesses elements; a race and a read of unwritten memory are findings."""
        self.accesses += access.count
        region = access.region
        if region.number not in self._allocations:
            self._allocations[region.number] = self._allocation(region)
            self._marks[region.number] = _Marks(len(region.bytes), 1 if self._in_bytes else region.itemsize)
        self._unwritten_read(access, self._allocations[region.number])
        marks = self._marks[region.number]
        index, lanes = marks.index(access)
        programs = access.programs[lanes]
        site = self._site(access)
        entry = (
            (programs.astype(np.uint64) << np.uint64(32))
            | np.uint64(site << 16)
            | np.minimum(self._atomics[programs], 0xFFFF).astype(np.uint64)
        )
        for kind in CONFLICTS[access.kind]:
            for place in marks.of(kind):
                other = place[index]
                self._races(access, lanes, other, (other != EMPTY) & (_program(other) != programs), together=False)
        at_once = marks.put(access.kind, index, entry, self._overwritten if access.kind != "load" else None)
        if access.kind == "store":
            self._races(access, lanes, marks.of("store")[0][index], at_once, together=True)
        if access.orders:
            self._atomics[np.unique(access.programs)] += 1

    def _unwritten_read(self, access: Access, allocation: _Allocation | None) -> None:
        if allocation is None:
            return
        if access.kind != "store" and (never := ~allocation.written[access.offsets]).any():
            self._keep(access, int(np.flatnonzero(never)[0]), "uninitialized", int(never.sum()))
        if access.kind != "load":
            for step in range(access.itemsize):
                place = access.offsets + step
                self._overwritten.append((allocation.written, place, allocation.written[place]))
                allocation.written[place] = True

    def _races(self, access: Access, lanes: Array, other: Array, hit: Array, *, together: bool) -> None:
        """Keep the races with other accesses, given for each lane; those that atomics order are only counted."""
        if not hit.any():
            return
        lanes, other = lanes[hit], other[hit]
        if not together:
            clock = (other & np.uint64(0xFFFF)).astype(np.int64)
            ordered = (self._atomics[_program(other)] > clock) & (self._atomics[access.programs[lanes]] > 0)
            self.ordered += int(ordered.sum())
            lanes, other = lanes[~ordered], other[~ordered]
        for site in np.unique(_site_of(other)):
            of_site = _site_of(other) == site
            kind, line = self._sites[int(site)]
            self._race(access, lanes[of_site], kind, line, int(_program(other[of_site])[0]), together=together)

    def _race(self, access: Access, lanes: Array, kind: str, line: int, program: int, *, together: bool) -> None:
        first, count = int(lanes[0]), len(lanes)
        if "load" not in (access.kind, kind):
            same = access.kind == kind == "store" and self._same(access, lanes, together=together)
            self._keep(access, first, "write-write", count, (kind, line, program), same_value=same)
        elif access.kind == "load":
            self._keep(access, first, "read-write", count, (kind, line, program))
        else:
            write = access.kind, access.line, int(access.programs[first])
            read = replace(access, kind=kind, line=line, programs=np.full(len(access.programs), program))
            self._keep(read, first, "read-write", count, write)

    @staticmethod
    def _same(access: Access, lanes: Array, *, together: bool) -> bool:
        """Whether a store writes what another program's store left, or of one store what the last program left."""
        assert access.data is not None and access.overwritten is not None
        data = np.ascontiguousarray(access.data[lanes])
        left = access.region.read(access.offsets[lanes], data.dtype) if together else access.overwritten[lanes]
        return data.tobytes() == np.ascontiguousarray(left).tobytes()

    def _keep(
        self,
        access: Access,
        lane: int,
        kind: Kind,
        count: int,
        other: tuple[str, int, int] | None = None,
        same_value: bool | None = None,
    ) -> None:
        """Keep a finding, once for each pair of lines, argument and kind."""
        region = access.region
        key = kind, access.kind, access.line, region.name, other[:2] if other else None
        if key in self.findings:
            found = self.findings[key]
            same = None if same_value is None else bool(found.same_value and same_value)
            self.findings[key] = replace(found, count=found.count + count, same_value=same)
            return
        self.findings[key] = Finding(
            kind,
            access.kind,
            access.line,
            region.name,
            (int(access.offsets[lane]) - region.offset) // region.itemsize,
            self._id(int(access.programs[lane])),
            count,
            other[0] if other else "",
            other[1] if other else 0,
            self._id(other[2]) if other else None,
            same_value,
        )

    def _id(self, program: int) -> tuple[int, int, int]:
        x, y, _ = self._blocks.grid
        return program % x, program // x % y, program // (x * y)

    def _site(self, access: Access) -> int:
        """The number of an access's kind and line."""
        site = access.kind, access.line
        if site not in self._sites:
            self._sites.append(site)
        return self._sites.index(site)


class _Marks:
    """For each element of a storage two different programs that loaded it, that stored to it, and that accessed it atomically."""

    def __init__(self, size: int, grain: int) -> None:
        self._count = -(-size // grain)
        self._grain = grain
        self._places: dict[str, tuple[Array, Array]] = {}

    def index(self, access: Access) -> tuple[Array, Array]:
        """The numbers of the elements that are accessed, and for each its place in the access."""
        grain, lanes = self._grain, np.arange(len(access.offsets))
        if access.itemsize % grain or (access.offsets % grain).any():
            raise _SmallerError
        index = access.offsets // grain
        if (parts := access.itemsize // grain) == 1:
            return index, lanes
        return (index[:, None] + np.arange(parts)).reshape(-1), np.repeat(lanes, parts)

    def of(self, kind: str) -> tuple[Array, ...]:
        """The two places of a kind of access; () where there was none."""
        return self._places.get(kind, ())

    def put(self, kind: str, index: Array, entry: Array, log: list[tuple[Array, Array, Array]] | None) -> Array:
        """Note an access, and what that overwrites; return where programs access an element at once and another was noted."""
        if kind not in self._places:
            self._places[kind] = np.full(self._count, EMPTY), np.full(self._count, EMPTY)
        first, second = self._places[kind]
        before = first[index]
        mine = (before == EMPTY) | (_program(before) == _program(entry))
        others = np.ones(len(index), bool)
        for array, chosen in ((first, mine), (second, others)):
            if log is not None:
                log.append((array, index[chosen], array[index[chosen]]))
            array[index[chosen]] = entry[chosen]
            others &= _program(first[index]) != _program(entry)
        return mine & others


def _program(entry: Array) -> Array:
    return (entry >> np.uint64(32)).astype(np.int64)


def _site_of(entry: Array) -> Array:
    return ((entry >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64)


__all__: Sequence[str] = ("Finding", "SanitizedLaunch", "Sanitizer")
