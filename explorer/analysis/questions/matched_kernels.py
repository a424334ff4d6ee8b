"""Match the kernels and library calls of several traces by what they compute. Pure.

Where Inductor compiled all of them, what a kernel computes are the values that its scheduler nodes store, which
`comparison.Key` identifies in any trace. Else they are the lines of the program, in each graph. Kernels that share one of these,
directly or through others, are one match. Bytes and seconds are those of all launches in one run of the code, None where they
are not known of one launch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.analysis.questions.call_lines import call_lines
from explorer.analysis.questions.comparison import Comparison, KeptApart, Key, Op, Split, reasons_apart
from explorer.analysis.questions.costs import call_table, is_call, kernel_rows, rate_of
from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.joined_sets import joined
from explorer.analysis.questions.kernel_bytes import traffic
from explorer.analysis.questions.kernels import KernelData, kernel_body, kernels_of
from explorer.analysis.questions.rows import GroupRow
from explorer.analysis.questions.source_lines import FirstLine, first_numbering
from explorer.analysis.questions.target import gpu_of
from explorer.analysis.questions.user_lines import FORWARD, UserLine, compiled_kernels
from explorer.model.trace_data import TraceData, artifact_of


@dataclass(frozen=True)
class Bound:
    """What limits a kernel or call on a GPU, and the rate of that limit; `share` is the percentage of it that is reached."""

    limit: str
    rate: str = ""
    share: int | None = None

    def __str__(self) -> str:
        return self.worded("" if self.share is None else f"{self.share}")

    def worded(self, share: str) -> str:
        """Say it with this share, which may be a range; "" says none."""
        if share:
            return f"{self.limit}, at {share} % of {self.rate}"
        return f"{self.limit} at {self.rate}" if self.rate else self.limit


@dataclass(frozen=True)
class MatchedKernel:
    """A kernel or call of one trace: its text and line there, the values that it computes, the user's code, what it costs.

    `groups` has the values of each of the fused nodes that it is launched for, where Inductor generated it. `bound` says what
    limits it: "the launch", "memory at 3,350 GB/s", or, for a library call, "float32 arithmetic, at 66 % of 67 TFLOP/s"; None
    where that is not known.
    """

    name: str
    graph: str
    artifact: str
    line: int
    computes: Mapping[Hashable, str]
    code: tuple[str, ...]
    bytes: int | None = None
    seconds: float | None = None
    groups: frozenset[Hashable] = frozenset()
    bound: Bound | None = None


@dataclass(frozen=True)
class KernelMatch:
    """Kernels of each trace that compute the same, and what differs: see `Comparison.groups`.

    `what` is "not known" where no record says what one of them computes. This also holds if another kernel of their graph has no
    such record, since it could belong to them. `why` says which of the two, why one trace needs more kernels than another, and
    which value differs. Where that is a pair of nodes that only one trace fuses, `kept_apart` has what is said of the pair.
    """

    graph: str
    what: str
    code: tuple[str, ...]
    kernels: tuple[tuple[MatchedKernel, ...], ...]
    why: str = ""
    kept_apart: KeptApart | None = None


def matched_kernels(comparison: Comparison) -> list[KernelMatch]:
    """List the matches, in the order of the first trace and then of the others."""
    if all(comparison.scheduled) and all(map(_has_groups, comparison.traces)):
        every = [tuple(_scheduled(t, ops)) for t, ops in zip(comparison.traces, comparison.scheduled, strict=True)]
    else:
        numbered = first_numbering(comparison.traces)
        every = [tuple(_by_line(t, n, lines)) for n, (t, lines) in enumerate(zip(comparison.traces, numbered, strict=True))]
    unknown = [frozenset(kernel.graph for kernel in of if not kernel.computes) for of in every]
    matches = [_match(places, every, unknown, comparison.names) for places in _sharing(every)]
    if not any(map(_is_apart, matches)):
        return matches
    reasons = reasons_apart(comparison)
    return [_with_reason(match, reasons, comparison) if _is_apart(match) else match for match in matches]


def _is_apart(match: KernelMatch) -> bool:
    """Whether one trace has more kernels for the values of a match than another."""
    return match.what == "split" or match.what.startswith("only in")


def _with_reason(match: KernelMatch, reasons: Mapping[Key, Split], comparison: Comparison) -> KernelMatch:
    """Add to a match why the traces need different kernels for its values, where that is known."""
    keys = (key for of in match.kernels for kernel in of for key in kernel.computes if isinstance(key, Key))
    split = next((reasons[key] for key in keys if key in reasons), Split())
    groups = [frozenset[Hashable]().union(*(kernel.groups for kernel in of)) for of in match.kernels]
    if not split.why and groups[0] and all(of == groups[0] for of in groups):
        return replace(match, why=_why_code_differs(match, comparison))
    return replace(match, why=split.why, kept_apart=split.kept_apart)


def _why_code_differs(match: KernelMatch, comparison: Comparison) -> str:
    """Say how the code of the kernels differs that one trace needs for nodes which another trace computes with fewer.

    Inductor writes one kernel for groups whose code is equal but for the kernel's name.
    """
    trace, name, kernels = max(zip(comparison.traces, comparison.names, match.kernels, strict=True), key=lambda of: len(of[2]))
    first, *others = (kernel_body(KernelData(trace, artifact_of(trace, kernel.artifact))).split("\n") for kernel in kernels)
    for kernel, other in zip(kernels[1:], others, strict=True):
        for one, another in zip(first, other, strict=False):
            if one != another:
                differ = f"`{one.strip()}` in {kernels[0].name}, `{another.strip()}` in {kernel.name}"
                return f"the same nodes are fused, for which {name} has {len(kernels)} kernels, as their code differs: {differ}"
    return ""


def _has_groups(trace: TraceData) -> bool:
    """Whether a record says which scheduler nodes each kernel of a trace computes; older ones do not."""
    rows = [group for graph in fusion_of(trace).graphs for group in graph.groups()]
    return bool(rows) and (any(group["kernels"] for group in rows) or not kernels_of(trace))


def _match(
    places: Sequence[tuple[int, int]],
    every: Sequence[Sequence[MatchedKernel]],
    unknown: Sequence[frozenset[str]],
    names: Sequence[str],
) -> KernelMatch:
    """Describe a set of kernels that share values: what they have in common, and what differs.

    `unknown` has the graphs of each trace with a kernel that no record explains.
    """
    kernels = tuple(tuple(of[at] for number, at in places if number == trace) for trace, of in enumerate(every))
    members = [kernel for of in kernels for kernel in of]
    graph, code = members[0].graph, tuple(dict.fromkeys(line for kernel in members for line in kernel.code))
    why = _why_unknown(
        members, [name for name, mine, graphs in zip(names, kernels, unknown, strict=True) if not mine and graph in graphs]
    )
    what = "not known" if why else _what(kernels, names)
    return KernelMatch(graph, what, code, kernels, _why_values_differ(kernels, names) if what == "values differ" else why)


def _why_values_differ(kernels: Sequence[Sequence[MatchedKernel]], names: Sequence[str]) -> str:
    """Name the first value that not every trace computes, or computes from the same, and count the others."""
    values = [dict(kernel.computes) for (kernel,) in kernels]
    differ = [key for key in dict.fromkeys(key for of in values for key in of) if len({of.get(key) for of in values}) > 1]
    having = [name for name, of in zip(names, values, strict=True) if differ[0] in of]
    more = f", and {len(differ) - 1} more" if len(differ) > 1 else ""
    if len(having) < len(names):
        return f"{_named(differ[0])} is computed only in {', '.join(having)}{more}"
    return f"{_named(differ[0])} is computed from other operators, numbers or lines{more}"


def _named(value: Any) -> str:
    """Name a value by its operator, or as a line of the program in a graph."""
    return str(value) if isinstance(value, Key) else f"`{value[1].line.code}`"


def _why_unknown(members: Sequence[MatchedKernel], lacking: Sequence[str]) -> str:
    """Say why it is not known what kernels match; `lacking` are the traces that may have one which no record explains."""
    unexplained = next((kernel.name for kernel in members if not kernel.computes), "")
    if unexplained:
        return f"no record says which FX nodes {unexplained} computes"
    if lacking:
        return f"{' and '.join(lacking)} may have it: no record says which FX nodes some kernels of the graph compute there"
    return ""


def _what(kernels: Sequence[Sequence[MatchedKernel]], names: Sequence[str]) -> str:
    """Say what differs between the kernels of each trace that are matched."""
    present = [name for name, of in zip(names, kernels, strict=True) if of]
    if len(present) < len(names):
        return f"only in {', '.join(present)}"
    if max(map(len, kernels)) > 1:
        return "split"
    first, *others = ([dict(kernel.computes) for kernel in of] for of in kernels)
    return "same" if all(other == first for other in others) else "values differ"


def _sharing(every: Sequence[Sequence[MatchedKernel]]) -> list[list[tuple[int, int]]]:
    """The kernels that share what they compute, each as (trace, number)."""
    places = [(trace, number) for trace, kernels in enumerate(every) for number in range(len(kernels))]
    by_value: dict[Hashable, list[tuple[int, int]]] = {}
    for trace, number in places:
        for value in every[trace][number].computes:
            by_value.setdefault(value, []).append((trace, number))
    # each kernel is also its own set, so a kernel that no record explains is listed too
    return joined([*([place] for place in places), *by_value.values()])


# By Inductor's scheduler -------------------------------------------------------------------------------------------------


def _scheduled(trace: TraceData, ops: Iterable[Op]) -> Iterator[MatchedKernel]:
    """The kernels and calls that Inductor made of the groups of a trace's scheduler nodes."""
    # by node, not by group: the IR after fusion may list the nodes of a group in another order in the group's name
    by_node = {(*op.group[:2], op.name): op for op in ops}
    kernels: dict[tuple[str, str, str], list[Op]] = {}
    calls: list[tuple[GroupRow, list[Op]]] = []
    for group in (group for graph in fusion_of(trace).graphs for group in graph.groups()):
        places = ((group["frame"], group["graph"], node) for node in group["nodes"])
        members = [by_node[place] for place in places if place in by_node]
        if is_call(group):
            calls.append((group, members))
        for name in () if is_call(group) else group["kernels"]:
            kernels.setdefault((group["frame"], group["graph"], name), []).extend(members)
    yield from _generated(trace, kernels)
    yield from _called(trace, calls)


