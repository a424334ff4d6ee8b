"""What was compiled otherwise than before: fusions lost and gained, breaks, calls, spills, memory, each with its reason. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import pairwise

from explorer.analysis.findings import rules
from explorer.analysis.findings.facts import Facts, FusedNodes, break_key, dtypes_by_key, facts_of, nodes_by_key, operator_of
from explorer.analysis.findings.finding import Finding, not_judged
from explorer.analysis.findings.fused import why_apart, why_in_several_graphs
from explorer.analysis.findings.rules import Node, lines_of, listed
from explorer.analysis.questions.fusion import Graph, fusion_of
from explorer.analysis.questions.operator_places import operator_name
from explorer.analysis.questions.tables import graph_breaks
from explorer.model.trace_data import TraceData
from explorer.model.wording import quantity, readable_bytes

#: What tells nodes of one operator and one code apart at the end of a key, see `facts.nodes_by_key`.
NUMBER = re.compile(r" #\d+$")


def changes(before: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield each difference between a trace and these facts; an improvement has `is_gain`."""
    now = facts_of(trace)
    if before.target != now.target:
        why = f"the expectations are for {before.target}, and this was compiled for {now.target}"
        yield not_judged("expectations", f"a trace for {before.target}", why, f"explorer.trace(…, target={before.target!r})")
        return
    yield from _breaks(before, now, trace)
    yield from _counted("recompile", "recompile", before.recompiles, now.recompiles, "t.dynamo.recompiles")
    yield from _counted("graphs", "graph", before.graphs, now.graphs, "t.dynamo.functions")
    yield from _patterns(before, now)
    yield from _counted("kernels", "kernel", before.kernel_count, now.kernel_count, "t.kernels.table")
    yield from _fusions(before, now, trace)
    yield from _calls(before, now, trace)
    yield from _operators(before, now, trace)
    yield from _dtypes(before, now, trace)
    yield from _spills(before, now, trace)
    yield from _peak(before, now, trace)
    yield from _failures(before, now, trace)


def _counted(rule: str, what: str, before: int, now: int, look: str) -> Iterator[Finding]:
    if before != now:
        yield Finding(rule, quantity(before, what), quantity(now, what), look=look, is_gain=now < before)


def _patterns(before: Facts, now: Facts) -> Iterator[Finding]:
    """Yield the patterns that matched before and do not match now, and those that match now alone; counts may differ."""
    if before.patterns is None or now.patterns is None:  # stored by a version that did not look at them
        return
    look = "t.inductor.matches"
    for pattern in sorted(before.patterns.keys() - now.patterns.keys()):
        matched = f"{pattern} matched {quantity(before.patterns[pattern], 'time')}"
        yield Finding("pattern", matched, f"the pattern {pattern} does not match any more", look=look)
    for pattern in sorted(now.patterns.keys() - before.patterns.keys()):
        matched = f"the pattern {pattern} matches {quantity(now.patterns[pattern], 'time')}"
        yield Finding("pattern", f"{pattern} did not match", matched, look=look, is_gain=True)


