"""Which rank the others wait for in collectives, and how long. Pure.

A rank that comes last to a collective is in it the shortest. So the clocks of ranks need not agree: what another rank is in it
longer, it waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from explorer.analysis.questions.collectives import CollectiveRow, collective_rows, eager_rows
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.stages.torch_compile.run_times import CallTime, ExchangeTime, RunTimes

#: Where a collective is: a text and its node there, or outside of the graphs its line.
_Place = tuple[str, str, int | None]
#: Operators that one rank sends or receives alone, so that the ranks do not end together.
ONE_SIDED = ("broadcast", "reduce", "gather", "scatter")


class WaitRow(TypedDict):
    """A collective that ranks ran: in `runs` runs, `late` is the rank that came last in most of them, `late_runs` in how many.

    There is a row only where all ranks of the group were profiled: one that was not may be the last. `group` has the ranks of its
    group. `waited` are the seconds that other ranks waited for that rank in those runs, each the most of them. `seconds` has
    those that each rank was in it, by rank, and `exposed` the part during which its GPU ran no other kernel, {} on the CPU.
    `frame`, `graph` and `node` are from the lowest rank, "" for a collective that was sent outside of the graphs, which `sent_by`
    describes; `file`, `line` and `code` are the user's.

    A broadcast has no row, nor what else only one rank sends or receives: there a rank can be short in it without being late.
    """

    operator: str
    group: tuple[int, ...]
    runs: int
    late: int
    late_runs: int
    waited: float
    seconds: Mapping[str, float]
    exposed: Mapping[str, float]
    frame: str
    graph: str
    node: str
    sent_by: str
    file: str
    line: int
    code: str


class TimeRow(TypedDict):
    """The times of a rank, in seconds; None for what its trace does not say.

    `compile_seconds` is the time of the compiler's outermost phases, `estimated_seconds` Inductor's own estimate of a run, if a
    log states it. The other fields come from a profile, without the first call of a frame that is called several times, since
    that call compiles. `calls` counts the calls of compiled frames, `run_seconds` is their time, and `collective_seconds` that of
    the collectives in them and outside of them, as in hooks; outside, a run that a compile may have delayed does not count, if
    there are others. `waited` is how long the rank waited for later ranks, `late` how long others waited for it, both in
    groups whose ranks were all profiled. `overlapped` is the part of its collectives during which a GPU ran other kernels, in
    seconds.
    """

    rank: int
    compiles: int
    compile_seconds: float | None
    estimated_seconds: float | None
    calls: int | None
    run_seconds: float | None
    collective_seconds: float | None
    waited: float | None
    late: float | None
    overlapped: float | None


@dataclass(frozen=True)
class Exchange:
    """A collective that a rank ran once; `later` tells that it was not in the first call of its frame, which compiles.

    Outside of the graphs, `later` tells that no compile delayed it.
    """

    row: CollectiveRow
    seconds: float | None
    overlapped: float | None
    later: bool

    @property
    def exposed(self) -> float | None:
        """For how many seconds of it a GPU ran no other kernel; None where that is not known."""
        return self.seconds - self.overlapped if self.seconds is not None and self.overlapped is not None else None


@dataclass(frozen=True)
class RankRuns:
    """What a profile has of a rank: the number of calls of compiled frames, their seconds, the collectives in order.

    `unmatched` says which collectives are not among them, and why.
    """

    calls: int
    seconds: float
    exchanges: tuple[Exchange, ...]
    in_collectives: float | None
    overlapped: float | None
    unmatched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wait:
    """One run of a collective by all ranks of a group: the seconds of each, those exposed on a GPU, and which came last."""

    number: int
    rows: Mapping[int, CollectiveRow]
    seconds: Mapping[int, float]
    exposed: Mapping[int, float]
    late: int

    def waited(self, rank: int) -> float:
        """The seconds that a rank waited for the last one."""
        return self.seconds[rank] - self.seconds[self.late]


def runs_of_rank(trace: TraceData) -> RankRuns | None:
    """What a profile has of a rank's calls; None if the trace has no profile."""
    artifacts = trace.find("run_times")
    if not artifacts:
        return None
    times = typed(RunTimes, artifacts[-1].data)
    rows: dict[_Place, CollectiveRow] = {(row["artifact"], row["node"], None): row for row in collective_rows(trace)}
    rows |= {(row["artifact"], "", row["started"]): row for row in eager_rows(trace)}
    exchanges = []
    for one in times.exchanges:
        if (row := rows.get(_place(one))) is not None:
            exchanges.append(Exchange(row, one.seconds, one.overlapped, one.run > 0))
    counted = _later_exchanges(times.exchanges, rows)
    known = [one.seconds for one in counted if one.seconds is not None]
    overlapped = [one.overlapped for one in counted if one.overlapped is not None]
    outer = [call.seconds for call in _later_calls(times.calls) if call.outer]
    in_collectives = sum(known) if len(known) == len(counted) else None
    whole = sum(overlapped) if overlapped else None
    return RankRuns(len(outer), sum(outer), tuple(exchanges), in_collectives, whole, times.unmatched)