def _generated(trace: TraceData, members: Mapping[tuple[str, str, str], Sequence[Op]]) -> Iterator[MatchedKernel]:
    for kernel, row in zip(kernels_of(trace), kernel_rows(trace), strict=True):
        a = kernel.artifact
        ops = members.get((a.frame, a.graph, kernel.name), ())
        moved = _sum(row["read"], row["written"])
        graph, values = FORWARD.get(a.graph, a.graph), _values(ops)
        bound = _bound(trace, row)
        yield MatchedKernel(kernel.name, graph, a.id, 0, values, _codes(ops), moved, row["seconds"], _groups(ops), bound)


def _called(trace: TraceData, calls: Iterable[tuple[GroupRow, Sequence[Op]]]) -> Iterator[MatchedKernel]:
    """The library calls, each on its line of the output code where that is known."""
    costs = {(row["frame"], row["graph"], row["node"]): row for row in call_table(trace)}
    kernels = {(k.artifact.frame, k.artifact.graph, k.name) for k in kernels_of(trace)}
    lines = call_lines(trace)
    grouped: dict[tuple[str, str, str], list[tuple[GroupRow, Sequence[Op]]]] = {}
    for group, ops in calls:
        grouped.setdefault((group["frame"], group["graph"], group["call"]), []).append((group, ops))
    for (frame, graph, name), members in grouped.items():
        if (frame, graph, name) in kernels:
            continue
        for group, ops in members:
            cost = costs[frame, graph, group["name"]]
            moved, place = _sum(cost["read"], cost["written"]), lines[frame, graph, group["name"]]
            yield MatchedKernel(
                name,
                FORWARD.get(graph, graph),
                *place,
                _values(ops),
                _codes(ops),
                moved,
                cost["seconds"],
                bound=_bound(trace, cost, next(iter(group["calls"] or ()), None)),
            )


