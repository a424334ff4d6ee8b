"""Inductor's IR before fusion: the scheduler's nodes."""

from __future__ import annotations

from explorer.model.stage import Stage, node_count
from explorer.model.values import Artifact, Event
from explorer.stages.inductor.scheduler_ir import SchedulerGraph, SchedulerText, link_nodes, render_nodes
from explorer.stages.kinds import ir_kinds


def render(event: Event, id: str) -> Artifact:
    """The scheduler's nodes as TORCH_COMPILE_DEBUG=1 writes them."""
    return render_nodes(event, id, "Inductor IR before fusion")


STAGE = Stage(
    name="ir_pre_fusion",
    title="IR before fusion",
    language="inductor-ir",
    event=SchedulerText,
    artifact=SchedulerGraph,
    summary=node_count,
    render=render,
    kinds=ir_kinds,
    link=link_nodes,
    phases=("GraphLowering.run",),
    backend="inductor",
    about="Each buffer to compute as a loop nest: what it reads, writes and is made of; pointwise chains are already one.",
)