def _place(one: ExchangeTime) -> _Place:
    return one.artifact, one.node, one.line


def _later_calls(calls: Sequence[CallTime]) -> Iterator[CallTime]:
    """The calls of frames, without the first of each frame that has more: a part of the compile is in it."""
    counts = Counter((call.frame, call.backward) for call in calls)
    started: set[tuple[str, bool]] = set()
    for call in calls:
        key = (call.frame, call.backward)
        if key in started or counts[key] == 1:
            yield call
        started.add(key)


def _later_exchanges(exchanges: Sequence[ExchangeTime], rows: Mapping[_Place, CollectiveRow]) -> list[ExchangeTime]:
    """The collectives of the calls that `_later_calls` gives, and those outside of the graphs that no compile delayed."""
    frames = [_frame(rows.get(_place(one))) if one.node else one.artifact for one in exchanges]
    repeated = {frame for frame, one in zip(frames, exchanges, strict=True) if one.run > 0}
    return [one for frame, one in zip(frames, exchanges, strict=True) if one.run > 0 or frame not in repeated]


def _frame(row: CollectiveRow | None) -> tuple[str, bool] | None:
    return (row["frame"], row["graph"] == "backward") if row is not None else None


def waits_of(runs: Mapping[int, RankRuns]) -> tuple[Wait, ...]:
    """Return every run of a collective that all ranks of its group have, without the first call of a frame that has several.

    Runs outside of the graphs that a compile delayed are left out too, if there are others. Within a group, the n-th collective
    of one rank is the n-th of the others, as long as the operators are the same. `incomplete_groups` has the groups that are left
    out.
    """
    lacking = incomplete_groups(runs)
    return tuple(
        wait for group in _groups(runs) if isinstance(group, tuple) and group not in lacking for wait in _of_group(runs, group)
    )


def incomplete_groups(runs: Mapping[int, RankRuns]) -> Mapping[tuple[int, ...] | str, tuple[int, ...]]:
    """The ranks of each group that have no run of its collectives: one of them may be the last.

    A group whose ranks were not recorded stands here by its name, with (): several groups of a job may have one name.
    """
    found: dict[tuple[int, ...] | str, tuple[int, ...]] = {}
    for group, members in _groups(runs).items():
        if isinstance(group, str):
            found[group] = ()
        elif lacking := tuple(rank for rank in group if rank not in members):
            found[group] = lacking
    return found


def _groups(runs: Mapping[int, RankRuns]) -> Mapping[tuple[int, ...] | str, set[int]]:
    """The groups of all collectives, each with the ranks that ran one."""
    groups: dict[tuple[int, ...] | str, set[int]] = {}
    for rank, own in runs.items():
        for one in own.exchanges:
            groups.setdefault(_group(one.row), set()).add(rank)
    return groups


def _group(row: CollectiveRow) -> tuple[int, ...] | str:
    return row["ranks"] or row["group"]


