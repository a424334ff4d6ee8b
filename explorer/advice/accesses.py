"""Verdicts on how kernels address memory: reads whose neighbours in memory nobody uses. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.advice.verdicts import Cost, Verdict, percent
from explorer.advice.whole import Launch, Whole, counted
from explorer.model.integers import evaluated
from explorer.model.values import Artifact, once
from explorer.questions.costs import SECTOR
from explorer.questions.memory import element_size

#: A dependency as the scheduler prints it: the buffer, the index, and the ranges of its variables.
_ACCESS = re.compile(r"MemoryDep\('(?P<buffer>\w+)', (?P<index>[^{}']+), \{(?P<ranges>[^{}]*)\}")
_HEAD = re.compile(r"^(?P<name>\w+): \w*SchedulerNode\(")
_CALL = re.compile(r" = ops\.(\w+)\(")
_RANGE = re.compile(r"(\w+): (\d+)")
_LAYOUT = re.compile(r"^\s*(?P<buffer>\w+?)(?:\.layout|_layout) = .*?torch\.(?P<dtype>\w+), size=", re.MULTILINE)
#: A buffer of which less than this share of what is fetched is used counts as one that is read apart.
USED = 0.6


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


def uncoalesced(whole: Whole) -> Iterator[Verdict]:
    """Yield a verdict for the kernels that read single elements of sectors whose others nobody reads."""
    if whole.is_cpu:
        return
    found = [(launch, access) for launch in whole.launches for access in _accesses(whole, launch)]
    if not found:
        return
    wasted = sum(access.fetched - access.used for _, access in found)
    launch, access = max(found, key=lambda pair: pair[1].fetched - pair[1].used)
    launches = list(dict.fromkeys(id(one) for one, _ in found))
    yield Verdict(
        "uncoalesced",
        f"{counted(len(launches), 'kernel')} with reads of single elements, {access.step} apart",
        Cost(
            whole.seconds_of(wasted),
            "estimated",
            f"sectors of {SECTOR} bytes that are fetched for a part, {whole.bandwidth}",
            wasted,
        ),
        f"{launch.name} reads {whole.inputs_of(launch).get(access.buffer, access.buffer)} at {access.index}: "
        f"{percent(access.used / access.fetched).partition(' of')[0]} of what is fetched is used",
        "lay the data out so that what is read together lies together: one tensor a field, or a transposed one made once",
        whole.lines_of([launch]),
        whole.places_of([launch]),
        why_unproved="the layout of an input has to change: trace with the changed one, and explorer.compare() shows both",
    )


def _accesses(whole: Whole, launch: Launch) -> Iterator[Access]:
    """Yield the reads of a launch that use little of what they fetch."""
    for text in node_texts(whole, launch) if launch.row["kernels"] else ():
        for access in apart(text):
            if access.used < USED * access.fetched:
                yield access


def node_texts(whole: Whole, launch: Launch) -> list[str]:
    """List the texts of a launch's scheduler nodes, as they were before fusion."""
    frame, graph = launch.graph.artifact.frame, launch.graph.artifact.graph
    texts = [texts_of_nodes(a) for a in whole.trace.find("ir_pre_fusion", frame, graph) if launch.graph.is_of(a)]
    return [text[name] for text in texts for name in launch.row["nodes"] if name in text]


def loop_calls(text: str) -> set[str]:
    """Return the operations of a node's loop: {"load", "store"} for a copy."""
    return set(_CALL.findall(text))


@once
def texts_of_nodes(artifact: Artifact) -> Mapping[str, str]:
    """Cut the text of the scheduler's nodes into those of each."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in artifact.lines:
        if head := _HEAD.match(line):
            name = head["name"]
        parts.setdefault(name, []).append(line)
    return {name: "\n".join(lines) for name, lines in parts.items()}


def apart(text: str) -> Iterator[Access]:
    """Yield the reads of a node's text that have no neighbours: no loop variable steps by one element.

    An index of which a part is computed, or that divides, says nothing and is left out.
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
