"""Rank what runs in a call, kernels and library calls together, by the seconds that each takes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.overview.titles import title
from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.values import Plain, Table

COLUMNS = ("what", "seconds", "share", "known", "line", "code", "other_lines", "read", "written", "kernel", "frame", "graph")


def launches(call: TracedCall) -> Table:
    """One row per launch of a call, the longest first; a table without rows says why. See `ProfileAccessor.launches`."""
    if not call.launches:
        return Table((), COLUMNS, call.unread or "the graphs have only views: nothing is launched")
    return Table(_rows(call), COLUMNS)


def alike(rows: Iterable[Mapping[str, Plain]]) -> list[list[Mapping[str, Plain]]]:
    """Gather the launches of the same kind of the same line, such as those of a model's layers, the longest together first."""
    gathered: dict[tuple[Plain, ...], list[Mapping[str, Plain]]] = {}
    for row in rows:
        gathered.setdefault((row["what"], row["line"], row["graph"]), []).append(row)
    return sorted(gathered.values(), key=lambda group: -sum(float(str(row["seconds"])) for row in group))


def _rows(call: TracedCall) -> Iterator[Mapping[str, Plain]]:
    cells, whole = cells_of(call.trace), sum(launch.seconds for launch in call.launches)
    for launch in sorted(call.launches, key=lambda launch: -launch.seconds):
        line, others = _lines(call, launch)
        yield {
            "what": title(call, launch),
            "seconds": launch.seconds,
            "share": launch.seconds / whole if whole else 0.0,
            "known": launch.known,
            "line": place(cells, line.file, line.number) if line else "",
            "code": line.code if line else "",
            "other_lines": others,
            "read": launch.row["read"],
            "written": launch.row["written"],
            "kernel": launch.name,
            "frame": launch.graph.artifact.frame,
            "graph": launch.graph.artifact.graph,
        }


def _lines(call: TracedCall, launch: Launch) -> tuple[UserLine | None, int]:
    """The user line that most nodes of a launch come from, and how many other lines there are."""
    counted = Counter(line for node in call.nodes_of(launch) for line in call.user_lines([node]))
    ranked = [line for line, _ in counted.most_common()]
    return (ranked[0], len(ranked) - 1) if ranked else (None, 0)