def _breaks(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield the graph breaks that are new, and those that are gone."""
    new = Counter(now.graph_breaks) - Counter(before.graph_breaks)
    found = (finding for finding in rules.breaks(trace) if finding.judged)
    for row, finding in zip(graph_breaks(trace), found, strict=True):
        key = break_key(trace, row)
        if new[key] > 0:
            new[key] -= 1
            yield finding
    for gone in (Counter(before.graph_breaks) - Counter(now.graph_breaks)).elements():
        yield Finding("graph-break", gone, "this graph break is gone", is_gain=True)


# Fusions -----------------------------------------------------------------------------------------------------------------


def matched_keys(before: Iterable[str], now: Iterable[str]) -> dict[str, str]:
    """Match the nodes of two programs, whose lines may be edited, and whose nodes may be new or gone.

    Nodes match that both programs have equally often: the same operator of the same code. The others match where the two
    sequences of operators agree, by the longest parts in common: of three additions the first may be the one that is gone.
    What is left, as where lines changed places, is matched by operator.
    """
    old, new = list(dict.fromkeys(before)), list(dict.fromkeys(now))
    alike = [_by_code(keys) for keys in (old, new)]
    match: dict[str, str] = {}
    for code, keys in alike[0].items():
        if len(keys) == len(others := alike[1].get(code, [])):
            match |= zip(keys, others, strict=True)
    taken = set(match.values())
    blocks = SequenceMatcher(None, [*map(operator_of, old)], [*map(operator_of, new)], autojunk=False).get_matching_blocks()
    pairs = ((old[block.a + n], new[block.b + n]) for block in blocks for n in range(block.size))
    match |= {one: other for one, other in pairs if one not in match and other not in taken}
    taken, left = set(match.values()), dict[str, list[str]]()
    for key in new:
        if key not in taken:
            left.setdefault(operator_of(key), []).append(key)
    return match | {key: rest.pop(0) for key in old if key not in match and (rest := left.get(operator_of(key)))}


def _by_code(keys: Iterable[str]) -> dict[str, list[str]]:
    """Gather the keys of each operator of one code, which a number tells apart."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(NUMBER.sub("", key), []).append(key)
    return found


def _keys(facts: Facts) -> Iterator[str]:
    yield from (key for kernel in facts.kernels for key in kernel.computes)
    yield from facts.calls


def _fusions(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield the fusions that are lost and those that are gained, and kernels that compute something new, or nothing any more."""
    match = matched_keys(_keys(before), _keys(now))
    back = {new: old for old, new in match.items()}
    for kernel in before.kernels:
        yield from _lost(kernel, match, now, trace)
    for kernel in now.kernels:
        old = {back[key] for key in kernel.computes if key in back}
        homes = [one for one in before.kernels if old & set(one.computes)]
        if len(old) > 1 and homes and not any(old <= set(one.computes) for one in before.kernels):
            what = f"{kernel.kernel} computes {short(kernel.computes)}"
            apart = " and ".join(f"[{short(one.computes)}]" for one in homes)
            yield Finding("not-fused", f"{apart} apart", f"fusion gained: {what}", _lines(trace, kernel.computes), is_gain=True)
        elif not old:
            what = f"a new kernel, {kernel.kernel}, computes {short(kernel.computes)}"
            yield Finding("kernels", "no such kernel", what, _lines(trace, kernel.computes), look="t.kernels.table")


def _lost(kernel: FusedNodes, match: Mapping[str, str], now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield a finding if no kernel computes all that one kernel computed."""
    wanted = [match[key] for key in kernel.computes if key in match]
    if not wanted:
        yield Finding("kernels", short(kernel.computes), "nothing computes this any more: its kernel is gone", is_gain=True)
    if len(wanted) < 2 or any(set(wanted) <= set(one.computes) for one in now.kernels):
        return
    computing = [one for one in now.kernels if set(wanted) & set(one.computes)]
    parts = [f"{one.kernel} [{short(k for k in one.computes if k in wanted)}]" for one in computing]
    called = [key for key in wanted if key in now.calls]
    parts += [f"a call of {short([key])}" for key in called]
    expected = f"{short(kernel.computes)} in one kernel, as in {kernel.kernel}"
    why, look = _why(trace, wanted, now)
    yield Finding("not-fused", expected, f"fusion lost: {' and '.join(parts)}", _lines(trace, wanted), why, look)


def _why(trace: TraceData, wanted: list[str], now: Facts) -> tuple[str, str]:
    """Say why nodes that one kernel computed are apart: of the first neighbours that share no kernel."""
    homes = {key: {n for n, one in enumerate(now.kernels) if key in one.computes} for key in wanted}
    first, second = next(((a, b) for a, b in pairwise(wanted) if not homes[a] & homes[b]), (wanted[0], wanted[-1]))
    nodes = nodes_by_key(trace)
    one, other = nodes[first], nodes[second]
    graph = _graph_of(trace, one)
    if graph is None or (one["frame"], one["graph"]) != (other["frame"], other["graph"]):
        return why_in_several_graphs(trace)
    return why_apart(graph, one["node"], other["node"])


def _graph_of(trace: TraceData, row: Node) -> Graph | None:
    graphs = fusion_of(trace).graphs
    where = (row["frame"], row["graph"])
    return next((g for g in graphs if (g.artifact.frame, g.artifact.graph) == where and g.find(row["node"])), None)


def short(keys: Iterable[str]) -> str:
    """Nodes for people, by their operators: "mul, sum"."""
    operators = (operator_of(key).removeprefix("backward: ") for key in keys)
    return listed(operator_name(operator) or operator for operator in operators)


def _lines(trace: TraceData, keys: Iterable[str]) -> tuple[str, ...]:
    nodes = nodes_by_key(trace)
    return lines_of(trace, [nodes[key] for key in keys if key in nodes])


# The rest ----------------------------------------------------------------------------------------------------------------


def _calls(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield the operators that are called more often than they were, and less often."""
    old, new = (Counter(map(operator_of, facts.calls)) for facts in (before, now))
    nodes = nodes_by_key(trace)
    for operator, more in (new - old).items():
        keys = [key for key in now.calls if operator_of(key) == operator]
        fresh = [key for key in keys if key not in before.calls][-more:] or keys[-more:]
        row = nodes[fresh[0]]
        actual = f"a new call: {operator} is {rules.called_by(row)}{f', {more} times more' if more > 1 else ''}"
        look = f"t.why({row['node']!r})"
        calls = quantity(old[operator], "call") if old[operator] else "no calls"
        expected = f"{calls} of {operator}"
        yield Finding("fallback", expected, actual, _lines(trace, fresh), rules.why_called(row), look)
    for operator, fewer in (old - new).items():
        yield Finding("fallback", f"{quantity(old[operator], 'call')} of {operator}", f"{fewer} fewer", is_gain=True)


def _operators(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield which operators some kernels compute more often than before, except those of entirely new kernels."""
    back = {new: old for old, new in matched_keys(_keys(before), _keys(now)).items()}
    grown = [kernel for kernel in now.kernels if any(key in back for key in kernel.computes)]
    new = dict.fromkeys(key for kernel in grown for key in kernel.computes if key not in back)
    old, more = Counter(map(operator_of, dict.fromkeys(_keys(before)))), Counter(map(operator_of, new))
    in_kernels: dict[str, list[str]] = {}
    for operator in more:
        computing = (one.kernel for one in grown if operator in (operator_of(key) for key in one.computes if key in new))
        in_kernels.setdefault(rules.listed(computing), []).append(operator)
    for kernels, operators in in_kernels.items():
        keys = [key for key in new if operator_of(key) in operators]
        expected = rules.listed(f"{old[operator] or 'no'} {operator}" for operator in operators)
        actual = f"{rules.listed(f'{more[operator]} more {operator}' for operator in operators)}, in {kernels}"
        yield Finding("operators", expected, actual, _lines(trace, keys), look="t.inductor.lowerings")


def _dtypes(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield each dtype that results of operators have now and had not before, with these operators."""
    if before.dtypes is None or now.dtypes is None:  # stored by a version that did not look at them
        return
    changed: dict[tuple[str, str], list[str]] = {}
    old, new = _counts_by_operator(before.dtypes), _counts_by_operator(now.dtypes)
    for operator in [name for name in new if name in old]:
        more = new[operator] - old[operator]
        if old[operator].total() != new[operator].total():  # how many there are is told apart
            more = Counter({dtype: count for dtype, count in more.items() if dtype not in old[operator]})
        for dtype in more:
            changed.setdefault((rules.listed(old[operator]), dtype), []).append(operator)
    for (earlier, dtype), operators in changed.items():
        keys = [key for key, own in dtypes_by_key(trace).items() if operator_of(key) in operators and own == dtype]
        actual = f"{rules.listed(operators)} in {dtype}"
        yield Finding(
            "dtypes", f"{rules.listed(operators)} in {earlier}", actual, _lines(trace, keys), look="t.inductor.lowerings"
        )


def _counts_by_operator(dtypes: Mapping[str, int]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for what, count in sorted(dtypes.items()):
        operator, _, dtype = what.rpartition(" ")
        counts.setdefault(operator, Counter())[dtype] = count
    return counts


def _spills(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield the kernels that spill more than those did that computed the same nodes, and those that spill less.

    It is a finding too where that was known, and is not known any more.
    """
    match = matched_keys(_keys(before), _keys(now))
    for kernel in now.kernels:
        same = [one for one in before.kernels if {match.get(key) for key in one.computes} & set(kernel.computes)]
        old = [one.spills for one in same if one.spills is not None]
        spilled = max(old, default=0)
        if kernel.spills is None and old:
            why = f"the trace has no machine code of {kernel.kernel}"
            yield not_judged("spill", f"{spilled} spilled a thread", why, "t.failures")
        elif kernel.spills is not None and kernel.spills != spilled:
            actual = f"{kernel.kernel} spills {kernel.spills} a thread"
            lines, look = _lines(trace, kernel.computes), "t.kernels.table"
            yield Finding("spill", f"{spilled} spilled a thread", actual, lines, look=look, is_gain=kernel.spills < spilled)


def _peak(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield a finding if the peak memory is another, or is not known any more."""
    if before.peak_bytes is None or before.peak_bytes == now.peak_bytes:
        return
    expected = f"a peak of {readable_bytes(before.peak_bytes)} ({before.peak_bytes} bytes)"
    if now.peak_bytes is None:
        _, unknown = rules.peak_bytes(trace)
        yield not_judged("peak memory", expected, "; ".join(f"{where}: {why}" for where, why in unknown.items()), "t.memory")
        return
    actual = f"a peak of {readable_bytes(now.peak_bytes)} ({now.peak_bytes} bytes)"
    found = next(rules.over_peak(trace, now.peak_bytes), None)
    why, lines = (found.why, found.lines) if found else ("", ())
    yield Finding("peak memory", expected, actual, lines, why, "t.memory.peak", is_gain=now.peak_bytes < before.peak_bytes)


def _failures(before: Facts, now: Facts, trace: TraceData) -> Iterator[Finding]:
    """Yield the failures that are new, and those that are gone."""
    new = Counter(now.failures) - Counter(before.failures)
    for failure in trace.failures:
        key = f"{failure.stage}, {failure.what}"
        if new[key] > 0:
            new[key] -= 1
            yield rules.failed(failure)
    for gone in (Counter(before.failures) - Counter(now.failures)).elements():
        yield Finding("failure", gone, "this failure is gone", is_gain=True)


__all__ = ["changes", "matched_keys", "short"]
