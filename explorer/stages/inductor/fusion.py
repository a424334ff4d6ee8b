"""The scheduler's verdicts: which nodes became one kernel, which did not, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.model.wording import quantity
from explorer.stages.fx_graph import of_graph
from explorer.stages.inductor.scheduler_ir import SchedulerGraph
from explorer.stages.inductor.verdicts import Fusion, Verdict, Verdicts

#: Partners of a node that were refused alike are named up to this number.
MAX_PARTNERS = 8
#: A line of the text and the single nodes that it is about.
Line = tuple[str, tuple[int, ...]]


def render(event: Event, id: str) -> Artifact:
    """The groups, the verdicts and the buffers made, a line each; `data` has them as recorded, see `Trace.fusion`."""
    recorded = typed(Fusion, event.data)
    lines = list(readable(Verdicts(recorded)))
    about = tuple((number, nodes) for number, (_, nodes) in enumerate(lines, 1) if nodes)
    text = "\n".join(text for text, _ in lines)
    return text_artifact(event, id, f"Fusion{of_graph(recorded.of)}", "text", text=text, data=replace(recorded, about=about))


def readable(verdicts: Verdicts) -> Iterator[Line]:
    """The text, line by line."""
    final = verdicts.data.final
    nodes, rounds = len(verdicts.names), len(verdicts.data.rounds)
    yield f"{quantity(nodes, 'scheduler node')} became {len(final)}, in {quantity(rounds, 'round')}", ()
    yield "", ()
    for row in final:
        members = verdicts.members(row.number)
        names = ", ".join(verdicts.kernels(members)) or row.call or row.ir or ""
        yield f"{'_'.join(verdicts.names_in(row.number))} → {names}", members
        yield f"    reads {row.read} bytes, writes {row.written}", ()
    for kind in ("fused", "refused"):
        yield from _section(kind, [_verdict(verdicts, v, others) for v, others in verdicts.rows() if v.verdict == kind])
    yield from _section("made in memory", [(f"  {row['buffer']}: {row['why']}", ()) for row in verdicts.made()])


def _section(title: str, lines: list[Line]) -> Iterator[Line]:
    if lines:
        yield "", ()
        yield title, ()
        yield from lines


def _verdict(verdicts: Verdicts, v: Verdict, others: tuple[int, ...]) -> Line:
    """One row: a node, its partners, and the rule."""
    partners = ", ".join(map(verdicts.name, others[:MAX_PARTNERS]))
    if len(others) > MAX_PARTNERS:
        partners += f" and {len(others) - MAX_PARTNERS} more"
    about = tuple(n for number in (v.first, *others[:MAX_PARTNERS]) for n in verdicts.members(number))
    when = ", ".join(str(n + 1) for n in v.rounds)
    if v.verdict == "fused":
        return f"  {verdicts.name(v.first)} + {partners}  (round {when}, {v.shared or 0} bytes shared)", about
    why = verdicts.words(v)
    return f"  {verdicts.name(v.first)} | {partners}  (round {when}): {why}", about


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each line to the scheduler nodes, before fusion, that it is about."""
    data = typed(Fusion, artifact.data)
    before = [a for a in trace.find("ir_pre_fusion", artifact.frame, artifact.graph) if _same_graph(data, a)]
    if not before:
        return
    lines = node_lines(before[0], set(data.names))
    for number, nodes in data.about or ():
        targets = tuple(lines[data.names[n]] for n in nodes if data.names[n] in lines)
        if targets:
            yield Link(artifact.id, (number,), before[0].id, targets, "scheduler node")


def _same_graph(fusion: Fusion, nodes: Artifact) -> bool:
    """True where both are of the same graph, which may be nested in another."""
    graph = typed(SchedulerGraph, nodes.data)
    return (graph.of or "") == fusion.of and {node.name for node in graph.nodes} >= set(fusion.names)


def node_lines(artifact: Artifact, names: set[str]) -> dict[str, int]:
    """The line on which each scheduler node begins."""
    return {line.partition(":")[0]: n for n, line in enumerate(artifact.lines, 1) if line.partition(":")[0] in names}


STAGE = Stage(
    name="fusion",
    title="Fusion",
    language="text",
    event=Fusion,
    artifact=Fusion,
    render=render,
    link=link,
    phases=("Scheduler.fused_nodes",),
    backend="inductor",
    about="What became one kernel and what did not: each pair that the scheduler considered, and the rule that refused it.",
)
