"""Carry the counts of each instruction up the links of a trace: to PTX, Triton, FX nodes, modules and user lines. Pure.

Where an instruction leads to several lines of one rung, each gets an equal part. What leads to none has a row that says why, so
that the rows of every rung add up to the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from explorer.analysis.questions.provenance import origins
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import Artifact, Plain, Table, once
from explorer.stages.fx_graph import node_lines
from explorer.stages.inductor.kernel import OWN
from explorer.stages.triton.counters import STALL, CountedInstruction, Counters, main_stall, sass_of
from explorer.stages.triton.sass import closing

#: The counts of a row, in the order of the columns; the samples of each stall stand behind them as `stalls`.
COUNTS = (
    "executed",
    "thread_executed",
    "sectors",
    "excess_sectors",
    "local_sectors",
    "wavefronts",
    "excess_wavefronts",
)
COUNT_COLUMNS = ("samples", "share", "stall", *COUNTS, "stalls", "kernels", "why")
KERNEL_COLUMNS = ("frame", "graph", "kernel", "launches")
#: The percentages of a peak, and the other metrics of a kernel.
PEAKS = ("compute", "memory", "dram", "l2", "l1")
METRIC_COLUMNS = (
    "seconds",
    *PEAKS,
    "occupancy",
    "possible_occupancy",
    "registers",
    "blocks",
    "threads",
    "multiprocessors",
    "waves",
    "blocks_by_registers",
    "blocks_by_shared",
    "blocks_by_warps",
)
#: Why an instruction's counts are not carried.
OTHER_TEXT = "the trace's SASS has another text at this offset"
NO_LINK = "no link leads there"
CLOSING = "what ends the kernel and fills the rest is nobody's line"

#: A place on one rung, such as ("frame", "graph", "node").
Place = tuple[Plain, ...]


@dataclass(frozen=True)
class Carried:
    """One counted instruction: its kernel's counters, its row, and the lines that it comes from by artifact.

    `ends` tells that it ends the kernel, or fills the rest.
    """

    artifact: Artifact
    counters: Counters
    row: CountedInstruction
    lines: Mapping[str, set[int]]
    ends: bool

    @property
    def why(self) -> str:
        """Why the instruction is not joined with the trace's SASS; "" where it is."""
        return self.counters.why or ("" if self.row.line else OTHER_TEXT)


@dataclass(frozen=True)
class Rung:
    """One form of the program: the columns that name a place there, and the places that an instruction leads to.

    `why_none` says why there may be none.
    """

    name: str
    columns: tuple[str, ...]
    places: Callable[[TraceData, Carried], Iterable[Place]]
    why_none: str = NO_LINK


@dataclass
class _Sum:
    counts: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, None] = field(default_factory=dict)

    def add(self, one: Carried, part: int) -> None:
        for name, value in one.row.counts.items():
            self.counts[name] = self.counts.get(name, 0) + value / part
        self.kernels[one.counters.name] = None


@once
def carried(trace: TraceData) -> tuple[Carried, ...]:
    """List every instruction with counts, and what it comes from."""
    found: list[Carried] = []
    for artifact in trace.find("counters"):
        counters, sass = typed(Counters, artifact.data), sass_of(artifact, trace)
        for row in counters.rows:
            if row.counts:
                lines = origins(trace, sass.id, (row.line,)) if sass is not None and row.line else {}
                found.append(Carried(artifact, counters, row, lines, sass is not None and row.line in closing(sass)))
    return tuple(found)


def of_kernel(trace: TraceData, artifact: Artifact) -> tuple[Carried, ...]:
    """The counted instructions of one kernel."""
    return _by_kernel(trace).get(artifact.id, ())


@once
def _by_kernel(trace: TraceData) -> Mapping[str, tuple[Carried, ...]]:
    by_kernel: dict[str, list[Carried]] = {}
    for one in carried(trace):
        by_kernel.setdefault(one.artifact.id, []).append(one)
    return {id: tuple(rows) for id, rows in by_kernel.items()}


# Rungs ----------------------------------------------------------------------------------------------------------------


def _instruction(trace: TraceData, one: Carried) -> Iterator[Place]:
    artifact, row = one.artifact, one.row
    if row.line:
        yield artifact.frame, artifact.graph, one.counters.name, row.line, row.offset, row.text


def _lines_in(trace: TraceData, one: Carried, stage: str) -> Iterator[tuple[Artifact, int]]:
    """Yield the lines of a stage's texts that an instruction comes from."""
    for id, lines in one.lines.items():
        text = artifact_of(trace, id)
        if text.stage == stage:
            yield from ((text, line) for line in sorted(lines))


def _of_kernel(stage: str) -> Callable[[TraceData, Carried], Iterator[Place]]:
    """Places on lines of a kernel's text in a stage."""

    def places(trace: TraceData, one: Carried) -> Iterator[Place]:
        for text, line in _lines_in(trace, one, stage):
            yield text.frame, text.graph, text.kernel, line, text.lines[line - 1].strip()

    return places


def _nodes(trace: TraceData, one: Carried) -> Iterator[tuple[Artifact, Mapping[str, Plain]]]:
    for graph, line in _lines_in(trace, one, "post_grad"):
        if node := _nodes_by_line(graph).get(line):
            yield graph, node


@once
def _nodes_by_line(graph: Artifact) -> Mapping[int, Mapping[str, Plain]]:
    lines = node_lines(graph)
    return {lines[str(node["name"])]: node for node in graph.nodes if str(node["name"]) in lines}