def _bound(trace: TraceData, cost: Mapping[str, Any], call: Mapping[str, Any] | None = None) -> Bound | None:
    """Return what limits a kernel or call on the trace's GPU, with the share of the peak for a call's arithmetic.

    None where it is not known.
    """
    gpu = gpu_of(trace)
    limit, seconds, count = cost["limit"], cost["seconds"], cost["operations"]
    if gpu is None:
        return None
    if limit == "memory":
        return Bound("memory", f"{gpu.bandwidth / 1e9:,.0f} GB/s")
    if limit == "operations" and call and seconds and count and (rate := rate_of(gpu, call)):
        # the peak alone explains no time: a call of few blocks reaches less of it on a larger GPU
        return Bound(f"{call['dtype']} arithmetic", f"{rate / 1e12:,.0f} TFLOP/s", round(100 * count / seconds / rate))
    named = {"launch": "the launch", "L2": "the bandwidth of L2"}.get(limit)
    return Bound(named) if named else None


def _groups(ops: Iterable[Op]) -> frozenset[Hashable]:
    keys: dict[tuple[str, str, str], set[Key]] = {}
    for op in ops:
        keys.setdefault(op.group, set()).add(op.key)
    return frozenset(map(frozenset, keys.values()))


def _values(ops: Iterable[Op]) -> dict[Hashable, str]:
    return {op.key: op.computed_from for op in ops}


def _codes(ops: Iterable[Op]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op.key.code for op in ops if op.key.code))


def _sum(read: int | None, written: int | None) -> int | None:
    return None if read is None or written is None else read + written


# By the lines of the program ---------------------------------------------------------------------------------------------


def _by_line(trace: TraceData, number: int, first: Mapping[UserLine, FirstLine]) -> Iterator[MatchedKernel]:
    """The kernels of a trace by the lines that they compute, as the first trace that has them numbers them."""
    moved = {(kernel.artifact.id, kernel.lines): _sum(size.read, size.written) for kernel, size in traffic(trace)}
    for kernel in compiled_kernels(trace):
        a, lines = kernel.artifact, [first.get(line, FirstLine(line, number)) for line in kernel.user_lines]
        computes: dict[Hashable, str] = {(kernel.graph, line): "" for line in lines}
        code = tuple(line.code for line, _ in lines)
        at = kernel.lines[0] if kernel.lines else 0
        yield MatchedKernel(kernel.name, kernel.graph, a.id, at, computes, code, moved.get((a.id, kernel.lines)))


__all__ = ["KernelMatch", "MatchedKernel", "matched_kernels"]
