"""Estimate the peak memory of a step of DDP or FSDP2, from the last step that was recorded. Pure.

What the compiled graphs allocate and save is read from their code, see `memory.py`. What hooks hold follows from the order in
which they exchanged, by the sources of torch 2.13:

- DDP has whole parameters, and buckets as large as all gradients. A gradient is there beside its bucket, which is so unless
  `gradient_as_bucket_view` is set.
- FSDP2 has this rank's part of the parameters. It gathers into a buffer, and copies from there. In the forward the buffer lives
  until the next module is gathered. With `reshard_after_forward` the copy lives until its forward has ended, else until its
  gradients are scattered, and gradients are copied into a buffer that lives until the next module's are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.analysis.questions.hook_overlap import last_step
from explorer.analysis.questions.memory import memory_of
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import once
from explorer.stages.torch_compile.eager_collective import DDP, FSDP2, EagerCollective, EagerCollectives, RunGraph

#: What the estimate counts, and what it does not.
COUNTED = (
    "an estimate from the order of the last step: parameters, gradients, what hooks hold, and what the compiled graphs allocate "
    "and save; without the optimizer, the step's inputs, and what runs in eager mode"
)


class GraphMemory(NamedTuple):
    """The most bytes of a graph, those of its inputs that it frees, those that outlive a forward, and those that it returns.

    `peak` counts what it allocates, and of its inputs those that it frees.
    """

    peak: int
    freed: int
    kept: int
    returned: int


#: The memory of graphs by compile id, name, and how many of that name came before.
GraphBytes = Mapping[tuple[str, str, int], GraphMemory]


@once
def peak_bytes_of_step(trace: TraceData) -> int | None:
    """Return the most bytes that live at once in the last step; None where hooks sent nothing or a graph's memory is unknown."""
    peaks = [peak_bytes(typed(EagerCollectives, each.data), bytes_of_graphs(trace)) for each in trace.find("eager_collective")]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if known and len(known) == len(peaks) else None


@once
def bytes_of_graphs(trace: TraceData) -> GraphBytes:
    """The memory of each compiled graph whose storages all have a known size."""
    memory = memory_of(trace)
    counts: dict[tuple[str, str], int] = {}
    found: dict[tuple[str, str, int], GraphMemory] = {}
    for artifact in trace.find("output_code"):
        place = artifact.frame, artifact.graph
        counts[place] = counts.get(place, -1) + 1
        rows = [row for row in memory.table if row["artifact"] == artifact.id]
        own = [row for row in rows if row["kind"] != "input"]
        inputs = [row for row in rows if row["kind"] == "input"]
        freed = sum(row["bytes"] or 0 for row in inputs if row["freed"] is not None)
        held = sum(row["bytes"] or 0 for row in inputs) - freed
        moments = [row for row in memory.timeline if row["artifact"] == artifact.id]
        if not moments or any(row["unsized"] for row in moments):
            continue
        returned = sum(row["bytes"] or 0 for row in own if row["kind"] == "output")
        kept = returned + sum(row["bytes"] or 0 for row in own if row["kind"] == "saved for backward")
        found[*place, counts[place]] = GraphMemory(max(row["live"] for row in moments) - held, freed, kept, returned)
    return found


def peak_bytes(data: EagerCollectives, graphs: GraphBytes) -> int | None:
    """Return the most bytes that live at once in the last step; None where a graph's memory is unknown."""
    step = last_step(data)
    places = [_place(data.graphs[-1 - each]) for each in step if each < 0]
    rows = [data.rows[each] for each in step if each >= 0]
    if not places or any(place not in graphs for place in places) or not any(row.sender in (DDP, FSDP2) for row in rows):
        return None
    walk = _Walk(rows)
    for each in step:
        if each < 0:
            walk.run(data.graphs[-1 - each], graphs[_place(data.graphs[-1 - each])])
        else:
            walk.send(data.rows[each])
    return walk.peak


def _place(graph: RunGraph) -> tuple[str, str, int]:
    return graph.frame, graph.graph, graph.number


