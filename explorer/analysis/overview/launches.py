"""Rank what runs in a call, kernels and library calls together, by the seconds that each takes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.overview.titles import title
from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.user_lines import UserLine, compiled_kernels
from explorer.model.values import Plain, Table

COLUMNS = ("what", "seconds", "share", "known", "line", "code", "other_lines", "read", "written", "kernel", "frame", "graph")


@dataclass(frozen=True)
class Ranked:
    """A launch with its row of `launches`, and the user line that most of its nodes come from."""

    launch: Launch
    user_line: UserLine | None
    row: Mapping[str, Plain]


@dataclass(frozen=True)
class Alike:
    """Launches of the same kind of the same line, such as those of a model's layers."""

    ranked: tuple[Ranked, ...]

    @property
    def first(self) -> Mapping[str, Plain]:
        """The row of the longest."""
        return self.ranked[0].row

    @property
    def seconds(self) -> float:
        """The seconds of all of them."""
        return sum(each.launch.seconds for each in self.ranked)

    @property
    def share(self) -> float:
        """Their part of the work, from 0 to 1."""
        return sum(float(str(each.row["share"] or 0)) for each in self.ranked)

    @property
    def is_known(self) -> bool:
        """Whether anything is known of how long they take."""
        return not any(each.launch.unknown for each in self.ranked)

    @property
    def title(self) -> str:
        """What they compute, with their number, the graph where that is the backward one, and whether they have no estimate."""
        return titled(self.first, len(self.ranked)) + ("" if self.is_known else ", no estimate")


def titled(row: Mapping[str, Plain], count: int) -> str:
    """Say what so many launches that are alike compute, and in which graph where that is the backward one."""
    several = f"{count} × " if count > 1 else ""
    return f"{several}{row['what']}{', backward' if row['graph'] == 'backward' else ''}"


def launches(call: TracedCall) -> Table:
    """One row per launch of a call, the longest first; a table without rows says why. See `ProfileAccessor.launches`."""
    if not call.launches:
        return Table((), COLUMNS, call.unread or "the graphs have only views: nothing is launched")
    return Table((each.row for each in ranked(call)), COLUMNS)


def alike(each_ranked: Iterable[Ranked]) -> list[Alike]:
    """Gather the launches that are alike, the longest together first."""
    gathered: dict[tuple[Plain, ...], list[Ranked]] = {}
    for each in each_ranked:
        gathered.setdefault((each.row["what"], each.row["line"], each.row["graph"]), []).append(each)
    return sorted((Alike(tuple(group)) for group in gathered.values()), key=lambda group: -group.seconds)


def ranked(call: TracedCall) -> Iterator[Ranked]:
    """Yield the launches of a call, the longest first."""
    cells, whole = cells_of(call.trace), sum(launch.seconds for launch in call.launches)
    for launch in sorted(call.launches, key=lambda launch: -launch.seconds):
        line, others = _lines(call, launch)
        row: dict[str, Plain] = {
            "what": title(call, launch),
            "seconds": None if launch.unknown else launch.seconds,
            "share": None if launch.unknown else launch.seconds / whole if whole else 0.0,
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
        yield Ranked(launch, line, row)


def _lines(call: TracedCall, launch: Launch) -> tuple[UserLine | None, int]:
    """The user line that most nodes of a launch come from, and how many other lines there are.

    Nodes that a pattern made, such as those of a softmax, have no line: then it is that of the kernel's own lines.
    """
    counted = Counter(line for node in call.lined_nodes(launch) for line in call.user_lines([node]))
    if not counted:
        texts = {kernel.artifact.id for kernel in call.kernels_of(launch)}
        counted.update(
            line for kernel in compiled_kernels(call.trace) if kernel.artifact.id in texts for line in kernel.user_lines
        )
    ranked = [line for line, _ in counted.most_common()]
    return (ranked[0], len(ranked) - 1) if ranked else (None, 0)
