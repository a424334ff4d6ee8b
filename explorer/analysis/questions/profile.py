"""The times that a profile measured, by kernel and library call, and how they are shared among nodes and user lines. Pure.

The time of a kernel is shared evenly among the FX nodes that it computes, and that of a node goes to its user line; where a pass
made the node, evenly to the lines that the links lead to. So all lines together have the time of all kernels. What a line takes
alone nobody measured, since its kernel runs as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from explorer.analysis.questions.program_places import lines_of_node
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain, Table, once
from explorer.stages.torch_compile.profile import UNJOINED, Profile, ProfiledPart

#: Frame, graph, and the name of a kernel or of a library call's scheduler node.
Place = tuple[str, str, str]

MEASURED = "measured by {source}{device}: {launches} launches in {runs} runs, {mean:.4g} ms a run on average"
NODE_COLUMNS = ("frame", "graph", "node", "target", "seconds", "whole", "kernels", "file", "line", "code", "module")
#: What the fields of a part are called in a table, as in `Kernels.table`.
COLUMN_NAMES: Mapping[str, str] = {"name": "kernel"}
PROFILE_COLUMNS = tuple(COLUMN_NAMES.get(key, key) for key in ProfiledPart.__annotations__)
LINE_COLUMNS = ("file", "line", "code", "seconds", "share", "whole", "kernels")


def profile_of(trace: TraceData) -> Profile | None:
    """The profile that was read in last; None without one."""
    artifacts = trace.find("profile")
    return typed(Profile, artifacts[-1].data) if artifacts else None


@once
def parts_by_place(trace: TraceData) -> Mapping[Place, ProfiledPart]:
    """Map each kernel and library call that the profile has to its part; {} without a profile."""
    profile = profile_of(trace)
    rows = profile.rows if profile is not None else ()
    return MappingProxyType({(row.frame, row.graph, row.name): row for row in rows if row.kind != UNJOINED})


def seconds_a_run(part: ProfiledPart) -> float:
    """The mean seconds of all launches of a part in one run of its graph."""
    return part.seconds / max(1, part.runs)


def how_measured(trace: TraceData, part: ProfiledPart) -> str:
    """Say what measured a part, where, and how often."""
    profile = profile_of(trace)
    device = f" on {profile.device}" if profile is not None and profile.device else ""
    source = profile.source if profile is not None else "a profile"
    ms = seconds_a_run(part) * 1000
    return MEASURED.format(source=source, device=device, launches=part.launches, runs=part.runs, mean=ms)


def profile_table(trace: TraceData) -> Table:
    """See `t.profile.table`."""
    profile = profile_of(trace)
    rows = profile.rows if profile is not None else ()
    return Table(map(_profile_row, rows), PROFILE_COLUMNS)


def _profile_row(part: ProfiledPart) -> Mapping[str, Plain]:
    """Return a part as a row: what was not joined has the profile's own name for it."""
    names = {"name": part.name or ", ".join(part.events)}
    return {COLUMN_NAMES.get(key, key): value for key, value in {**part.mapping(), **names}.items()}


def node_times(trace: TraceData) -> Table:
    """See `t.profile.nodes`."""
    return Table(_node_rows(trace), NODE_COLUMNS)


def _node_rows(trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    shares: dict[Place, list[tuple[float, ProfiledPart]]] = {}
    for part in parts_by_place(trace).values():
        for name in part.nodes or ("",):
            share = seconds_a_run(part) / max(1, len(part.nodes))
            shares.setdefault((part.frame, part.graph, name), []).append((share, part))
    nodes = {(a.frame, a.graph, str(each["name"])): each for a in trace.find("post_grad") for each in a.nodes}
    unknown: Mapping[str, Plain] = {}
    for place, parts in sorted(shares.items(), key=lambda item: -sum(seconds for seconds, _ in item[1])):
        node = nodes.get(place, unknown)
        yield {
            "frame": place[0],
            "graph": place[1],
            "node": place[2],
            "target": str(node.get("target", "")),
            "seconds": sum(seconds for seconds, _ in parts),
            "whole": sum(seconds_a_run(part) for _, part in parts),
            "kernels": tuple(dict.fromkeys(part.name for _, part in parts)),
            "file": str(node.get("file") or ""),
            "line": int(node.get("line") or 0),
            "code": str(node.get("code") or ""),
            "module": str(node.get("module") or ""),
        }


def line_times(trace: TraceData) -> Table:
    """See `t.profile.lines`."""
    groups: dict[tuple[str, int], list[Mapping[str, Plain]]] = {}
    for node in _node_rows(trace):
        for row in _by_line(trace, node):
            groups.setdefault((row["file"], row["line"]), []).append(row)
    whole = {place: seconds_a_run(part) for place, part in parts_by_place(trace).items()}
    total = sum(whole.values())
    rows = (_line_row(file, line, rows, whole, total) for (file, line), rows in groups.items())
    return Table(sorted(rows, key=lambda row: -row["seconds"]), LINE_COLUMNS)


def _by_line(trace: TraceData, row: Mapping[str, Plain]) -> Iterator[Mapping[str, Plain]]:
    """Return a node's row with its line; for a node that a pass made, one row per line that its links lead to, with its part."""
    places = lines_of_node(trace, row["frame"], row["graph"], {**row, "name": row["node"]})
    for file, line, code in places:
        yield {**row, "file": file, "line": line, "code": code, "seconds": row["seconds"] / len(places)}
    if not places:
        yield row


def _line_row(
    file: str, line: int, rows: list[Mapping[str, Plain]], whole: Mapping[Place, float], total: float
) -> Mapping[str, Plain]:
    """One user line: its share of its kernels' time, and all of the time of these kernels, each counted once."""
    seconds = sum(row["seconds"] for row in rows)
    places = dict.fromkeys((row["frame"], row["graph"], kernel) for row in rows for kernel in row["kernels"])
    return {
        "file": file,
        "line": line,
        "code": rows[0]["code"],
        "seconds": seconds,
        "share": seconds / total if total else 0.0,
        "whole": sum(whole[place] for place in places),
        "kernels": tuple(dict.fromkeys(kernel for _, _, kernel in places)),
    }