@dataclass
class _Walk:
    """What lives while a step runs. `gathered` has the parameters of FSDP2's modules that are whole now."""

    rows: Sequence[EagerCollective]
    peak: int = 0
    gradients: int = 0
    returned: int = 0  # by the last backward, not yet exchanged
    gather_buffer: int = 0
    scatter_buffer: int = 0
    forward: bool = True
    gathered: dict[tuple[str, ...], int] = field(default_factory=dict)
    due: list[EagerCollective] = field(default_factory=list)  # what is copied before the next graph
    later: list[EagerCollective] = field(default_factory=list)  # what is copied before the graph after it
    kept: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # what each run of a forward keeps for its backward

    def run(self, graph: RunGraph, memory: GraphMemory) -> None:
        """Run a graph, with what it needs."""
        if graph.graph == "backward" and self.forward:
            self._end_of_forward()
        self._copy_due()
        self.due, self.later = self.later, []
        self._look(memory.peak - memory.freed)
        kept = self.kept.setdefault((graph.frame, graph.number), [])
        if graph.graph != "backward":
            kept.append(memory.kept)
            return
        if kept:
            kept.pop()
        self.returned = memory.returned

    def send(self, row: EagerCollective) -> None:
        """Exchange, with the buffers that it takes."""
        if row.sender == FSDP2 and "gather" in row.operator:
            self._gather(row)
        elif row.sender == FSDP2:
            self.gathered.pop(row.parameters, None)
            self.scatter_buffer = row.bytes
            self._look()
            self.gradients += _part(row)
            self.returned = max(0, self.returned - row.bytes)
        elif row.sender == DDP and row.operator == "all_reduce":
            self.gradients += row.bytes
            self.returned = max(0, self.returned - row.bytes)
            self._look()

    def _gather(self, row: EagerCollective) -> None:
        """Gather, while the buffer of the module before is still there."""
        if self.forward and row.hook == "pre_backward":
            self._end_of_forward()
        if self.forward:
            self._reshard()
        self._copy_due()
        self._look(row.bytes)
        if row.prefetched:
            self.later.append(row)
        else:
            self._copy(row)

    def _copy_due(self) -> None:
        while self.due:
            self._copy(self.due.pop(0))

    def _copy(self, row: EagerCollective) -> None:
        """Copy gathered parameters from their buffer, which is kept in the forward alone."""
        self.gathered[row.parameters] = row.bytes
        self.gather_buffer = row.bytes
        self._look()
        if not self.forward:
            self.gather_buffer = 0

    def _reshard(self) -> None:
        """Free the parameters that the backward gathers again."""
        again = {row.parameters for row in self.rows if row.hook == "pre_backward"}
        self.gathered = {parameters: size for parameters, size in self.gathered.items() if parameters not in again}

    def _end_of_forward(self) -> None:
        self._reshard()
        self.forward, self.gather_buffer = False, 0

    def _look(self, more: int = 0) -> None:
        """Note what lives now, with what is about to be allocated."""
        waiting = sum(row.bytes for row in (*self.due, *self.later))
        hooks = self.gradients + self.returned + self.gather_buffer + self.scatter_buffer + waiting
        live = self._held() + hooks + sum(self.gathered.values()) + sum(map(sum, self.kept.values())) + more
        self.peak = max(self.peak, live)

    def _held(self) -> int:
        """What lives all the time: FSDP2's parts of the parameters; DDP's parameters and buckets."""
        parts = {row.parameters: _part(row) for row in self.rows if row.sender == FSDP2 and "gather" in row.operator}
        buckets = sum(row.bytes for row in self.rows if row.sender == DDP and row.operator == "all_reduce")
        return sum(parts.values()) + 2 * buckets


def _part(row: EagerCollective) -> int:
    return row.bytes // max(1, len(row.ranks))


__all__ = ["COUNTED", "GraphBytes", "GraphMemory", "peak_bytes", "peak_bytes_of_step"]
