"""Ranks: the traces of all ranks of one job, read when asked for, and compared by what they compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from explorer.analysis.questions.collectives import CollectiveRow, collective_rows, eager_rows
from explorer.errors import FileError, InputError
from explorer.model.values import Plain, Table
from explorer.model.wording import quantity
from explorer.sources.files import trace_file
from explorer.sources.ranks import folder
from explorer.sources.ranks.divergences import DivergenceRow, MissingRow, compared
from explorer.sources.ranks.parts import RankParts, Seen, parts_of, place_in
from explorer.sources.ranks.waiting import (
    RankRuns,
    TimeRow,
    Wait,
    WaitRow,
    incomplete_groups,
    late_by_rank,
    longest_wait,
    most_exposed,
    runs_of_rank,
    wait_rows,
    waited_by_rank,
    waits_of,
)
from explorer.tracing.traced.comparison import Comparison, compare
from explorer.tracing.traced.trace import Trace, trace_of
from explorer.tracing.traced.trace import load as load_trace

#: How much of what a rank computes is said in a line.
_WIDTH = 160


@dataclass(frozen=True)
class _Rank:
    """What is kept of a rank that was compared: see `RankParts`."""

    compiles: int
    failed: str
    ended_at: Mapping[str, Plain] | None


class Ranks(Mapping[int, Trace]):
    """The traces of a job's ranks by rank: `ranks[0]` is the Trace of rank 0.

    `groups` has the ranks that compute the same, `divergences` where others differ, and `not_compared` what could not be
    compared; `times` and `waits` have what they took. `not_recorded` are ranks of the job without a file, `unreadable` those
    whose file cannot be read.
    """

    def __init__(self, readers: Mapping[int, folder.Read], name: str, limit: float = trace_file.LIMIT) -> None:
        """Read each rank by its reader, with `limit` for each; `name` is where they are from."""
        self._readers = dict(readers)
        self._name, self._limit = name, limit
        self._kept: dict[int, Trace] = {}
        self.unreadable: dict[int, str] = {}
        self._runs: dict[int, RankRuns] = {}
        self._has_groups = self._sent_outside = False
        parts, self._worlds = self._read_all()
        self._has_collectives = any(own.collectives for own in parts.values())
        self._ranks = {rank: _Rank(len(own.compiles), own.failed, own.ended_at) for rank, own in parts.items()}
        self._compared = compared(parts, lambda rank, item: place_in(self[rank], item))

    def _read_all(self) -> tuple[dict[int, RankParts], set[int]]:
        """What is compared of each rank. The traces themselves are read again when asked for: many would not fit in memory."""
        parts, worlds, seen = {}, set(), Seen()
        for rank, read in self._readers.items():
            try:
                trace = trace_of(read(self._limit))
            except FileError as error:
                self.unreadable[rank] = str(error)
                continue
            parts[rank] = parts_of(trace, seen)
            if (runs := runs_of_rank(trace)) is not None:
                self._runs[rank] = runs
            self._has_groups |= bool(trace.meta.get("process_groups"))
            self._sent_outside |= bool(trace.find("eager_collective"))
            if isinstance(world := trace.meta.get("world"), int):
                worlds.add(world)
            if len(self._readers) <= 2:
                self._kept[rank] = trace
        return parts, worlds

    def __getitem__(self, rank: int) -> Trace:
        if rank in self.unreadable:
            raise FileError(f"rank {rank} cannot be read: {self.unreadable[rank]}")
        if rank not in self._ranks:
            raise KeyError(f"{self._name} has no rank {rank}; its ranks are {_list(tuple(self))}")
        if rank not in self._kept:
            self._kept = {**dict(list(self._kept.items())[-1:]), rank: trace_of(self._readers[rank](self._limit))}
        return self._kept[rank]

    def __contains__(self, rank: object) -> bool:
        """Whether a rank can be read; without reading its trace."""
        return rank in self._ranks

    def get(self, rank: int, default: Any = None) -> Any:
        """The trace of a rank, or `default` if it is missing or cannot be read."""
        if rank not in self:
            return default
        return self[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)

    @property
    def world(self) -> int:
        """The number of ranks in the job, which the traces state; else one more than the highest rank with a file."""
        return max((*self._worlds, *(rank + 1 for rank in self._readers)))

    @property
    def not_recorded(self) -> tuple[int, ...]:
        """The ranks of the job that have no file: not asked for, or killed before they wrote one."""
        return tuple(rank for rank in range(self.world) if rank not in self._readers)

    @property
    def exchanges_unseen(self) -> bool:
        """Whether the job has process groups and no collective was seen, in a graph or outside, as in a log of torch's.

        DDP and FSDP2 exchange between the graphs, and `TORCH_TRACE` logs do not have that.
        """
        return self._has_groups and not self._has_collectives and not self._sent_outside

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks that compute the same, the largest group first; a rank with nothing to compare is in no group."""
        return self._compared.groups

    @property
    def divergences(self) -> Table:
        """One row where some ranks compute something else than most, the first of each part: see `DivergenceRow`."""
        return Table((dict(row) for row in self._compared.divergences), DivergenceRow.__annotations__)

    @property
    def not_compared(self) -> Table:
        """One row for what a rank's trace lacks and others have, which was not compared: see `MissingRow`."""
        return Table((dict(row) for row in self._compared.missing), MissingRow.__annotations__)

    @property
    def rank_dependent(self) -> Table:
        """One row where ranks differ only by a number that is n × rank, which is counted as equal; `here` has each rank's."""
        return Table(self._compared.by_rank, ("frame", "stage", "graph", "here", "file", "line", "code"))

    @property
    def collectives(self) -> Table:
        """One row per collective of every rank, those sent outside of the graphs last: see `CollectiveRow`."""
        rows = ({"rank": rank, **row} for rank in self for row in (*collective_rows(self[rank]), *eager_rows(self[rank])))
        return Table(rows, ("rank", *CollectiveRow.__annotations__))

    @property
    def times(self) -> Table:
        """One row per rank: what its compiles took, and what its calls took where it was profiled: see `TimeRow`."""
        late, waited = late_by_rank(self._waits), waited_by_rank(self._waits)
        rows = []
        for rank in self:
            phases = [row for row in self[rank].table("phase") if row["depth"] == 0 and row["seconds"] is not None]
            seconds = sum(row["seconds"] for row in phases) if phases else None
            estimated = self[rank].meta.get("estimated_seconds")
            runs = self._runs.get(rank)
            row: TimeRow = {
                "rank": rank,
                "compiles": self._ranks[rank].compiles,
                "compile_seconds": seconds,
                "estimated_seconds": estimated,
                "calls": runs.calls if runs else None,
                "run_seconds": runs.seconds if runs else None,
                "collective_seconds": runs.in_collectives if runs else None,
                "waited": waited.get(rank, 0.0) if runs and self._waits else None,
                "late": late.get(rank, 0.0) if runs and self._waits else None,
                "overlapped": runs.overlapped if runs else None,
            }
            rows.append(dict(row))
        return Table(rows, TimeRow.__annotations__)

    @property
    def waits(self) -> Table:
        """One row per collective that ranks were profiled in: which came last, how long others waited.

        See `WaitRow`. If a frame is called several times, its first call, which compiles, does not count, nor does what a
        compile delays outside of the graphs. `explorer trace
        --profile` takes a profile, and `Trace.attach` reads one in before the trace is saved. A group has no row if one of
        its ranks has no profile, which `str(ranks)` says, or if its ranks were not recorded.
        """
        return Table((dict(row) for row in wait_rows(self._waits)), WaitRow.__annotations__)

    @cached_property
    def _waits(self) -> tuple[Wait, ...]:
        return waits_of(self._runs)

    def compare(self, *ranks: int) -> Comparison:
        """Compare two or three ranks side by side; by default a rank of the first divergence and one it diverges from."""
        if not ranks:
            if not self.divergences:
                raise InputError("no divergence was found: name the ranks to compare, such as ranks.compare(0, 1)")
            ranks = (self.divergences[0]["others"][0], self.divergences[0]["ranks"][0])
        return compare(*(self[rank] for rank in ranks), names=[f"rank {rank}" for rank in ranks])

    def save(self, path: str | PathLike[str]) -> None:
        """Write all ranks to one file, which `explorer.load` reads; FileError if it cannot be written, or no rank can be read."""
        self.raise_if_none_is_readable()
        folder.save({rank: self[rank] for rank in self}, path)

    def raise_if_none_is_readable(self) -> None:
        """Raise FileError, with the reason of the lowest rank, where no rank can be read."""
        if not self:
            rank = min(self.unreadable)
            raise FileError(f"no rank of {self._name} can be read; of rank {rank} the reason is: {self.unreadable[rank]}")

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the page of `compare()`; InputError where there is no divergence to show."""
        self.compare().to_html(path)

    def plain(self) -> dict[str, Any]:
        """The same as values: ranks, world, groups, divergences, times, and what could not be read or compared."""
        return {
            "ranks": list(self),
            "world": self.world,
            "not_recorded": self.not_recorded,
            "exchanges_unseen": self.exchanges_unseen,
            "unreadable": {str(rank): why for rank, why in self.unreadable.items()},
            "failed": {str(rank): own.failed for rank, own in self._ranks.items() if own.failed},
            "groups": self.groups,
            "divergences": self.divergences,
            "not_compared": self.not_compared,
            "rank_dependent": self.rank_dependent,
            "ended": {str(rank): own.ended_at for rank, own in self._ranks.items() if own.ended_at},
            "times": self.times,
            "waits": self.waits,
        }

    def __str__(self) -> str:
        lines = [f"{len(self)} of {self.world} ranks of {self._name}"]
        if self.not_recorded:
            lines.append(f"no file: rank {_list(self.not_recorded)}")
        lines += [f"cannot be read: rank {rank}: {why}" for rank, why in self.unreadable.items()]
        lines += [f"compute the same{self._but(group)}: rank {_list(group)}" for group in self.groups if len(group) > 1]
        lines += [f"alone: rank {group[0]}" for group in self.groups if len(group) == 1]
        several = sum(map(len, self.groups)) > 1
        lines += _of_failures({rank: own.failed for rank, own in self._ranks.items() if own.failed})
        lines += _of_first(self.divergences) if several else ["fewer than two ranks have a graph to compare"]
        lines += _of_missing(self.not_compared)
        if self.exchanges_unseen:
            lines.append("exchanges were not seen: no compiled graph has a collective; DDP and FSDP2 exchange between the graphs")
        if self.rank_dependent:
            lines.append(
                f"{len(self.rank_dependent)} places differ by a number that is n × rank, counted as equal: .rank_dependent"
            )
        lines += [_of_ended(rank, own.ended_at) for rank, own in self._ranks.items() if own.ended_at]
        lines += _of_runs(self._runs, self._waits)
        return "\n".join(lines)

    __repr__ = __str__

    def _but(self, group: tuple[int, ...]) -> str:
        """Say that some of what a group computes follows the rank."""
        members = {str(rank) for rank in group}
        number = sum(len(members & row["here"].keys()) > 1 for row in self.rank_dependent)
        return f", but for a number that is n × rank in {quantity(number, 'place')}" if number else ""


def _of_failures(failed: Mapping[int, str]) -> list[str]:
    """Say on which ranks an error stopped a compile or the program."""
    ranks = {why: tuple(rank for rank in failed if failed[rank] == why) for why in failed.values()}
    return [f"a compile or the program failed: rank {_list(those)}: {why[:_WIDTH]}" for why, those in ranks.items()]


def _of_first(divergences: Table) -> list[str]:
    """Say the first divergence, with the user's line."""
    if not divergences:
        return ["no divergence in what was compared"]
    first = divergences[0]
    where = " ".join(part for part in (first["frame"], first["stage"], first["graph"]) if part)
    lines = [f"first of {len(divergences)} divergences: {first['kind']}" + (f" ({where})" if where else "")]
    if first["file"]:
        lines.append(f"  at {first['file']}:{first['line']}" + (f"  {first['code']}" if first["code"] else ""))
    lines.append(f"  rank {_list(first['ranks'])}: {first['here'][:_WIDTH] or 'nothing more'}")
    lines.append(f"  rank {_list(first['others'])}: {first['there'][:_WIDTH] or 'nothing more'}")
    return lines


