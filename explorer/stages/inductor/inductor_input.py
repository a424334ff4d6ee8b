"""The inference graph as Inductor is handed it, after its passes on the joint graph."""

from __future__ import annotations

from explorer.model.stage import Stage, node_count
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import FxGraph, FxGraphText, render_graph
from explorer.stages.kinds import fx_kinds

STAGE = Stage(
    name="inductor_input",
    title="Inductor input",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Inductor input"),
    kinds=fx_kinds,
    link=link_graph,
    phases=("_recursive_joint_graph_passes",),
    backend="inductor",
    why_absent="only inference has it; with train=True the graphs are forward and backward",
    about="The inference graph after constant folding and the joint graph's patterns, such as attention.",
)
