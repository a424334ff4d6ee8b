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

from explorer.analysis.questions.costs import runs_of
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.group_costs import group_costs
from explorer.analysis.questions.streams import Work, laid_out
from explorer.model.trace_data import TraceData
from explorer.model.values import once
from explorer.stages.torch_compile.eager_collective import DDP, FSDP2, EagerCollective, EagerCollectives

#: Seconds of a collective, by the number of its row; None if unknown.
Prices = Mapping[int, float | None]
#: Seconds of a compiled graph, by compile id, name, and how many of that name came before it.
GraphSeconds = Mapping[tuple[str, str, int], float | None]


def exposed_seconds(data: EagerCollectives, seconds: GraphSeconds, prices: Prices, left_out: Sequence[int] = ()) -> Prices:
    """Estimate how long a run of each collective holds the kernels after it, in seconds; without the rows in `left_out`.

    A row that the last step does not have is not in the result.
    """
    step = [each for each in last_step(data) if each not in left_out]
    layout = _Layout([seconds.get((graph.frame, graph.graph, graph.number)) for graph in data.graphs], data.rows, prices)
    for each in step:
        if each < 0:
            layout.run(-1 - each)
        else:
            layout.send(each)
    return layout.exposed()


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
    seconds: dict[tuple[str, str, int], float | None] = {}
    counts: dict[tuple[str, str], int] = {}
    for graph in fusion_of(trace).graphs:
        place = graph.artifact.frame, graph.artifact.graph
        counts[place] = counts.get(place, -1) + 1
        each = [cost["seconds"] for cost in group_costs(trace, graph)]
        known = [one for one in each if one is not None]
        seconds[*place, counts[place]] = sum(known) * runs_of(trace, graph) if len(known) == len(each) else None
    return seconds


@dataclass
class _Layout:
    """The works of a step, in the order in which a GPU's streams get them."""

    seconds: Sequence[float | None]
    rows: Sequence[EagerCollective]
    prices: Prices
    works: list[Work] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)  # the row of each collective, by its number among the works
    due: list[int] = field(default_factory=list)  # what the next graph waits for
    later: list[int] = field(default_factory=list)  # what the graph after the next waits for
    scattering: list[int] = field(default_factory=list)  # what the next scatter waits for
    at_end: list[int] = field(default_factory=list)

    def run(self, graph: int) -> None:
        """Run a graph, after the waits for what it needs."""
        self._wait(self.due)
        self.due, self.later = self.later, []
        self.works.append(Work(self.seconds[graph]))

    def send(self, row: int) -> None:
        """Start a collective, and note who waits for it."""
        collective, number = self.rows[row], len(self.sent)
        self.sent.append(row)
        start = Work(self.prices.get(row), starts=number, group=collective.group)
        if collective.sender == FSDP2 and "gather" in collective.operator:
            self.works.insert(len(self.works) if collective.prefetched else self._while_the_last_graph_runs(), start)
            (self.later if collective.prefetched else self.due).append(number)
        elif collective.sender == FSDP2:
            self._wait(self.scattering)
            self.works.append(start)
            self.scattering = [number]
        elif collective.sender == DDP and collective.operator == "all_reduce":
            self.works.append(start)
            self.at_end.append(number)
        else:
            self.works.append(start)
            self._wait([number])

    def _while_the_last_graph_runs(self) -> int:
        """Where a work is inserted that may run beside the last graph: before it, but after all collectives."""
        last = self.works[-1:]
        return len(self.works) - 1 if last and last[0].starts is None and last[0].waits is None else len(self.works)

    def _wait(self, numbers: Sequence[int]) -> None:
        self.works += [Work(waits=number) for number in numbers]

    def exposed(self) -> Prices:
        """The mean stall of each row's collectives; None where one is unknown."""
        self._wait([*self.due, *self.later, *self.scattering, *self.at_end])
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


__all__ = ["GraphSeconds", "Prices", "exposed_seconds", "last_step", "seconds_of_graphs"]
