"""The times of `t.live.profile` as a profile. Pure."""

from __future__ import annotations

from explorer.analysis.timing.launch_names import launches_of
from explorer.errors import InputError
from explorer.model.trace_data import TraceData
from explorer.model.values import Table
from explorer.stages.torch_compile.profile import Profile, ProfiledPart

#: The columns of the rows of `t.live.profile`.
COLUMNS = ("frame", "graph", "kernel", "kind", "launches", "seconds", "low", "high", "each", "idle", "repeats", "how")


def profile_of_rows(trace: TraceData, rows: Table) -> Profile:
    """Make a profile of one run from the medians of `time_kernels`; InputError for other rows."""
    if not rows or not set(COLUMNS) <= set(rows.columns):
        raise InputError(f"these rows did not come from t.live.profile(), whose columns are {', '.join(COLUMNS)}")
    nodes = {(graph.frame, graph.graph, name): found for graph in launches_of(trace) for name, found in graph.nodes.items()}
    parts = [
        ProfiledPart(
            frame=row["frame"],
            graph=row["graph"],
            name=row["kernel"],
            kind=row["kind"],
            nodes=nodes.get((row["frame"], row["graph"], row["kernel"]), ()),
            events=(row["kernel"],),
            launches=row["launches"],
            seconds=row["seconds"],
            runs=1,
            each=row["each"],
            idle=row["idle"],
            why="",
        )
        for row in rows
    ]
    parts.sort(key=lambda part: -part.seconds)
    of = "CPU" if rows[0]["idle"] is not None else "device"
    source = f"t.live.profile(), the median of {rows[0]['repeats']} runs"
    return Profile(source=source, device="", of=of, seconds=sum(part.seconds for part in parts), rows=tuple(parts))