def _of_missing(missing: Table) -> list[str]:
    """Say what was not compared, the stages of each rank in a line."""
    stages: dict[int, dict[str, None]] = {}
    for row in missing:
        if row["stage"]:
            stages.setdefault(row["rank"], {})[row["stage"]] = None
    nothing = tuple(row["rank"] for row in missing if not row["stage"])
    said = [f"not compared: rank {_list(nothing)} compiled no graph; the failures of its trace may say why"] if nothing else []
    none = {row["stage"] for row in missing if row["stage"] and not row["others"]}
    for rank, names in stages.items():
        own = [name for name in names if name not in none]
        said += [f"not compared: rank {rank} has no {', '.join(own)}, which others have"] if own else []
    return said + [f"not compared: no rank has the nodes of {name}, as of a graph from a cache" for name in sorted(none)]


def _of_ended(rank: int, place: Mapping[str, Plain]) -> str:
    """Say where a rank was when SIGTERM ended it."""
    inside = f", in {place['call']}" if place["call"] != place["code"] else ""
    return f"ended by SIGTERM: rank {rank} at {place['file']}:{place['line']}  {place['code']}{inside}"


def _of_runs(runs: Mapping[int, RankRuns], waits: Sequence[Wait]) -> list[str]:
    """Say what calls took, and which rank the others waited for longest."""
    if not runs:
        return []
    quick, slow = min(runs, key=lambda rank: runs[rank].seconds), max(runs, key=lambda rank: runs[rank].seconds)
    lines = [f"calls of compiled code took {_ms(runs[quick].seconds)} (rank {quick}) to {_ms(runs[slow].seconds)} (rank {slow})"]
    if waits:
        late = late_by_rank(waits)
        last = max(late, key=lambda rank: late[rank])
        own = [wait for wait in waits if wait.late == last]
        longest = max(own, key=longest_wait)
        row = longest.rows[last]
        lines.append(
            f"last: rank {last}: others waited {_ms(late[last])} for it in {len(own)} of {len(waits)} runs of collectives, "
            f"up to {_ms(longest_wait(longest))} in {_collective(row)}"
        )
        lines += [f"  at {row['file']}:{row['line']}  {row['code']}"] if row["file"] else []
    lines += _of_exposed(runs)
    reasons: dict[str, list[int]] = {}
    for rank, of_rank in runs.items():
        for why in of_rank.unmatched:
            reasons.setdefault(why, []).append(rank)
    lines += [f"rank {_list(tuple(ranks))}: {why}" for why, ranks in reasons.items()]
    return [*lines, *_of_incomplete(runs)]


