"""The runs of compiled functions in a profile: which spans belong to which run, and which graph of a trace each run is of. Pure.

torch marks a run of a compiled frame with a span "Torch-Compiled Region: 0/0", and that of a backward with
"CompiledFunctionBackward". The number is that of the process that was profiled, which need not be the trace's: what a run
launches says which graph it is of, and the numbers only decide between graphs that launch the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.analysis.timing.launch_names import GraphLaunches, kernel_name
from explorer.analysis.timing.timeline import NONE, Span, Timeline
from explorer.model.values import once

REGION, BACKWARD = "Torch-Compiled Region: ", "CompiledFunctionBackward"


@dataclass
class Launched:
    """A kernel or operator that a run launched: its `name`, its times in `spans`, and with `is_kernel` which of both it is."""

    name: str
    is_kernel: bool
    spans: list[Span] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Run:
    """One run of a compiled function, with the number of its span; NONE for what is in no run.

    `launched` are its kernels and calls in order, `others` all else, as (span, its seconds).
    """

    region: int
    label: str
    backward: bool
    launched: list[Launched] = field(default_factory=list)
    others: list[tuple[Span, float]] = field(default_factory=list)
    graph: GraphLaunches | None = None

    def names(self) -> tuple[set[str], Counter[str]]:
        """The kernels that it launched, and how often it called each operator."""
        calls = Counter(each.name for each in self.launched if not each.is_kernel)
        return {each.name for each in self.launched if each.is_kernel}, calls


def runs_of(timeline: Timeline, graphs: Sequence[GraphLaunches]) -> list[Run]:
    """Divide a profile into runs, each with its graph where that is clear; the first is what is in no run."""
    regions = regions_of(timeline)
    runs = {NONE: Run(NONE, "", False)}
    for number in dict.fromkeys(region for region in regions if region != NONE):
        name = timeline.cpu[number].name
        runs[number] = Run(number, name.removeprefix(REGION), name == BACKWARD)
    kernels = {name for graph in graphs for name in graph.kernels}
    operators = {name for graph in graphs for name in graph.calls}
    if timeline.gpu:
        _place_device_spans(timeline, regions, runs, kernels, operators)
    else:
        _place_cpu_spans(timeline, regions, runs, kernels, operators)
    for run in runs.values():
        run.graph = None if run.region == NONE else _graph_of(run, graphs, list(runs.values()))
    return list(runs.values())


@once
def regions_of(timeline: Timeline) -> Sequence[int]:
    """The innermost run that each span of the CPU is in, or is."""
    regions: list[int] = []
    for number, span in enumerate(timeline.cpu):
        parent = timeline.parents[number]
        is_run = span.name.startswith(REGION) or span.name == BACKWARD
        regions.append(number if is_run else regions[parent] if parent != NONE else NONE)
    return regions


def base_name(name: str) -> str:
    """An operator's name without its namespace: "mm" of "aten::mm"; "" for what is no operator."""
    return name.rpartition("::")[2] if "::" in name else ""


def _unit_of(timeline: Timeline, regions: Sequence[int], number: int, kernels: set[str], operators: set[str]) -> tuple[int, bool]:
    """The outermost span that is a kernel or a library call, of those around a span in its own run; whether it is a kernel."""
    region = regions[number] if number != NONE else NONE
    unit, is_kernel = NONE, False
    for above in timeline.above(number):
        if above == region or regions[above] != region:
            break
        name = kernel_name(timeline.cpu[above].name)
        if name in kernels or base_name(name) in operators:
            unit, is_kernel = above, name in kernels
    return unit, is_kernel


def _place_cpu_spans(
    timeline: Timeline, regions: Sequence[int], runs: Mapping[int, Run], kernels: set[str], operators: set[str]
) -> None:
    """Give each run its kernels and calls, with all that is inside these; the time of each other span that is its own."""
    units: dict[int, Launched] = {}
    for number, own in enumerate(timeline.own_seconds()):
        run = runs[regions[number]]
        unit, is_kernel = _unit_of(timeline, regions, number, kernels, operators)
        if unit == NONE or (run.region == NONE and not is_kernel):  # the program's own calls outside are not Inductor's
            run.others.append((timeline.cpu[number], own))
            continue
        if unit not in units:
            name = kernel_name(timeline.cpu[unit].name)
            units[unit] = Launched(name if is_kernel else base_name(name), is_kernel, [timeline.cpu[unit]])
            run.launched.append(units[unit])
        units[unit].seconds += own


def _place_device_spans(
    timeline: Timeline, regions: Sequence[int], runs: Mapping[int, Run], kernels: set[str], operators: set[str]
) -> None:
    """Give each run the kernels that it launched, by their own names or by the operator that launched them."""
    units: dict[int, Launched] = {}
    for span, call in zip(timeline.gpu, timeline.launched_by, strict=True):
        run = runs[regions[call] if call != NONE else NONE]
        if span.name in kernels:
            run.launched.append(Launched(span.name, True, [span], span.seconds))
            continue
        unit, is_kernel = _unit_of(timeline, regions, call, kernels, operators)
        if unit == NONE or run.region == NONE:
            run.others.append((span, span.seconds))
            continue
        if unit not in units:
            name = kernel_name(timeline.cpu[unit].name)
            units[unit] = Launched(name if is_kernel else base_name(name), is_kernel)
            run.launched.append(units[unit])
        units[unit].spans.append(span)
        units[unit].seconds += span.seconds


def _graph_of(run: Run, graphs: Sequence[GraphLaunches], runs: Sequence[Run]) -> GraphLaunches | None:
    """The graph that launches what a run launched; None where none or several do."""
    fitting = _fitting(run, graphs)
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    same = [graph for graph in fitting if graph.frame == run.label]
    if len(same) == 1:
        return same[0]
    alike = (other for other in runs if other.region != NONE and other.backward == run.backward)
    labels = sorted({other.label for other in alike if _fitting(other, graphs) == fitting}, key=_numbers)
    return fitting[labels.index(run.label)] if len(labels) == len(fitting) and run.label in labels else None


def _fitting(run: Run, graphs: Sequence[GraphLaunches]) -> list[GraphLaunches]:
    """The graphs that launch all that a run launched, those with the very same calls before others."""
    kernels, calls = run.names()
    if not kernels and not calls:
        return []
    found = [g for g in graphs if (g.graph == "backward") == run.backward and kernels <= g.kernels.keys()]
    missing = {id(g): len(set(g.kernels.values())) - len({g.kernels[name] for name in kernels}) for g in found}
    exact = [g for g in found if g.call_counts == calls] or found
    least = min((missing[id(g)] for g in exact), default=0)
    return [g for g in exact if missing[id(g)] == least]


def _numbers(label: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in label.split("/"))


__all__ = ["BACKWARD", "REGION", "Launched", "Run", "base_name", "regions_of", "runs_of"]
