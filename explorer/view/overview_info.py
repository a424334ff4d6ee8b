"""What a trace came to, for the tab that a view opens on. Pure. `wire.py` types it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from explorer.analysis.advice.verdicts import duration
from explorer.analysis.overview.launches import Alike, titled
from explorer.analysis.overview.overview import Overview, kind
from explorer.analysis.questions.call_lines import Place, call_lines
from explorer.analysis.questions.input_sizes import InputSize
from explorer.analysis.questions.memory import Memory
from explorer.view import wire
from explorer.view.places import Places

#: Launches that are alike count as one; so many are shown, the longest.
MAX_LAUNCHES = 12


def overview_info(overview: Overview, memory: Memory, places: Places) -> wire.OverviewInfo:
    """Return what a trace came to, with its places in the payload's texts."""
    call = overview.call
    graph, kinds = _live_at_peak(memory)
    return {
        "trace": "",
        "where": overview.where,
        "compile_seconds": overview.compile_seconds,
        "lacks_backward": overview.lacks_backward,
        "flow": [{"count": step.count, "noun": step.noun, "is_launch": step.is_launch} for step in overview.flow],
        "seconds": call.seconds,
        "device": call.device if call.measured is None else call.measured,
        "host": call.host,
        "breaks": call.breaks if call.measured is None else 0,  # they are in the parts
        "breaking": call.breaking,
        "known": overview.known,
        "about": overview.advice.about,
        "launches": call.launch_count,
        "ranked": len(call.launches),
        "unread": call.unread,
        "work": [{"what": work.what, "count": work.count, "seconds": work.seconds} for work in overview.parts or overview.work],
        "hottest": list(_hottest(overview, places)),
        "longest": _longest(overview),
        "peak": f"{graph[1]} (compile id {graph[0]})",
        "bound": "at least" if graph in _incomplete(memory) else "at most",
        "memory": kinds,
        "saved": overview.saved_for_backward,
        "saved_inputs": sum(row["bytes"] or 0 for row in memory.saved if row["kind"] == "input"),
        "inputs": [_input(each, places) for each in overview.inputs],
    }


def _input(each: InputSize, places: Places) -> wire.InputInfo:
    artifact, line = places.of(each["guards"], each["line"])
    return {
        "name": each["name"],
        "dtype": each["dtype"],
        "does": each["does"],
        "place": each["place"],
        "code": each["code"],
        "artifact": artifact,
        "line": line,
    }


def _hottest(overview: Overview, places: Places) -> Iterator[wire.HotInfo]:
    calls = call_lines(overview.trace)
    for group in overview.groups[:MAX_LAUNCHES]:
        artifact, line = _place(overview, group, calls, places)
        user = group.ranked[0].user_line
        source, at, place, code = places.user_line(user) if user else (-1, 0, "", "")
        yield {
            "title": group.title,
            "kind": kind(group.ranked[0].launch),
            "seconds": group.seconds,
            "share": group.share,
            "kernel": str(group.first["kernel"]),
            "launches": len(group.ranked),
            "artifact": artifact,
            "line": line,
            "source": source,
            "at": at,
            "place": place,
            "code": code,
            "others": int(str(group.first["other_lines"])),
        }


def _longest(overview: Overview) -> str:
    """Name the longest single launch with its seconds and user line; "" if the launches listed first include it."""
    first, *others = overview.groups or (Alike(()),)
    longest = max(others, key=lambda group: group.ranked[0].launch.seconds, default=first)
    if not others or longest.ranked[0].launch.seconds <= first.ranked[0].launch.seconds:
        return ""
    row = longest.first
    return ", ".join(filter(None, (titled(row, 1), duration(longest.ranked[0].launch.seconds), str(row["line"]))))


def _place(overview: Overview, group: Alike, calls: Mapping[Place, tuple[str, int]], places: Places) -> tuple[int, int]:
    """Return the text and line of the longest of the launches: its kernel, or its call in the output code; -1 for none."""
    launch = group.ranked[0].launch
    row = launch.row
    called = calls.get((row["frame"], row["graph"], row["name"]), ("", 0))
    found = [called] if called[1] else overview.call.places_of([launch])
    return next((places.of(*place) for place in found), (-1, 0))


def _live_at_peak(memory: Memory) -> tuple[tuple[str, str], list[wire.KindInfo]]:
    """Return the graph that takes most, as (frame, graph), and the kinds of what is live at its peak, the largest first."""
    graphs: dict[tuple[str, str], Counter[str]] = {}
    for row in memory.peak:
        graphs.setdefault((row["frame"], row["graph"]), Counter())[row["kind"]] += row["bytes"] or 0
    graph, largest = max(graphs.items(), key=lambda of: of[1].total(), default=(("", ""), Counter[str]()))
    return graph, [{"kind": kind, "bytes": size} for kind, size in largest.most_common()]


def _incomplete(memory: Memory) -> set[tuple[str, str]]:
    """Return the graphs that have a buffer of unknown size, or a call of unknown scratch memory."""
    unsized = (row for row in memory.table if row["bytes"] is None)
    return {(row["frame"], row["graph"]) for row in (*unsized, *memory.uncounted)}
