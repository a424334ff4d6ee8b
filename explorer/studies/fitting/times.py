"""The seconds of a model's regions: kernels, library calls and collectives by what bounds them, as often as each runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from explorer.analysis.questions.collectives import is_collective, is_wait
from explorer.analysis.questions.costs import call_rows, kernel_rows
from explorer.analysis.questions.priced_collectives import priced_collectives
from explorer.model.trace_data import TraceData
from explorer.model.values import Table

COLLECTIVES, UNKNOWN = "collectives", "unknown"
COLUMNS = ("region", "graph", "limit", "seconds", "number")


def times(regions: Iterable[tuple[str, int, TraceData]]) -> Table:
    """One row for each region, graph and limit: the seconds of all its calls, and the number of launches.

    `limit` is "operations", "memory", "L2" or "launch" as in `costs.LIMITS`, "collectives" for the exposed part of collectives,
    and "unknown" for launches without an estimate, whose seconds are 0.
    """
    rows = []
    for path, calls, trace in regions:
        sums: dict[tuple[str, str], tuple[float, int]] = {}
        for graph, limit, seconds, number in _costs(trace):
            before = sums.get((graph, limit), (0.0, 0))
            sums[graph, limit] = before[0] + seconds * calls, before[1] + number * calls
        for (graph, limit), (total, count) in sums.items():
            rows.append({"region": path, "graph": graph, "limit": limit, "seconds": total, "number": count})
    return Table(sorted(rows, key=lambda row: -float(str(row["seconds"]))), COLUMNS)


def _costs(trace: TraceData) -> Iterator[tuple[str, str, float, int]]:
    """Graph, limit, seconds and number of each kernel, library call and collective."""
    calls = [row for row in call_rows(trace) if not is_collective(row["call"]) and not is_wait(row["call"])]
    for row in (*kernel_rows(trace), *calls):
        limit = row["limit"] if row["seconds"] is not None else UNKNOWN
        yield row["graph"], limit, row["seconds"] or 0.0, row["launches"] or 0
    for collective in priced_collectives(trace).where(sent_by=""):
        exposed = collective["exposed"]
        yield collective["graph"], COLLECTIVES if exposed is not None else UNKNOWN, exposed or 0.0, 1


__all__ = ["COLLECTIVES", "UNKNOWN", "times"]
