"""Verdicts on how kernels address memory: reads whose neighbours in memory nobody uses. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict, percent, size
from explorer.analysis.questions.costs import SECTOR
from explorer.analysis.questions.memory import element_size
from explorer.model.integers import evaluated
from explorer.model.values import Artifact, once, text_lines
from explorer.model.wording import quantity

#: A dependency as the scheduler prints it: the buffer, the index, and the ranges of its variables.
_ACCESS = re.compile(r"MemoryDep\('(?P<buffer>\w+)', (?P<index>[^{}']+), \{(?P<ranges>[^{}]*)\}")
_HEAD = re.compile(r"^(?P<name>\w+): \w*SchedulerNode\(")
_CALL = re.compile(r" = (?:ops|self)\.(?!get_index)([a-z_]+)")
_MUTATIONS = re.compile(r"\.mutations = \[([^\]]*)\]")
_INDEX = re.compile(r"^\s*(index\d+) = (.+)$", re.MULTILINE)
_STEP = re.compile(r"^\s*(\w+) = (?:ops|self)\.(\w+)\((.*)\)$", re.MULTILINE)
_SIZES = re.compile(r"\.sizes = \(\[([^\]]*)\], \[")
_RANGE = re.compile(r"(\w+): (\d+)")
_LAYOUT = re.compile(
    r"^\s*(?P<buffer>\w+?)(?:\.layout|_layout) = .*?torch\.(?P<dtype>\w+), size=\[(?P<size>[^\]]*)\]"
    r"(?:, stride=\[(?P<stride>[^\]]*)\])?",
    re.MULTILINE,
)
#: A buffer counts as read apart if less than this share of the fetched bytes is used.
USED = 0.6

#: Fewer bytes than this side by side at a computed place are read apart.
MIN_RUN = 64
#: A read at a random place of a table larger than L2 takes as long as so many bytes at full bandwidth: measured on an H100 with
#: torch 2.11, 30 ps for each of 16 million reads of 4 bytes in 256 MB, and for 4 million of 8 bytes.
RANDOM_BYTES = 96


@dataclass(frozen=True)
class Access:
    """The reads of a buffer by one scheduler node: the index, its ranges, and the elements of a sector that are used."""

    buffer: str
    index: str
    ranges: Mapping[str, int]
    dtype: str
    offsets: frozenset[int]
    step: int

    @property
    def fetched(self) -> int:
        """The bytes that memory hands out: whole sectors."""
        each = element_size(self.dtype)
        sectors = {offset * each // SECTOR for offset in self.offsets}
        return math.prod(self.ranges.values()) * min(len(sectors) * SECTOR, self.step * each)

    @property
    def used(self) -> int:
        """The bytes that are used of them."""
        return math.prod(self.ranges.values()) * len(self.offsets) * element_size(self.dtype)


def uncoalesced(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for the kernels that read single elements of sectors whose others nobody reads."""
    if traced.is_cpu:
        return
    found = [(launch, access) for launch in traced.launches for access in _accesses(traced, launch)]
    if not found:
        return
    wasted = sum(access.fetched - access.used for _, access in found)
    launch, access = max(found, key=lambda pair: pair[1].fetched - pair[1].used)
    launches = list(dict.fromkeys(id(one) for one, _ in found))
    yield Verdict(
        "uncoalesced",
        f"{quantity(len(launches), 'kernel')} with reads of single elements, {access.step} apart",
        Cost(
            traced.seconds_of(wasted),
            "estimated",
            f"sectors of {SECTOR} bytes that are fetched for a part, {traced.bandwidth}",
            wasted,
            beyond=True,
        ),
        f"{launch.name} reads {traced.inputs_of(launch).get(access.buffer, access.buffer)} at {access.index}: "
        f"{percent(access.used / access.fetched).partition(' of')[0]} of what is fetched is used",
        "lay the data out so that what is read together lies together: one tensor a field, or a transposed one made once",
        traced.lines_of([launch]),
        traced.places_of([launch]),
        why_unproved="the layout of an input has to change: trace with the changed one, and explorer.compare() shows both",
    )


