"""What each group of scheduler nodes takes in one run, for a graph view that shows it in each box. Pure.

A kernel that is launched for several groups has one row in `costs.kernel_rows`; here each group has its own launch.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.gpus.figures import Target
from explorer.model.trace_data import TraceData
from explorer.questions.costs import estimate, measured_ms, target_of, unsized
from explorer.questions.fusion import Graph
from explorer.questions.kernels import kernels_of
from explorer.questions.rows import GroupCost, GroupRow

#: A group that nothing is known of.
UNKNOWN = GroupCost(seconds=None, timed="", limit="")


def group_costs(trace: TraceData, graph: Graph) -> list[GroupCost]:
    """List what each of `graph.groups()` takes, in their order: measured where autotuning timed it, else estimated."""
    place = (graph.artifact.frame, graph.artifact.graph)
    milliseconds = {k.name: measured_ms(k) for k in kernels_of(trace) if (k.artifact.frame, k.artifact.graph) == place}
    target = target_of(trace)
    return [_cost(group, milliseconds, target) for group in graph.groups()]


def _cost(group: GroupRow, milliseconds: Mapping[str, float | None], target: Target | None) -> GroupCost:
    timed = [milliseconds.get(name) for name in group["kernels"]]
    known = [ms for ms in timed if ms is not None]
    if timed and len(known) == len(timed):
        return GroupCost(seconds=sum(known) / 1000, timed="measured", limit="")
    if target is None or unsized([group]):
        return UNKNOWN
    estimated = estimate(target, group)
    return GroupCost(seconds=estimated.seconds, timed="estimated", limit=estimated.limit)


__all__ = ["group_costs"]
