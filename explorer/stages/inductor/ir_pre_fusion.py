"""Inductor's IR before fusion: the scheduler's nodes."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.fx_graph import of_graph
from explorer.stages.inductor.scheduler_ir import link_nodes
from explorer.stages.kinds import ir_kinds


def render(event: Event, id: str) -> Artifact:
    """The scheduler's nodes as TORCH_COMPILE_DEBUG=1 writes them."""
    return text_artifact(
        event, id, f"Inductor IR before fusion{of_graph(event)}", "inductor-ir", text=event.data["text"].rstrip()
    )


STAGE = Stage(
    name="ir_pre_fusion",
    title="IR before fusion",
    language="inductor-ir",
    render=render,
    kinds=ir_kinds,
    link=link_nodes,
    phases=("GraphLowering.run",),
    about="Each buffer to compute as a loop nest: what it reads, writes and is made of; pointwise chains are already one.",
)
