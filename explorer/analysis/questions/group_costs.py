"""What each group of scheduler nodes takes in one run, for a graph view that shows it in each box. Pure.

A kernel that is launched for several groups has one row in `costs.kernel_rows`; here each group has its own launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from explorer.analysis.questions.costs import estimate, exchanges, measured_ms, unsized
from explorer.analysis.questions.fusion import Graph
from explorer.analysis.questions.kernels import kernels_of_graph
from explorer.analysis.questions.profile import parts_by_place, seconds_a_run
from explorer.analysis.questions.rows import GroupCost, GroupRow
from explorer.analysis.questions.target import gpu_of
from explorer.model.trace_data import TraceData
from explorer.reference.gpus.figures import Target
from explorer.stages.torch_compile.profile import ProfiledPart

#: A group that nothing is known of.
UNKNOWN = GroupCost(seconds=None, timed="", limit="")


def group_costs(trace: TraceData, graph: Graph) -> list[GroupCost]:
    """List what each of `graph.groups()` takes, in their order: measured by a profile or by autotuning, else estimated."""
    place = (graph.artifact.frame, graph.artifact.graph)
    milliseconds = {kernel.name: measured_ms(kernel) for kernel in kernels_of_graph(trace, *place)}
    target = gpu_of(trace)
    groups = list(graph.groups())
    profiled = _profiled(trace, place, groups)
    return [
        known if (known := profiled.get(group["name"])) is not None else _cost(group, milliseconds, target) for group in groups
    ]


def _profiled(trace: TraceData, place: tuple[str, str], groups: Sequence[GroupRow]) -> Mapping[str, GroupCost]:
    """The times of a profile by group: a kernel's launch each, by their order, or evenly where runs differ in their launches."""
    parts = parts_by_place(trace)
    numbers: Counter[str] = Counter()
    seconds_by_group: dict[str, list[float | None]] = {}
    launches = Counter(name for group in groups for name in group["kernels"])
    for group in groups if parts else ():
        for name in group["kernels"] or (group["name"],):
            part, number = parts.get((*place, name)), numbers[name]
            numbers[name] += 1
            seconds_by_group.setdefault(group["name"], []).append(None if part is None else _launch(part, number, launches[name]))
    return {
        name: GroupCost(seconds=sum(known), timed="measured", limit="")
        for name, seconds in seconds_by_group.items()
        if len(known := [each for each in seconds if each is not None]) == len(seconds)
    }


def _launch(part: ProfiledPart, number: int, launches: int) -> float:
    """The mean seconds of one of the launches of a run."""
    if len(part.each) == launches > number:
        return part.each[number] / part.runs
    return seconds_a_run(part) / max(1, launches)


def _cost(group: GroupRow, milliseconds: Mapping[str, float | None], target: Target | None) -> GroupCost:
    timed = [milliseconds.get(name) for name in group["kernels"]]
    known = [ms for ms in timed if ms is not None]
    if timed and len(known) == len(timed):
        return GroupCost(seconds=sum(known) / 1000, timed="measured", limit="")
    if target is None or unsized([group]) or exchanges(group):
        return UNKNOWN
    estimated = estimate(target, group)
    if estimated.seconds is None:
        return UNKNOWN
    return GroupCost(seconds=estimated.seconds, timed="estimated", limit=estimated.limit)


__all__ = ["group_costs"]
