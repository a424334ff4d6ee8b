"""Say which launches of a call take longer, or less, in one trace than in another. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.analysis.advice.verdicts import duration
from explorer.analysis.overview.launches import titled
from explorer.analysis.overview.overview import Overview
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain, Table
from explorer.model.wording import cut

#: Changes that are printed, the largest first, and the part of a call's work below which a change is not.
MAX_CHANGES, MIN_PART = 5, 0.003
#: Columns of a title that is printed.
TITLE = 44


def changed_launches(traces: Sequence[TraceData], names: Sequence[str]) -> Table:
    """One row per kind of launch of a line, the largest change first. See `Comparison.launches`."""
    return _changed([*map(Overview, traces)], names)


def _changed(overviews: Sequence[Overview], names: Sequence[str]) -> Table:
    groups = [
        {(group.first["what"], group.first["line"], group.first["graph"]): group for group in overview.groups}
        for overview in overviews
    ]
    rows = []
    for what, line, graph in dict.fromkeys(key for of in groups for key in of):
        found = [of.get((what, line, graph)) for of in groups]
        are_known = all(group.is_known for group in found if group)
        seconds = [group.seconds if group and group.is_known else None for group in found]
        rows.append(
            {
                "what": what,
                **dict(zip(names, seconds, strict=True)),
                "change": (seconds[-1] or 0.0) - (seconds[0] or 0.0) if are_known else None,
                **{f"{name} launches": len(group.ranked) if group else 0 for name, group in zip(names, found, strict=True)},
                "line": line,
                "code": next(group.first["code"] for group in found if group),
                "graph": graph,
            }
        )
    columns = ("what", *names, "change", *(f"{name} launches" for name in names), "line", "code", "graph")
    return Table(sorted(rows, key=lambda row: -_size(row)), columns, "no kernel of these traces has a time")


def in_words(traces: Sequence[TraceData], names: Sequence[str]) -> str:
    """Write what a call takes in each of two traces, and the launches that change most; "" where a time is not known."""
    overviews = [*map(Overview, traces)]
    calls = [overview.call for overview in overviews]
    if not all(call.launches for call in calls):
        return ""
    whole = " and ".join(f"{duration(call.seconds)}{call.without} in {name}" for call, name in zip(calls, names, strict=True))
    least = MIN_PART * max(call.device for call in calls)
    rows = [row for row in _changed(overviews, names) if _size(row) >= least][:MAX_CHANGES]
    lines = [f"a call takes {whole}, launches from Python included{'; what changes most of its work:' if rows else ''}"]
    return "\n".join([*lines, *(_line(row, names) for row in rows)])


def _size(row: Mapping[str, Plain]) -> float:
    """Return by how many seconds a row changes, in either direction; 0 where that is not known."""
    return abs(float(str(row["change"] or 0)))


def _line(row: Mapping[str, Plain], names: Sequence[str]) -> str:
    first, second = ("–" if row[name] is None else duration(float(str(row[name]))) for name in (names[0], names[-1]))
    counts = {row[f"{name} launches"] for name in names if row[name] is not None}
    title = cut(titled(row, counts.pop() if len(counts) == 1 else 1), TITLE)
    return f"  {first:>8} → {second:>8}  {title:<{TITLE}}  {row['line']}".rstrip()


__all__ = ["changed_launches", "in_words"]