def random_reads(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for the kernels that read little at a time, at computed places of a table larger than L2."""
    if traced.target is None or not traced.target.l2:
        return
    found = [
        (launch, gather)
        for launch in traced.launches
        if launch.row["kernels"] and not launch.measured
        for text in node_texts(traced, launch)
        for gather in gathers(text)
        if gather.span > traced.target.l2 and gather.run < MIN_RUN
    ]
    if not found:
        return
    launch, gather = max(found, key=lambda pair: pair[1].count)
    launches = list({id(one): one for one, _ in found}.values())
    wasted = sum(one.count * (RANDOM_BYTES - one.run) for _, one in found)
    yield Verdict(
        "uncoalesced",
        f"{quantity(len(launches), 'kernel')} with reads at computed places, {gather.run} bytes at a time",
        Cost(
            traced.seconds_of(wasted),
            "estimated",
            f"each read as long as {RANDOM_BYTES} bytes, as measured on an H100 with indices in random order",
            wasted,
            beyond=True,
        ),
        f"{launch.name} reads {traced.inputs_of(launch).get(gather.buffer, gather.buffer)} at {gather.index}, "
        f"{gather.count:,} times, anywhere in {size(gather.span)}; L2 holds {size(traced.target.l2)}",
        "sort the indices, or keep what one index needs in one row of at least 64 bytes; indices that are in order cost less",
        traced.lines_of(launches),
        traced.places_of(launches),
        why_unproved="a trace does not know the indices: time it with yours, on the GPU",
    )


def strided_scans(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each scan along a dimension whose elements do not lie side by side."""
    if traced.target is None:
        return
    for launch in traced.launches:
        texts = node_texts(traced, launch) if launch.row["kernels"] and not launch.measured else []
        steps = [step for text in texts for step in scan_steps(text)]
        if not steps:
            continue
        buffer, index, dtype = steps[0]
        each = element_size(dtype) * _rows_of_a_block(traced, launch)
        wasted = (launch.row["read"] + launch.row["written"]) * (SECTOR // each - 1)
        yield Verdict(
            "uncoalesced",
            f"{launch.name} scans along elements that do not lie side by side",
            Cost(
                traced.seconds_of(wasted),
                "estimated",
                f"sectors of {SECTOR} bytes, {each} of them used, {traced.bandwidth}",
                wasted,
                beyond=True,
            ),
            f"a block scans one row of {traced.inputs_of(launch).get(buffer, buffer)}, and reads it at {index}",
            "scan along the last dimension of a contiguous tensor: x.t().contiguous().cumsum(-1) copies once and scans in order",
            traced.lines_of([launch]),
            traced.places_of([launch]),
            why_unproved="the line has to change: trace the changed program, and explorer.compare() shows both",
        )


def _rows_of_a_block(traced: TracedCall, launch: Launch) -> int:
    """Count the rows that a block of a scan handles side by side, by its grid; 1 where that is not known."""
    rows = launch.row["rows"] or 0
    grids = [row["grid"] for kernel in traced.kernels_of(launch) for row in kernel.launches]
    blocks = next((math.prod(grid) for grid in grids if all(isinstance(part, int) for part in grid)), 0)
    return max(1, rows // blocks) if blocks else 1


def _accesses(traced: TracedCall, launch: Launch) -> Iterator[Access]:
    """Yield the reads of a launch that use little of what they fetch."""
    for text in node_texts(traced, launch) if launch.row["kernels"] else ():
        for access in apart(text):
            if access.used < USED * access.fetched:
                yield access


def node_texts(traced: TracedCall, launch: Launch) -> list[str]:
    """List the texts of a launch's scheduler nodes, as they were before fusion."""
    frame, graph = launch.graph.artifact.frame, launch.graph.artifact.graph
    texts = [texts_of_nodes(a) for a in traced.trace.find("ir_pre_fusion", frame, graph) if launch.graph.is_of(a)]
    return [text[name] for text in texts for name in launch.row["nodes"] if name in text]


def loop_calls(text: str) -> set[str]:
    """Return the operations of a node's loop: {"load", "store"} for a copy.

    A scan ("scan") or an index that the loop reads ("set_indirect") is an operation too.
    """
    return set(_CALL.findall(text))


def mutated(traced: TracedCall, launch: Launch) -> set[str]:
    """Return the buffers that a launch writes in place."""
    lists = (found[1] for text in node_texts(traced, launch) for found in _MUTATIONS.finditer(text))
    return {name for names in lists for name in re.findall(r"\w+", names)}


@once
def texts_of_nodes(artifact: Artifact) -> Mapping[str, str]:
    """Cut the text of the scheduler's nodes into one text per node."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in artifact.lines:
        if head := _HEAD.match(line):
            name = head["name"]
        parts.setdefault(name, []).append(line)
    return {name: "\n".join(lines) for name, lines in parts.items()}


def apart(text: str) -> Iterator[Access]:
    """Yield the reads of a node's text that have no neighbours: no loop variable steps by one element.

    An index that is partly computed, or that divides, says nothing and is left out.
    """
    dtypes = {found["buffer"]: found["dtype"] for found in _LAYOUT.finditer(text)}
    reads = text.partition(".unmet_dependencies")[2]
    groups: dict[tuple[str, str, tuple[tuple[str, int], ...]], set[int]] = {}
    steps: dict[tuple[str, str, tuple[tuple[str, int], ...]], int] = {}
    for found in _ACCESS.finditer(reads):
        ranges = {name: int(length) for name, length in _RANGE.findall(found["ranges"])}
        constant = evaluated(found["index"], dict.fromkeys(ranges, 0))
        strides = _strides(found["index"], ranges, constant)
        if constant is None or strides is None or not strides:
            continue
        shape = re.sub(r"\s*[+-]\s*\d+$", "", found["index"])
        # what is read again and again along a loop that the index does not depend on is in a cache
        key = (found["buffer"], shape, tuple((name, ranges[name]) for name in strides))
        groups.setdefault(key, set()).add(constant)
        steps[key] = min(strides.values())
    for (buffer, index, items), offsets in groups.items():
        step = steps[buffer, index, items]
        if step > 1 and buffer in dtypes:
            near = frozenset(offset % step for offset in offsets)
            yield Access(buffer, index, dict(items), dtypes[buffer], near, step)


@dataclass(frozen=True)
class Gather:
    """Reads of a buffer at computed places: bytes side by side at each, number of places, and the bytes that these lie within."""

    buffer: str
    index: str
    run: int
    count: int
    span: int


@dataclass(frozen=True)
class _Body:
    """A node's loop: the ranges of its variables, which of them each value depends on, what it loads where, where it stores."""

    ranges: Mapping[str, int]
    depends: Mapping[str, frozenset[str]]
    loads: tuple[tuple[str, str], ...]
    stores: tuple[str, ...]


def _body(text: str) -> _Body:
    """Read a node's loop: which variables of the loop each index and each loaded index depend on."""
    variables = next((line for line in text_lines(text) if "var_ranges = {" in line), "")
    ranges = {name: int(length) for name, length in _RANGE.findall(variables)}
    indices = dict(_INDEX.findall(text))
    depends: dict[str, frozenset[str]] = {name: frozenset({name}) for name in ranges}
    places: dict[str, str] = {}
    loads, stores = [], []
    for name, operation, arguments in _STEP.findall(text):
        words = re.findall(r"\w+", arguments)
        if operation == "get_index" and words[0] in indices:
            places[name] = indices[words[0]]
            words = re.findall(r"\w+", places[name])
        depends[name] = frozenset[str]().union(*(depends.get(word, frozenset()) for word in words))
        if operation.startswith("set_indirect"):
            depends[operation.removeprefix("set_")] = depends[name]
        if operation == "load" and len(words) > 1 and words[1] in places:
            loads.append((words[0], places[words[1]]))
        if operation == "store" and len(words) > 1 and words[1] in places:
            stores.append(places[words[1]])
    return _Body(ranges, depends, tuple(loads), tuple(stores))


def gathers(text: str) -> Iterator[Gather]:
    """Yield the reads of a node at places that it computes, or that another tensor holds."""
    layouts = {found["buffer"]: found for found in _LAYOUT.finditer(text)}
    body = _body(text)
    for buffer, index in dict.fromkeys(body.loads):
        computed = dict.fromkeys(re.findall(r"indirect\d+", index))
        if not computed or buffer not in layouts:
            continue
        from_computed = frozenset[str]().union(*(body.depends.get(name, frozenset()) for name in computed))
        in_index = frozenset(name for name in body.ranges if re.search(rf"\b{name}\b", index))
        zero = dict.fromkeys((*body.ranges, *computed), 0)
        each = element_size(layouts[buffer]["dtype"])
        # neighbours along a loop that the computed part does not depend on are read together
        side_by_side = [name for name in in_index - from_computed if _step(index, zero, name) == 1]
        run = max((body.ranges[name] for name in side_by_side), default=1)
        steps = [abs(step) for name in computed if (step := _step(index, zero, name))]
        span = max((_length(layouts[buffer], step) * step * each for step in steps), default=0)
        count = math.prod(body.ranges[name] for name in in_index | from_computed) // run
        yield Gather(buffer, index, run * each, count, span)


def _step(index: str, zero: Mapping[str, int], name: str) -> int | None:
    """Return how far an index moves with one of its variables; None where that cannot be computed."""
    start, one = evaluated(index, dict(zero)), evaluated(index, {**zero, name: 1})
    return None if start is None or one is None else one - start


def _length(layout: re.Match[str], step: int) -> int:
    """Return the length of the dimension with a stride; 0 if the layout has no such dimension."""
    lengths, strides = (re.findall(r"\d+", layout[part]) for part in ("size", "stride"))
    return max((int(n) for n, stride in zip(lengths, strides, strict=False) if int(stride) == step), default=0)


def scan_steps(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the reads of a scan that do not step by one element along it, as (buffer, index, dtype)."""
    sizes = _SIZES.search(text)
    if "scan" not in loop_calls(text) or sizes is None:
        return
    dtypes = {found["buffer"]: found["dtype"] for found in _LAYOUT.finditer(text)}
    body = _body(text)
    # the loops of a scan come last
    scanned = list(body.ranges)[len(re.findall(r"\d+", sizes[1])) :]
    for buffer, index in body.loads:
        zero = dict.fromkeys(body.ranges, 0)
        steps = [_step(index, zero, name) for name in scanned if "indirect" not in index]
        if steps and all(step is not None and abs(step) > 1 for step in steps) and buffer in dtypes:
            yield buffer, index, dtypes[buffer]


def across(text: str) -> Iterator[str]:
    """Yield the dtypes of what a node reads along another loop than the one along which it writes neighbours."""
    dtypes = {found["buffer"]: found["dtype"] for found in _LAYOUT.finditer(text)}
    body = _body(text)
    written = {name for index in body.stores for name in _neighbours(body, index)}
    for buffer, index in body.loads:
        read = _neighbours(body, index)
        if read and written and not read & written and buffer in dtypes:
            yield dtypes[buffer]


def _neighbours(body: _Body, index: str) -> set[str]:
    """Return the loops along which an index steps by one element; none where a part of it is computed."""
    zero = dict.fromkeys(body.ranges, 0)
    return {name for name in body.ranges if "indirect" not in index and _step(index, zero, name) == 1}


def _strides(index: str, ranges: Mapping[str, int], constant: int | None) -> dict[str, int] | None:
    """Return the step of each loop variable that the index depends on; None where the index is not linear."""
    strides = {}
    for name, length in ranges.items():
        one, last = (evaluated(index, {**dict.fromkeys(ranges, 0), name: at}) for at in (1, length - 1))
        if one is None or last is None or constant is None or "//" in index or "%" in index:
            return None
        if last - constant != (length - 1) * (one - constant):
            return None
        if length > 1 and one != constant:
            strides[name] = abs(one - constant)
    return strides