def _of_group(runs: Mapping[int, RankRuns], group: tuple[int, ...]) -> Iterator[Wait]:
    if len(group) < 2:
        return
    members = {rank: [one for one in runs[rank].exchanges if _group(one.row) == group] for rank in group}
    repeated = {_key(one) for own in members.values() for one in own if one.later}
    for number, column in enumerate(zip(*members.values(), strict=False)):
        alike = dict(zip(members, column, strict=True))
        if len({(one.row["operator"], bool(one.row["sent_by"])) for one in column}) > 1:
            return
        if column[0].row["operator"] in ONE_SIDED or any(_key(one) in repeated and not one.later for one in column):
            continue
        seconds = {rank: one.seconds for rank, one in alike.items() if one.seconds is not None}
        if len(seconds) == len(alike):
            rows = {rank: one.row for rank, one in alike.items()}
            exposed = {rank: one.exposed for rank, one in alike.items() if one.exposed is not None}
            yield Wait(number, rows, seconds, exposed, min(seconds, key=lambda rank: seconds[rank]))


def _key(one: Exchange) -> tuple[str, str]:
    return one.row["artifact"], one.row["node"]


def wait_rows(waits: Sequence[Wait]) -> list[WaitRow]:
    """Return one row per collective, the one with the longest wait first."""
    found: dict[tuple[object, ...], list[Wait]] = {}
    for wait in waits:
        row = wait.rows[min(wait.rows)]
        own = row["started"] if row["sent_by"] else None
        found.setdefault((_group(row), row["artifact"], row["node"], own), []).append(wait)
    return sorted((_wait_row(own) for own in found.values()), key=lambda row: -row["waited"])


def _wait_row(waits: Sequence[Wait]) -> WaitRow:
    first = waits[0]
    row = first.rows[min(first.rows)]
    late_runs, waited = Counter(wait.late for wait in waits), late_by_rank(waits)
    late = max(late_runs, key=lambda rank: (late_runs[rank], waited[rank]))
    return {
        "operator": row["operator"],
        "group": row["ranks"],
        "runs": len(waits),
        "late": late,
        "late_runs": late_runs[late],
        "waited": waited[late],
        "seconds": {str(rank): sum(wait.seconds[rank] for wait in waits) for rank in first.seconds},
        "exposed": {str(rank): sum(wait.exposed.get(rank, 0.0) for wait in waits) for rank in first.exposed},
        "frame": row["frame"],
        "graph": row["graph"],
        "node": row["node"],
        "sent_by": row["sent_by"],
        "file": row["file"],
        "line": row["line"],
        "code": row["code"],
    }


def longest_wait(wait: Wait) -> float:
    """The longest that a rank waited for the last one."""
    return max(map(wait.waited, wait.seconds))


def most_exposed(runs: Sequence[Exchange]) -> CollectiveRow | None:
    """The collective with the most exposed seconds; None where they are not known. A run that compiles does not count."""
    found: dict[tuple[str, str, int | None], float] = {}
    rows: dict[tuple[str, str, int | None], CollectiveRow] = {}
    repeated = {_key(one) for one in runs if one.later}
    for one in runs:
        if one.exposed is not None and (one.later or _key(one) not in repeated):
            key = (*_key(one), one.row["started"])
            rows[key] = one.row
            found[key] = found.get(key, 0.0) + one.exposed
    return rows[max(found, key=lambda key: found[key])] if found else None


def late_by_rank(waits: Sequence[Wait]) -> Mapping[int, float]:
    """The seconds that others waited for each rank that came last somewhere: in each run the longest wait."""
    found: dict[int, float] = {}
    for wait in waits:
        found[wait.late] = found.get(wait.late, 0.0) + longest_wait(wait)
    return found


def waited_by_rank(waits: Sequence[Wait]) -> Mapping[int, float]:
    """The seconds that each rank waited for others."""
    found: dict[int, float] = {}
    for wait in waits:
        for rank in wait.seconds:
            found[rank] = found.get(rank, 0.0) + wait.waited(rank)
    return found


__all__ = [
    "RankRuns",
    "TimeRow",
    "Wait",
    "WaitRow",
    "incomplete_groups",
    "late_by_rank",
    "longest_wait",
    "most_exposed",
    "runs_of_rank",
    "wait_rows",
    "waited_by_rank",
    "waits_of",
]