def _node(trace: TraceData, one: Carried) -> Iterator[Place]:
    for graph, node in _nodes(trace, one):
        yield graph.frame, graph.graph, str(node["name"]), str(node.get("target") or "")


def _module(trace: TraceData, one: Carried) -> Iterator[Place]:
    yield from ((str(node["module"]),) for _, node in _nodes(trace, one) if node.get("module"))


def _user_line(trace: TraceData, one: Carried) -> Iterator[Place]:
    found = list(_lines_in(trace, one, "source"))
    own = _own_sources(trace)
    for source, line in [place for place in found if place[0].id in own] or found:
        data = typed(Source, source.data)
        yield data.file, data.first_line + line - 1, source.lines[line - 1].strip()


@once
def _own_sources(trace: TraceData) -> frozenset[str]:
    """The sources of kernels that the program wrote itself: their lines are meant, and not the line of the launch."""
    return frozenset(link.target for link in trace.links if link.how == OWN)


INSTRUCTIONS = Rung("instructions", ("frame", "graph", "kernel", "line", "offset", "code"), _instruction)
PTX_LINES = Rung("ptx_lines", ("frame", "graph", "kernel", "line", "code"), _of_kernel("ptx"))
KERNEL_LINES = Rung("kernel_lines", ("frame", "graph", "kernel", "line", "code"), _of_kernel("kernel"))
NODES = Rung("nodes", ("frame", "graph", "node", "target"), _node)
MODULES = Rung("modules", ("module",), _module, "no FX node of it states its nn.Module")
LINES = Rung("lines", ("file", "line", "code"), _user_line)
#: The rungs from the machine code up.
RUNGS = (INSTRUCTIONS, PTX_LINES, KERNEL_LINES, NODES, MODULES, LINES)


# Tables ---------------------------------------------------------------------------------------------------------------


def table(trace: TraceData, rung: Rung) -> Table:
    """One row per place of a rung, the most samples first, then one per reason why counts are not carried."""
    places, lost = _sums(trace, rung)
    total = sum(one.row.counts.get("samples", 0) for one in carried(trace))
    rows = [
        {**dict(zip(rung.columns, place, strict=True)), **_counts(found, total, "")}
        for place, found in sorted(places.items(), key=lambda item: -item[1].counts.get("samples", 0))
    ]
    nowhere = {name: 0 if name in ("line", "offset") else "" for name in rung.columns}
    rows += [{**nowhere, **_counts(found, total, why)} for why, found in lost.items()]
    return Table(rows, (*rung.columns, *COUNT_COLUMNS))


def _sums(trace: TraceData, rung: Rung) -> tuple[dict[Place, _Sum], dict[str, _Sum]]:
    places: dict[Place, _Sum] = {}
    lost: dict[str, _Sum] = {}
    for one in carried(trace):
        found = tuple(rung.places(trace, one)) if not one.why else ()
        for place in found:
            places.setdefault(place, _Sum()).add(one, len(found))
        if not found:
            lost.setdefault(one.why or (CLOSING if one.ends else rung.why_none), _Sum()).add(one, 1)
    return places, lost


def _counts(found: _Sum, total: float, why: str) -> dict[str, Plain]:
    counts = found.counts
    samples = counts.get("samples", 0)
    stalls = {name.removeprefix(STALL): value for name, value in counts.items() if name.startswith(STALL)}
    return {
        "samples": samples,
        "share": samples / total if total else 0.0,
        "stall": main_stall(counts),
        **{name: counts.get(name, 0) for name in COUNTS},
        "stalls": dict(sorted(stalls.items(), key=lambda item: -item[1])),
        "kernels": tuple(found.kernels),
        "why": why,
    }


def kernels(trace: TraceData) -> Table:
    """One row per kernel of the report: its metrics, and the sums of its instructions."""
    total = sum(one.row.counts.get("samples", 0) for one in carried(trace))
    rows = []
    for artifact in trace.find("counters"):
        counters = typed(Counters, artifact.data)
        found = _Sum()
        for one in of_kernel(trace, artifact):
            found.add(one, 1)
        place = dict(zip(KERNEL_COLUMNS, (artifact.frame, artifact.graph, counters.name, counters.launches), strict=True))
        metrics = {name: counters.metrics.get(name) for name in METRIC_COLUMNS}
        counts = _counts(found, total, counters.why)
        rows.append({**place, **metrics, **{name: value for name, value in counts.items() if name != "kernels"}})
    columns = (name for name in COUNT_COLUMNS if name != "kernels")
    return Table(sorted(rows, key=lambda row: -row["samples"]), (*KERNEL_COLUMNS, *METRIC_COLUMNS, *columns))


def shares(trace: TraceData) -> Table:
    """One row per rung: the samples that are carried there, their share, and the others by reason."""
    total = sum(one.row.counts.get("samples", 0) for one in carried(trace))
    rows = []
    for rung in RUNGS if carried(trace) else ():
        _, lost = _sums(trace, rung)
        others = {why: samples for why, found in lost.items() if (samples := found.counts.get("samples", 0))}
        samples = total - sum(others.values())
        rows.append({"rung": rung.name, "samples": samples, "share": samples / total if total else 0.0, "others": others})
    return Table(rows, ("rung", "samples", "share", "others"))


__all__ = [
    "INSTRUCTIONS",
    "KERNEL_LINES",
    "LINES",
    "MODULES",
    "NODES",
    "PTX_LINES",
    "RUNGS",
    "carried",
    "kernels",
    "of_kernel",
    "shares",
    "table",
]
