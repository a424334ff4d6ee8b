"""Inductor's IR after fusion: the scheduler's nodes."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.model.stage import Stage, node_count
from explorer.model.trace_data import TraceData
from explorer.model.values import FUSED, Artifact, Event, Link
from explorer.stages.inductor.scheduler_ir import (
    SchedulerGraph,
    SchedulerText,
    headers,
    link_nodes,
    render_nodes,
    scheduler_nodes,
)
from explorer.stages.kinds import ir_kinds


def render(event: Event, id: str) -> Artifact:
    """The scheduler's nodes as TORCH_COMPILE_DEBUG=1 writes them."""
    return render_nodes(event, id, "Inductor IR after fusion")


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each scheduler node and its operations to FX nodes, and to the scheduler nodes that were fused into it."""
    yield from link_nodes(artifact, trace)
    before = [a for a in trace.find("ir_pre_fusion", artifact.frame, artifact.graph) if a.time <= artifact.time]
    if not before:
        return
    lines_after, lines_before = headers(artifact), headers(before[-1])
    for node in scheduler_nodes(artifact):
        parts = tuple(sorted(lines_before[name] for name in node.fused or (node.name,) if name in lines_before))
        if node.name in lines_after and parts:
            yield Link(artifact.id, (lines_after[node.name],), before[-1].id, parts, FUSED)


STAGE = Stage(
    name="ir_post_fusion",
    title="IR after fusion",
    language="inductor-ir",
    event=SchedulerText,
    artifact=SchedulerGraph,
    summary=node_count,
    render=render,
    kinds=ir_kinds,
    link=link,
    phases=("Scheduler.__init__",),
    backend="inductor",
    made_from=("ir_pre_fusion",),
    about="The same nodes after the scheduler has fused them: each is one kernel or one library call.",
)
