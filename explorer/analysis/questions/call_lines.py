"""Where the output code calls a library: the line of each call that the scheduler made. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.analysis.questions.costs import is_call
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.rows import GroupRow
from explorer.analysis.questions.user_lines import kernel_places
from explorer.model.trace_data import TraceData

#: Frame, graph and a name in it: that of a library's function, or of a group of scheduler nodes.
Place = tuple[str, str, str]


def call_lines(trace: TraceData) -> Mapping[Place, tuple[str, int]]:
    """Map each group that is a library call to its artifact and line.

    A line is 0 unless there are as many lines of that name as calls; the artifact is "" without output code.
    """
    lines = _lines_by_name(trace)
    calls: dict[Place, list[GroupRow]] = {}
    for group in (group for graph in fusion_of(trace).graphs for group in graph.groups()):
        if is_call(group):
            calls.setdefault((group["frame"], group["graph"], group["call"]), []).append(group)
    places: dict[Place, tuple[str, int]] = {}
    for (frame, graph, name), groups in calls.items():
        found = lines.get((frame, graph, name), [])
        wrapper = next((a.id for a in trace.find("output_code", frame, graph)), "")
        for number, group in enumerate(groups):
            places[frame, graph, group["name"]] = found[number] if len(found) == len(groups) else (wrapper, 0)
    return places


def _lines_by_name(trace: TraceData) -> dict[Place, list[tuple[str, int]]]:
    """Where the output code calls each function of a library, as (artifact, line), in order.

    If a graph was compiled again, the last text counts.
    """
    last = {(a.frame, a.graph): a for a in trace.find("output_code")}
    found: dict[Place, list[tuple[str, int]]] = {}
    for a in last.values():
        for name, lines, _ in kernel_places(trace, a):
            if lines:
                found.setdefault((a.frame, a.graph, name), []).append((a.id, lines[0]))
    return found


__all__ = ["call_lines"]
