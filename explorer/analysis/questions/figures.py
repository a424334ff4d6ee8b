"""The cost of one run of a trace's generated code: kernels, launches, bytes, estimated seconds. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.analysis.questions.costs import REGION, estimate, is_call, runs_of, unknown_call, unsized
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain
from explorer.model.wording import quantity


def figures(trace: TraceData) -> dict[str, float | None]:
    """Return the cost of one run: kernels, groups, launches, bytes read and written, estimated seconds.

    `groups` counts the scheduler's nodes after fusion, library calls included; a C++ kernel can hold several.
    `launches` counts kernels and calls as often as the code runs them once through. `estimated_seconds` adds up the estimates
    of all launches (`costs.estimate`), as if each began when the one before ended, and leaves out calls that nothing is known
    of. The figures are the named GPU's, or those that torch reads of the attached one (`target.attached_gpu`); None where they
    are not known, as for the CPU: see `estimated`.
    """
    graphs = fusion_of(trace).graphs
    runs = [(g, row) for g in graphs for row in g.groups() for _ in range(runs_of(trace, g))]
    written = sum(len(g.verdicts.data.kernels) * runs_of(trace, g) for g in graphs)
    calls = sum(1 for _, row in runs if is_call(row))
    target = gpu_of(trace)
    sized = (row for _, row in runs if not row["unsized"] and row["call"] != REGION)
    seconds = [estimate(target, row).seconds or 0.0 for row in sized] if target else []
    return {
        "kernels": len(trace.find("kernel")),
        "groups": sum(1 for g in graphs for _ in g.groups()),
        "launches": written + calls,
        "bytes_read": sum(row["read"] for _, row in runs if row["call"] != REGION),
        "bytes_written": sum(row["written"] for _, row in runs if row["call"] != REGION),
        "estimated_seconds": sum(seconds) if target else None,
    }


def estimated(trace: TraceData) -> str:
    """Say where the estimated seconds of a trace come from, or why there are none."""
    target = gpu_of(trace)
    if target is None and compiled_for(trace).is_cpu:
        return "no estimate for the CPU: its memory's bandwidth and its peak rates are not known; measured_seconds says it"
    if target is None:
        return "no estimate: the figures of this device are not known"
    rates = "" if target.peak else ", bytes alone: its peak rates are not known"
    rows = [row for g in fusion_of(trace).graphs for row in g.groups()]
    missing = unsized(rows)
    launches = [estimate(target, row) for row in rows]
    outside = dict.fromkeys(launch.outside for launch in launches if launch.outside and launch.seconds is not None)
    beyond = f"; not validated: {'; '.join(outside)}" if outside else ""
    without = without_unknown([name for row in rows if (name := unknown_call(row))])
    return f"an estimate for {target.title}{rates}{without}{f'; left out: {missing}' if missing else ''}{beyond}"


def without_unknown(operators: Sequence[str]) -> str:
    """Say which calls a sum of estimates leaves out, by the operators of all such calls; "" if it leaves out none."""
    if not operators:
        return ""
    names = ", ".join(dict.fromkeys(operators))
    return f", without {quantity(len(operators), 'call')} that nothing is known of ({names})"


def shown(value: Plain) -> str:
    """Format a figure for people; "?" if it is unknown."""
    if value is None:
        return "?"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
