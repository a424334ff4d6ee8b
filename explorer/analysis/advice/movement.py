"""Verdicts on what is moved through memory for want of a fusion: fusions missed, buffers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.analysis.advice.call_cost import Launch, TracedCall, bytes_of
from explorer.analysis.advice.verdicts import Cost, Verdict, size
from explorer.analysis.questions.fusion import Graph
from explorer.analysis.questions.tables import table
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.values import Plain
from explorer.model.wording import quantity
from explorer.stages.inductor.verdicts import Verdict as Pair

#: The scheduler's refusals that are a matter of taste and not of need: fuse=, or the setting, does what was refused.
AVOIDABLE: Mapping[str, str] = {
    "exceeds max fusion": "max_fusion_size",
    "fusion_prevent_too_many_reads_and_writes": "max_fusion_unique_io_buffers",
    "score_fusion_memory_threshold": "score_fusion_memory_threshold",
    "Fusion will increase peak memory": "",
    "speedup_by_fusion": "",
    "vetoed": "",
    "Nodes are too far away. Fusing them may increase peak memory.": "",
    "no shared data due to indexing mismatch": "",
}
#: What a setting is set to, to prove a verdict: enough for every pair.
RELAXED_SETTINGS: Mapping[str, Plain] = {
    "max_fusion_size": 64,
    "max_fusion_unique_io_buffers": 1024,
    "score_fusion_memory_threshold": 1,
}
#: Attention's scores are a softmax between two products.
PRODUCT = re.compile(r"\b(bmm|mm|baddbmm|addmm)$")
USE_FUSED = "use torch.nn.functional.scaled_dot_product_attention, or flex_attention with a score_mod for what changes the scores"
SOFTMAX = re.compile(r"softmax|\bamax\b.*\bexp\b|\bexp\b.*\bamax\b")


# Fusions -----------------------------------------------------------------------------------------------------------------


def fusions(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each setting or pair of kernels that made the scheduler refuse a possible fusion."""
    by_setting: dict[str, list[tuple[Graph, Pair]]] = {}
    for graph, pair in _refused(traced):
        setting = AVOIDABLE[pair.rule.said]
        key = setting or f"{graph.artifact.id}: {graph.verdicts.name(pair.first)}, {graph.verdicts.name(pair.second)}"
        by_setting.setdefault(key, []).append((graph, pair))
    for key, pairs in by_setting.items():
        yield _missed(traced, key if key in RELAXED_SETTINGS else "", pairs)


def _refused(traced: TracedCall) -> Iterator[tuple[Graph, Pair]]:
    """Yield each pair of final nodes that share bytes, and that a fusion was refused for by an avoidable rule."""
    for graph in traced.graphs:
        homes = {n: group.number for group in graph.verdicts.data.final for n in graph.verdicts.members(group.number)}
        best: dict[tuple[int, int], Pair] = {}
        rows = [(v, others) for v, others in graph.verdicts.rows() if _is_avoidable(v)]
        for pair in (replace(v, second=second) for v, others in rows for second in others):
            ends = [{homes.get(n, -1) for n in graph.verdicts.members(one)} for one in (pair.first, pair.second)]
            if ends[0] & ends[1] or any(len(end) != 1 for end in ends):
                continue
            first, second = (next(iter(end)) for end in ends)
            if (first, second) not in best or (best[first, second].shared or 0) < (pair.shared or 0):
                best[first, second] = pair
        yield from ((graph, pair) for pair in best.values())


def _is_avoidable(verdict: Pair) -> bool:
    """Tell whether a verdict is a refusal of a fusion that would save bytes, by a rule that a request can overrule."""
    return verdict.verdict == "refused" and bool(verdict.shared) and verdict.rule.said in AVOIDABLE


def _missed(traced: TracedCall, setting: str, pairs: Sequence[tuple[Graph, Pair]]) -> Verdict:
    """Say what some refused fusions cost: each node joins at most one other, so each counts once, the most bytes first."""
    ordered = sorted(pairs, key=lambda one: -(one[1].shared or 0))
    moved, joined = 0, set[tuple[str, int]]()
    for graph, pair in ordered:
        if (graph.artifact.id, pair.second) not in joined:
            joined.add((graph.artifact.id, pair.second))
            moved += pair.shared or 0
    graph, pair = ordered[0]
    names = [graph.verdicts.names_in(n)[0] for n in (pair.first, pair.second)]
    ends = [n for g, p in ordered for n in (*g.verdicts.members(p.first), *g.verdicts.members(p.second))]
    launches = [one for one in traced.launches if one.graph is graph and any(n in _numbers(graph, one) for n in ends)]
    request = (names[0], names[1], graph.artifact.graph, graph.artifact.frame)
    how = f"bytes moved twice that could be moved once, {traced.bandwidth}"
    return Verdict(
        "fusion missed",
        f"{quantity(len(ordered), 'fusion')} refused" + (f" by {setting}" if setting else ""),
        Cost(traced.seconds_of(moved), "estimated", how, moved, launches=len(joined)),
        f"the scheduler: {graph.reason(pair)}",
        f"leave {setting} at its default" if setting else "see t.why for the pair; fuse= puts them into one kernel",
        traced.lines_of(launches),
        traced.places_of(launches),
        {"options": {setting: RELAXED_SETTINGS[setting]}} if setting else {"fuse": request},
    )


