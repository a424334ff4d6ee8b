"""Estimate what hides the collectives of DDP's and FSDP2's hooks, from the last step that was recorded. Pure.

Graphs and collectives are laid out on a GPU's streams in the order of that step, see `streams.py`. The CPU is taken to run ahead
of the GPU, and what runs in eager mode between the graphs counts as nothing. The sources of DistributedDataParallel and of
fully_shard in torch 2.13 say who waits for a collective, and when:

- DDP starts to reduce a bucket when its last gradient is there, and waits for all buckets at the end of the backward.
- FSDP2 starts to gather a module's parameters while the graph before runs, and that module's graph waits for them. In the
  backward it gathers them one module earlier.
- FSDP2 starts to scatter a module's gradients after that module's backward, and waits for them at the next module's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from explorer.analysis.questions.costs import runs_of
from explorer.analysis.questions.fusion import Graph, fusion_of
from explorer.analysis.questions.group_costs import group_costs
from explorer.analysis.questions.rows import GroupRow
from explorer.analysis.questions.streams import Work, laid_out
from explorer.model.trace_data import TraceData
from explorer.model.values import once
from explorer.stages.torch_compile.eager_collective import DDP, FSDP2, EagerCollective, EagerCollectives, RunGraph

#: Seconds of a collective, by the number of its row; None if unknown.
Prices = Mapping[int, float | None]
#: Seconds of a compiled graph, by compile id, name, and how many of that name came before it.
GraphSeconds = Mapping[tuple[str, str, int], float | None]


def exposed_seconds(data: EagerCollectives, seconds: GraphSeconds, prices: Prices, left_out: Sequence[int] = ()) -> Prices:
    """Estimate how long a run of each collective holds the kernels after it, in seconds; without the rows in `left_out`.

    A row that the last step does not have is not in the result.
    """
    return _layout(data, seconds, prices, left_out).exposed()


def graphs_beside(data: EagerCollectives) -> Mapping[int, tuple[RunGraph, ...]]:
    """List the graphs that can run beside each collective of the last step, by the number of its row.

    They run after it starts and before anything waits for it. For a collective with several runs they are those of its last one.
    """
    return {row: tuple(data.graphs[graph] for graph in graphs) for row, graphs in _layout(data, {}, {}).beside().items()}


def _layout(data: EagerCollectives, seconds: GraphSeconds, prices: Prices, left_out: Sequence[int] = ()) -> _Layout:
    layout = _Layout([seconds.get((graph.frame, graph.graph, graph.number)) for graph in data.graphs], data.rows, prices)
    for each in last_step(data):
        if each < 0:
            layout.run(-1 - each)
        elif each not in left_out:
            layout.send(each)
    layout.end()
    return layout


def last_step(data: EagerCollectives) -> Sequence[int]:
    """Return the part of `data.order` since the last forward that a backward followed; () without a backward.

    A step begins with the first forward after a backward, and with what is gathered or broadcast for it.
    """
    order, begins, before = data.order, [0], ""
    for place, each in enumerate(order):
        if each >= 0:
            continue
        graph = data.graphs[-1 - each].graph
        if graph != "backward" and before == "backward":
            begins.append(_with_what_it_needs(data, place))
        before = graph
    steps = [order[begin:end] for begin, end in zip(begins, [*begins[1:], len(order)], strict=True)]
    return next((step for step in reversed(steps) if any(_is_backward(data, each) for each in step)), ())


def _with_what_it_needs(data: EagerCollectives, place: int) -> int:
    while place and (each := data.order[place - 1]) >= 0 and "reduce" not in data.rows[each].operator:
        place -= 1
    return place


def _is_backward(data: EagerCollectives, each: int) -> bool:
    return each < 0 and data.graphs[-1 - each].graph == "backward"


@once
def seconds_of_graphs(trace: TraceData) -> GraphSeconds:
    """The seconds of each compiled graph; None if unknown."""
    return {place: _seconds(trace, graph) for place, graph in _compiled_graphs(trace).items()}


def _seconds(trace: TraceData, graph: Graph) -> float | None:
    each = [cost["seconds"] for cost in group_costs(trace, graph)]
    known = [one for one in each if one is not None]
    return sum(known) * runs_of(trace, graph) if len(known) == len(each) else None


@once
def kernels_of_graphs(trace: TraceData) -> Mapping[tuple[str, str, int], tuple[str, ...]]:
    """The kernels and library calls of each compiled graph, each once, in the order of their launches."""
    graphs = _compiled_graphs(trace)
    return {place: tuple(dict.fromkeys(chain.from_iterable(map(_launched, graph.groups())))) for place, graph in graphs.items()}


def _launched(group: GroupRow) -> Sequence[str]:
    return group["kernels"] or (group["call"],)


def _compiled_graphs(trace: TraceData) -> Mapping[tuple[str, str, int], Graph]:
    """The graphs that Inductor compiled, by compile id, name, and how many of that name came before."""
    graphs: dict[tuple[str, str, int], Graph] = {}
    counts: dict[tuple[str, str], int] = {}
    for graph in fusion_of(trace).graphs:
        place = graph.artifact.frame, graph.artifact.graph
        counts[place] = counts.get(place, -1) + 1
        graphs[*place, counts[place]] = graph
    return graphs


@dataclass
class _Layout:
    """The works of a step, in the order in which a GPU's streams get them."""

    seconds: Sequence[float | None]
    rows: Sequence[EagerCollective]
    prices: Prices
    works: list[Work] = field(default_factory=list)
    ran: list[int | None] = field(default_factory=list)  # the graph of each work
    sent: list[int] = field(default_factory=list)  # the row of each collective, by its number among the works
    due: list[int] = field(default_factory=list)  # what the next graph waits for
    later: list[int] = field(default_factory=list)  # what the graph after the next waits for
    scattering: list[int] = field(default_factory=list)  # what the next scatter waits for
    at_end: list[int] = field(default_factory=list)

    def run(self, graph: int) -> None:
        """Run a graph, after the waits for what it needs."""
        self._wait(self.due)
        self.due, self.later = self.later, []
        self._add(Work(self.seconds[graph]), graph=graph)

    def send(self, row: int) -> None:
        """Start a collective, and note who waits for it."""
        collective, number = self.rows[row], len(self.sent)
        self.sent.append(row)
        start = Work(self.prices.get(row), starts=number, group=collective.group)
        if collective.sender == FSDP2 and "gather" in collective.operator:
            self._add(start, None if collective.prefetched else self._while_the_last_graph_runs())
            (self.later if collective.prefetched else self.due).append(number)
        elif collective.sender == FSDP2:
            self._wait(self.scattering)
            self._add(start)
            self.scattering = [number]
        elif collective.sender == DDP and collective.operator == "all_reduce":
            self._add(start)
            self.at_end.append(number)
        else:
            self._add(start)
            self._wait([number])

    def _while_the_last_graph_runs(self) -> int:
        """Where a work is inserted that may run beside the last graph: before it, but after all collectives."""
        last = self.works[-1:]
        return len(self.works) - 1 if last and last[0].starts is None and last[0].waits is None else len(self.works)

    def _wait(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._add(Work(waits=number))

    def _add(self, work: Work, place: int | None = None, graph: int | None = None) -> None:
        place = len(self.works) if place is None else place
        self.works.insert(place, work)
        self.ran.insert(place, graph)

    def end(self) -> None:
        """Wait for everything that is still under way."""
        self._wait([*self.due, *self.later, *self.scattering, *self.at_end])

    def beside(self) -> Mapping[int, tuple[int, ...]]:
        """The graphs between the start of each row's last collective and the wait for it."""
        starts = {work.starts: place for place, work in enumerate(self.works) if work.starts is not None}
        waits = {work.waits: place for place, work in enumerate(self.works) if work.waits is not None}
        between = {row: self.ran[starts[number] : waits[number]] for number, row in enumerate(self.sent)}
        return {row: tuple(graph for graph in graphs if graph is not None) for row, graphs in between.items()}

    def exposed(self) -> Prices:
        """The mean stall of each row's collectives; None where one is unknown."""
        stalls: dict[int, list[float | None]] = {}
        for work, laid in zip(self.works, laid_out(self.works), strict=True):
            if work.waits is not None:
                row = self.sent[work.waits]
                stalls.setdefault(row, []).append(laid.stalled if self.prices.get(row) is not None else None)
        means: dict[int, float | None] = {}
        for row, each in stalls.items():
            known = [stall for stall in each if stall is not None]
            means[row] = sum(known) / len(each) if len(known) == len(each) else None
        return means


__all__ = ["GraphSeconds", "Prices", "exposed_seconds", "graphs_beside", "kernels_of_graphs", "last_step", "seconds_of_graphs"]
