"""The rows of `t.live.cost`: one warm call of a compiled function in parts, and the same call in eager mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.capture.splice.call_layers import CallTimes
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain, Table
from explorer.stages import stage_of
from explorer.stages.torch_compile.run_times import CALL, EAGER, GUARD, PART

#: The columns of the rows, and the guards that are listed, the dearest.
COLUMNS = ("kind", "part", "seconds", "share", "count", "how", "frame", "file", "line", "code")
MAX_GUARDS = 10


def cost_rows(trace: TraceData, times: CallTimes, frames: Mapping[str, str]) -> Table:
    """List the call, the call in eager mode, the parts in order, and the dearest guards with their user lines.

    `frames` has the trace's compile ids by those of the process, which counts all its compiles.
    """
    return Table(_rows(trace, times, frames), COLUMNS)


def _rows(trace: TraceData, times: CallTimes, frames: Mapping[str, str]) -> Iterator[Mapping[str, Plain]]:
    median = f"median of {times.repeats} rounds"
    yield _row(times, kind=CALL, part="a warm call", seconds=times.seconds, count=1, how=median)
    yield _row(times, kind=EAGER, part="the call in eager mode", seconds=times.eager, count=1, how=median)
    for part in times.parts:
        yield _row(times, kind=PART, part=part.name, seconds=part.seconds, count=part.count, how=part.how)
    places = _places(trace)
    how = "what the guards on this source add to a check"
    for guard in times.guards[:MAX_GUARDS]:
        frame = frames.get(guard.compile_id, guard.compile_id)
        place = places.get((frame, guard.source), ("", 0, ""))
        row = {"kind": GUARD, "part": guard.source, "seconds": guard.seconds, "count": guard.guards, "how": how}
        yield _row(times, frame, place, **row)


def _row(times: CallTimes, frame: str = "", place: tuple[str, int, str] = ("", 0, ""), **row: Plain) -> Mapping[str, Plain]:
    share = float(str(row["seconds"])) / times.seconds if times.seconds else 0.0
    file, line, code = place
    return {**row, "share": share, "frame": frame, "file": file, "line": line, "code": code}


def _places(trace: TraceData) -> Mapping[tuple[str, str], tuple[str, int, str]]:
    """The user line of the guards on each source, by frame and source."""
    found: dict[tuple[str, str], tuple[str, int, str]] = {}
    for guards in trace.find("guards"):
        for row in stage_of(trace, "guards").rows(guards, trace):
            if row["file"]:
                found.setdefault((guards.frame, str(row["source"])), (str(row["file"]), int(row["line"]), str(row["code"] or "")))
    return found