def _collective(row: CollectiveRow) -> str:
    """A collective's operator, and outside of the graphs who sent it."""
    return f"{row['operator']}{', sent by ' + row['sent_by'] if row['sent_by'] else ''}"


def _of_exposed(runs: Mapping[int, RankRuns]) -> list[str]:
    """Say which rank was longest in collectives while its GPU ran nothing else, and in which most; [] without a GPU's profile."""
    exposed = {
        rank: (own.in_collectives - own.overlapped, own.in_collectives)
        for rank, own in runs.items()
        if own.in_collectives and own.overlapped is not None
    }
    if not exposed:
        return []
    rank = max(exposed, key=lambda rank: exposed[rank])
    seconds, whole = exposed[rank]
    row = most_exposed(runs[rank].exchanges)
    most = f", most in {_collective(row)}" if row else ""
    return [f"exposed: rank {rank}: beside {_ms(seconds)} of {_ms(whole)} in collectives no other kernel ran{most}"]


def _of_incomplete(runs: Mapping[int, RankRuns]) -> list[str]:
    """Name the groups whose last rank is unknown, and what is missing to know it."""
    groups = incomplete_groups(runs)
    lacking = tuple({rank for ranks in groups.values() for rank in ranks})
    unnamed = [group for group, ranks in groups.items() if not ranks]
    lines = []
    if lacking:
        number = quantity(len(groups) - len(unnamed), "group")
        lines.append(f"who came last is not known in {number}: no profile has collectives of rank {_list(lacking)} there")
    if unnamed:
        lines.append(
            f"who came last is not known in {quantity(len(unnamed), 'group')}: the traces do not say which ranks are in it"
        )
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _list(ranks: tuple[int, ...]) -> str:
    """Ranks with runs shortened: 0-2, 5."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def load(path: str | PathLike[str], *, limit: float = trace_file.LIMIT, target: object = None) -> Trace | Ranks:
    """Read a trace file, a log of a job that ran, or all ranks of a job: a Trace, or Ranks.

    A log is a file, or a folder with one, of `TORCH_TRACE`, `TORCH_COMPILE_DEBUG=1` or tritonparse. The trace's `failures` name
    the parts of it that cannot be read or are not shown. Nothing in a log is run, except with `target`: then the log's Triton
    kernels are compiled again, down to SASS, for that GPU, which need not be here, and for that their definitions are run.
    Give `target` only for a log that you trust.

    A folder with trace files or `TORCH_TRACE` logs of several ranks, told by their names, or a file that `explorer ranks` wrote,
    gives `Ranks`: the traces by rank, compared.

    FileError says what is wrong with a file: missing, truncated, altered, neither a trace nor a log, too new, too big. `limit`
    is the most memory in bytes that one trace may take; give more for a large file that you trust.
    """
    readers = folder.ranks_at(trace_file.checked(path))
    if len(readers) > 1 or (readers and not Path(path).is_dir()) or _lacks_others(path, limit):
        if target is not None:
            raise InputError(f"{path} has several ranks: target= compiles the kernels of one log, so load that rank's file")
        return Ranks(readers, str(path), limit)
    return load_trace(folder.trace_in(path) or path, limit=limit, target=target)


def _lacks_others(path: str | PathLike[str], limit: float) -> bool:
    """Whether a folder's only trace is from one of several ranks: `Ranks` names the ranks without a file."""
    only = folder.trace_in(path)
    return only is not None and bool(folder.ranks_at(path)) and (trace_file.load(only, limit=limit).meta.get("world") or 1) > 1


def load_ranks(path: str | PathLike[str], *, limit: float = trace_file.LIMIT) -> Ranks:
    """Read the ranks of a folder or a file of ranks; FileError if no name in it has a rank."""
    readers = folder.ranks_at(trace_file.checked(path))
    if not readers:
        raise FileError(f"{path} has no file of a rank, such as trace.rank0.json.gz or dedicated_log_torch_trace_rank_0.log")
    return Ranks(readers, str(path), limit)
