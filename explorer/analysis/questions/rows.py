"""The rows that questions answer with, as they pass to the payload and to other questions.

`wire.py` has the same shapes for the front end. Bytes and seconds are named; lines count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from explorer.model.shared import Lookup, Names, OperatorCall, Setting

# The scheduler -----------------------------------------------------------------------------------------------------------


class GroupRow(TypedDict):
    """A node of the scheduler after fusion, a row of `Fusion.groups`; bytes read and written."""

    frame: str
    graph: str
    name: str
    nodes: Names
    kind: str
    kernels: Names
    call: str
    buffers: Names
    fx_nodes: Names
    read: int
    written: int
    unsized: Names
    calls: tuple[OperatorCall, ...] | None
    elementwise: Mapping[str, int] | None
    one_block: Mapping[str, int] | None
    rows: int | None
    run: int | None
    lookups: tuple[Lookup, ...] | None
    reread: int | None
    strided: bool | None
    before: Names
    after: Names
    prologue: Names
    epilogue: Names


class PairVerdict(TypedDict):
    """The scheduler's verdict on two nodes."""

    frame: str
    graph: str
    first: str
    second: str
    direction: str
    verdict: str
    rule: str
    reason: str
    shared_bytes: int | None


class PairRow(PairVerdict):
    """A verdict on two nodes, a row of `Fusion.table`; "after" names the fusions that it depends on."""

    score: Mapping[str, Setting]
    rounds: tuple[int, ...]
    after: Names


class BufferRow(TypedDict):
    """A buffer that lowering put in memory, and why: a row of `Fusion.buffers`."""

    frame: str
    graph: str
    buffer: str
    node: str
    lowering: str
    why: str
    where: str


class InlinedRow(TypedDict):
    """An FX node that never had a buffer, and the nodes that compute it: a row of `Fusion.inlined`."""

    frame: str
    graph: str
    fx_node: str
    into: Names


_FusedWith = TypedDict("_FusedWith", {"with": Names})  # a class could not name it so


class LoweringRow(_FusedWith):
    """How an FX node was lowered, a row of `t.inductor.lowerings`; "with" are the nodes that its kernels compute too."""

    frame: str
    graph: str
    node: str
    target: str
    kind: str
    kinds: Names
    device: str
    realized: bool | None
    why: str
    kernels: Names
    calls: Names
    operations: Names
    buffers: Names
    function: str
    lowered_at: str
    file: str
    line: int
    code: str


# Memory ------------------------------------------------------------------------------------------------------------------


class StorageRow(TypedDict):
    """A piece of memory of a graph, a row of `Memory.table`; "born", "last_use" and "freed" are lines of the output code."""

    frame: str
    graph: str
    artifact: str
    names: Names
    bytes: int | None
    dtype: str
    size: Names
    born: int
    last_use: int
    freed: int | None
    reuses: int
    made_by: str
    kind: str
    saved: bool
    nodes: Names
    lines: Names
    inputs: Names


class PeakRow(StorageRow):
    """A piece of memory that is live at its graph's peak, a row of `Memory.peak`: the peak's line, and its share of the bytes."""

    peak_line: int
    share: float


class MomentRow(TypedDict):
    """How much is live after a line of the output code, in bytes, a row of `Memory.timeline`."""

    frame: str
    graph: str
    artifact: str
    step: int
    line: int
    live: int
    allocated: int
    unsized: int


class UncountedRow(TypedDict):
    """A library call whose scratch memory is not known, and why, a row of `Memory.uncounted`; `line` is of the output code."""

    frame: str
    graph: str
    artifact: str
    line: int
    call: str
    why: str


class UnreadRow(TypedDict):
    """A graph whose memory is not known, and why, a row of `Memory.unread`."""

    frame: str
    graph: str
    artifact: str
    why: str


# Costs -------------------------------------------------------------------------------------------------------------------


class Cost(TypedDict):
    """The cost of one run, over all launches: bytes, seconds, "measured" or "estimated", and how each is known.

    In an estimate, "launch_seconds" is the time of the launches alone, and "limit" the bottleneck: "launch", "memory", "L2" or
    "operations". Where nothing is estimated they are None and "".
    """

    launches: int | None
    read: int | None
    written: int | None
    bytes_known: str
    seconds: float | None
    launch_seconds: float | None
    limit: str
    timed: str
    seconds_known: str


class GroupCost(TypedDict):
    """What a group of scheduler nodes takes in one run: seconds, "measured" or "estimated", and the limit of an estimate."""

    seconds: float | None
    timed: str
    limit: str


class KernelRow(Cost):
    """A generated kernel, a row of `Kernels.table`: what it computes, takes of the GPU and costs."""

    frame: str
    graph: str
    kernel: str
    language: str
    operators: Names
    grid: tuple[tuple[int | str, ...], ...]
    registers: int | None
    shared: int | None
    spills: int | None
    operations: int | None
    outside: str


class CallRow(Cost):
    """A library call, a row of `t.inductor.extern_calls`."""

    frame: str
    graph: str
    node: str
    call: str
    operator: str
    dtype: str
    operations: int | None
    outside: str


# Functions ---------------------------------------------------------------------------------------------------------------


class FunctionRow(TypedDict):
    """A function that Dynamo looked at, a row of `t.dynamo.functions`: `resume` where it goes on after a graph break."""

    frame: str
    qualname: str
    file: str
    first_line: int
    compiled: bool
    resume: bool
