"""What each level of ONNX Runtime's optimiser did: the nodes that went, and into which, and the nodes that came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.onnxrt.graph import ONNX_GRAPHS, ONNXRT_LEVELS, VALUES, OnnxGraphText, graph_before, lines_of
from explorer.stages.onnxrt.origins import OnnxGraph, origins, unchanged


@record
class OnnxChange(Record):
    """A node that a level of ONNX Runtime's optimiser took away or made.

    `change` is "fused" for a node that new ones took the place of, "folded" for one whose value is a constant now, "removed" for
    one that nothing new took the place of, and "added". `others` names the nodes that do its part now, or of an added one those
    that it was made of.
    """

    level: str
    change: str
    node: str
    operator: str
    others: Names


@record
class OnnxChanges(Record):
    """What each level of ONNX Runtime's optimiser changed in one graph."""

    rows: tuple[OnnxChange, ...]


STAGE_NAME = "onnxrt_changes"


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One event per graph that ONNX Runtime optimised."""
    compiles: dict[tuple[str, str], dict[str, Event]] = {}
    for event in events:
        compiles.setdefault((event.frame, event.graph), {})[event.kind] = event
    for graphs in compiles.values():
        made = [graphs[kind] for kind in ONNX_GRAPHS if kind in graphs]
        levels = [event for event in made if event.kind.startswith("onnxrt_")]
        if levels:
            rows = tuple(row for before, after in pairwise(made) if after in levels for row in changes(before, after))
            yield replace(levels[-1], kind=STAGE_NAME, data=OnnxChanges(rows=rows))


def changes(before: Event, after: Event) -> Iterator[OnnxChange]:
    """What a level changed: first what went, in the order of the graph before, then what came."""
    old, new = (OnnxGraph(nodes=e.data["nodes"], constants=e.data["constants"]) for e in (before, after))
    level, kept, made_of = after.kind.removeprefix("onnxrt_"), unchanged(old, new), origins(old, new)
    went_into: dict[str, list[str]] = {}
    for name, sources in made_of.items():
        for source in sources:
            went_into.setdefault(source, []).append(name)
    for node in old.nodes:
        if node.op != "placeholder" and node.name not in kept:
            folded = set(node.writes) & set(new.constants)
            into = () if folded else tuple(went_into.get(node.name, ()))
            change = "folded" if folded else "fused" if set(into) - kept else "removed"
            yield OnnxChange(level=level, change=change, node=node.name, operator=node.target, others=into)
    for node in new.nodes:
        if node.op != "placeholder" and node.name not in kept:
            yield OnnxChange(level=level, change="added", node=node.name, operator=node.target, others=made_of.get(node.name, ()))


def readable(row: OnnxChange) -> str:
    """A change as one line."""
    others = f" {'of' if row.change == 'added' else 'into'} {', '.join(row.others)}" if row.others else ""
    return f"{row.level:9} {row.change:8} {row.node} ({row.operator}){others}"


def render(event: Event, id: str) -> Artifact:
    """One line per change."""
    data = typed(OnnxChanges, event.data)
    return text_artifact(event, id, "Optimizer · ONNX Runtime", "text", text="\n".join(map(readable, data.rows)), data=data)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each line to the nodes before its level that it is about."""
    for level in ONNXRT_LEVELS:
        for graph in trace.find(f"onnxrt_{level}", artifact.frame, artifact.graph)[-1:]:
            earlier = graph_before(graph, trace)
            lines = lines_of(earlier) if earlier is not None else {}
            for number, row in enumerate(typed(OnnxChanges, artifact.data).rows, 1):
                names = (row.others if row.change == "added" else (row.node,)) if row.level == level else ()
                found = tuple(sorted(n for name in names for n in lines.get(name, ())))
                if found and earlier is not None:
                    yield Link(artifact.id, (number,), earlier.id, found, VALUES)


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes were fused, folded and removed."""
    rows = [row for artifact in artifacts for row in typed(OnnxChanges, artifact.data).rows]
    counts = {change: sum(row.change == change for row in rows) for change in ("fused", "folded", "removed")}
    return ", ".join(f"{count} {change}" for change, count in counts.items() if count) or "nothing changed"


STAGE = Stage(
    name=STAGE_NAME,
    title="Optimizer · ONNX Runtime",
    language="text",
    artifact=OnnxChanges,
    backend="onnxrt",
    consumes=dict.fromkeys(ONNX_GRAPHS, OnnxGraphText),
    gather=gather,
    render=render,
    link=link,
    summary=summary,
    about="What each level of ONNX Runtime's optimiser did: which nodes it fused, folded into constants, removed and added.",
)
