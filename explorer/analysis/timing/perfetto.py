"""Write a trace for Perfetto: the compile's phases, its passes, and what one run launches. Pure, but for the file.

The format is Chrome's "Trace Event Format", which ui.perfetto.dev opens: https://perfetto.dev/docs/getting-started/other-formats.
Times are in microseconds, in whole nanoseconds: Perfetto rounds begin and length apart, and drops a slice that then overlaps the
one before. A process of Perfetto's is the compile or a run, a thread is a track.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from explorer.analysis.questions.costs import call_rows, is_call, kernel_rows
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.group_costs import group_costs
from explorer.analysis.questions.program_places import places_of_nodes
from explorer.analysis.questions.rows import CallRow, KernelRow
from explorer.analysis.questions.tables import table
from explorer.errors import FileError
from explorer.model.trace_data import TraceData
from explorer.model.values import MAX_SECONDS, jsonable

Event = dict[str, Any]

#: The processes: what the compiler did, and one run of what it made.
COMPILE, RUN = 1, 2
MICRO = 1e6


def save(trace: TraceData, path: str | PathLike[str]) -> None:
    """Write the file; see `t.profile.to_perfetto`."""
    data = json.dumps({"traceEvents": list(events(trace)), "displayTimeUnit": "ns"}).encode()
    Path(fspath(path)).write_bytes(gzip.compress(data) if fspath(path).endswith(".gz") else data)


def events(trace: TraceData) -> Iterator[Event]:
    """All events, each track after its name."""
    name = str(trace.meta.get("name") or "trace")
    yield _naming_event("process_name", COMPILE, 0, f"compile of {name}")
    track = 0
    end = 0.0
    for frame in trace.compile_ids:
        for title, rows in (("phases", list(_phases(trace, frame))), ("passes", list(_passes(trace, frame)))):
            if rows:
                track += 1
                yield _naming_event("thread_name", COMPILE, track, f"{frame} {title}")
                yield from (_in_nanoseconds({**row, "pid": COMPILE, "tid": track}) for row in rows)
                end = max(end, *(row["ts"] + row.get("dur", 0) for row in rows))
    yield _naming_event("process_name", RUN, 0, f"one run of {name}")
    for number, graph in enumerate(fusion_of(trace).graphs, 1):
        yield _naming_event("thread_name", RUN, number, f"{graph.artifact.frame} {graph.artifact.graph} kernels")
        for event in _launches(trace, number - 1):
            yield _in_nanoseconds({**event, "ts": event["ts"] + end, "pid": RUN, "tid": number})


def _in_nanoseconds(event: Event) -> Event:
    """Return the event with begin and end at whole nanoseconds: events that touch then do not overlap."""
    if not all(abs(event.get(key, 0.0)) <= MAX_SECONDS * MICRO for key in ("ts", "dur")):
        raise FileError(f"{event['name']!r} has a time that no compile can have: the file of the trace was altered")
    begin = round(event["ts"] * 1e3)
    if "dur" not in event:
        return {**event, "ts": begin / 1e3}
    return {**event, "ts": begin / 1e3, "dur": (round((event["ts"] + event["dur"]) * 1e3) - begin) / 1e3}


def _naming_event(what: str, process: int, track: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": {"name": name}}


# The compile ----------------------------------------------------------------------------------------------------------


def _phases(trace: TraceData, frame: str) -> Iterator[Event]:
    """The phases of a frame; the outermost one has torch's own figures of the compile."""
    rows = _of(trace, "compilation_metrics", frame)
    metrics = {row["of"]: {key: value for key, value in row.items() if key not in ("frame", "of")} for row in rows}
    for row in _of(trace, "phase", frame):
        about = {key: row[key] for key in ("function", "graph") if row[key]}
        if not row["depth"] and metrics:
            about |= {"compile_metrics": metrics}
        yield _span(row["name"], row["start"], row["seconds"], about)


def _passes(trace: TraceData, frame: str) -> Iterator[Event]:
    """The FX passes of a frame that changed something, each at its end less the time that it took."""
    for artifact in trace.find("fx_pass", frame):
        data = artifact.data
        seconds = artifact.seconds if data.get("seconds") is None else data.get("seconds")
        changes = {"section": data["section"], "graph": artifact.graph, "made": len(data["made"]), "erased": len(data["erased"])}
        yield _span(str(data["name"]), artifact.time - (seconds or 0.0), seconds, changes)


def _of(trace: TraceData, stage: str, frame: str) -> Iterator[Mapping[str, Any]]:
    return (row for row in table(trace, stage) if row["frame"] == frame)


def _span(name: str, start: float, seconds: float | None, about: Mapping[str, Any]) -> Event:
    """A slice, or an instant where the seconds are not known."""
    event: Event = {"name": name, "ts": start * MICRO, "args": jsonable(dict(about))}
    return {**event, "ph": "i", "s": "t"} if seconds is None else {**event, "ph": "X", "dur": seconds * MICRO}


# One run --------------------------------------------------------------------------------------------------------------


def _launches(trace: TraceData, number: int) -> Iterator[Event]:
    """The launches of one graph in the scheduler's order, one after the other from 0."""
    graph = fusion_of(trace).graphs[number]
    place = (graph.artifact.frame, graph.artifact.graph)
    rows: dict[str, KernelRow | CallRow] = {r["kernel"]: r for r in kernel_rows(trace) if (r["frame"], r["graph"]) == place}
    rows |= {r["node"]: r for r in call_rows(trace) if (r["frame"], r["graph"]) == place}
    lines = places_of_nodes(trace, *place)
    now = 0.0
    for group, cost in zip(graph.groups(), group_costs(trace, graph), strict=True):
        names = [group["name"]] if is_call(group) else list(group["kernels"])
        for name in names:
            row = rows.get(name)
            seconds = None if cost["seconds"] is None else cost["seconds"] / len(names)
            yield _span(group["call"] or name, now, seconds, _about(row, group["fx_nodes"], lines, cost["timed"]))
            now += seconds or 0.0


def _about(row: KernelRow | CallRow | None, nodes: tuple[str, ...], lines: Mapping[str, str], timed: str) -> Mapping[str, Any]:
    """What Perfetto shows of a launch that is selected."""
    about: dict[str, Any] = {"time": timed or "not known", "fx_nodes": ", ".join(nodes)}
    about["user_lines"] = list(dict.fromkeys(lines[node] for node in nodes if node in lines))
    if row is not None:
        operators = (*row.get("operators", ()), row.get("operator", ""))  # type: ignore[misc]
        about |= {"operators": ", ".join(filter(None, operators)), "bytes_read": row["read"], "bytes_written": row["written"]}
        about |= {"operations": row["operations"], "time_known": row["seconds_known"]}
    return about