def _numbers(graph: Graph, launch: Launch) -> set[int]:
    """Return the numbers of the scheduler nodes of a launch."""
    return {n for name in launch.row["nodes"] for n in graph.numbers_by_name.get(name, ())}


# Buffers -----------------------------------------------------------------------------------------------------------------


def scores(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each softmax between two products, whose scores are written out and read again."""
    for launch in traced.launches:
        calls = {one.row["name"]: one for one in traced.launches if one.graph is launch.graph and PRODUCT.search(one.row["call"])}
        before, after = ([calls[name] for name in launch.row[side] if name in calls] for side in ("before", "after"))
        targets = " ".join(str(node.get("target")) for node in traced.nodes_of(launch))
        if before and after and SOFTMAX.search(targets) and launch.row["kernels"]:
            yield _scores(traced, before[0], launch, after[0])


def _scores(traced: TracedCall, product: Launch, softmax: Launch, result: Launch) -> Verdict:
    moved = (
        product.row["written"] + softmax.row["read"] + softmax.row["written"] + min(result.row["read"], softmax.row["written"])
    )
    lines = traced.lines_of([softmax])
    why = _why_not_fused(traced, (*lines, *traced.lines_of([result])))
    said, remedy, setting = _of_attention(why) if why else ("", USE_FUSED, "")
    return Verdict(
        "buffer materialised",
        f"attention's scores are in memory: {size(product.row['written'])} of them",
        Cost(traced.seconds_of(moved), "estimated", f"each read and write of scores and weights, {traced.bandwidth}", moved),
        f"{product.name} writes what {softmax.name} reads, and {result.name} reads that{said}",
        remedy,
        lines,
        traced.places_of([product, softmax, result]),
        {"settings": {setting: True}} if setting else {},
        "" if setting else "the lines have to change: trace the changed program, and explorer.compare() shows both",
    )


def _of_attention(why: Mapping[str, Plain]) -> tuple[str, str, str]:
    """Say why an attention has no fused kernel, as torch or its pattern matcher decided, what to do, and by which setting."""
    reason, setting = str(why["reason"]), str(why["setting"])
    if why["kernel"]:
        changes = f"change the call: {reason}" if reason else "use flex_attention, with a score_mod for what changes the scores"
        return ". torch takes the math kernel for this call", changes, ""
    remedy = f"{setting} = True if ten bits of mantissa are enough, or {USE_FUSED}" if setting else USE_FUSED
    return f". Inductor did not fuse it: {reason}", remedy, setting


def _why_not_fused(traced: TracedCall, lines: Iterable[UserLine]) -> Mapping[str, Plain] | None:
    """Return what was recorded of an attention at one of these lines that has no fused kernel; None for nothing."""
    places = {(line.file, line.number) for line in lines}
    rows = (row for row in table(traced.trace, "attention") if row["kernel"] in ("", "math"))
    return next((row for row in rows if (row["file"], row["line"]) in places), None)


def realized(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each limit of lowering's that put values in memory, in place of computing them where they are read."""
    by_setting: dict[str, list[tuple[Graph, str, str, Plain]]] = {}
    for graph in traced.graphs:
        for made in graph.verdicts.data.made:
            exceeded = [
                (setting, value)
                for setting, value, most in (
                    (made.setting_reads, made.reads, made.most_reads),
                    (made.setting_operations, made.operations, made.most_operations),
                )
                if setting and value is not None and most is not None and value > most
            ]
            for setting, value in exceeded[:1]:
                by_setting.setdefault(setting, []).append((graph, made.buffer, made.lowering, value))
    for setting, rows in by_setting.items():
        yield from _realized(traced, setting, rows)


def _realized(traced: TracedCall, setting: str, rows: Sequence[tuple[Graph, str, str, Plain]]) -> Iterator[Verdict]:
    moved, nodes = 0, []
    for graph, buffer, lowering, _ in rows:
        node = next((node for node in graph.graph_nodes if node["name"] == lowering), None)
        if (each := bytes_of(node)) and _is_read_by_a_kernel(traced, graph, buffer):
            moved += 2 * each
            nodes.append(node)
    if nodes:
        graph, buffer, _, _ = rows[0]
        why = next((str(row["why"]) for row in graph.buffers() if row["buffer"] == buffer), "")
        most = max(int(value) for *_, value in rows)
        yield Verdict(
            "buffer materialised",
            f"{quantity(len(nodes), 'value')} in memory by {setting}",
            Cost(traced.seconds_of(moved), "estimated", f"each is written and read once more, {traced.bandwidth}", moved),
            f"Inductor: {buffer}: {why}",
            f"raise {setting}: the value is then computed where it is read, which costs operations in place of bytes",
            traced.user_lines(node for node in nodes if node),
            tuple(place for g, _, lowering, _ in rows for place in traced.places_of_nodes(g.artifact, [lowering]))[:3],
            {"options": {setting: most}},
        )


def _is_read_by_a_kernel(traced: TracedCall, graph: Graph, buffer: str) -> bool:
    """Tell whether a generated kernel reads a buffer of another one; a call or an output does not count."""
    home = [one for one in traced.launches if one.graph is graph and buffer in one.row["buffers"]]
    readers = [
        one
        for one in traced.launches
        if one.graph is graph and any(buffer in graph.nodes.get(name, {}).get("reads", ()) for name in one.row["nodes"])
    ]
    return bool(home) and any(one not in home and one.row["kernels"] for one in readers)


__all__ = ["fusions", "realized", "scores"]
