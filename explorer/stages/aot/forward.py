"""AOTAutograd's forward graph, or in inference its only graph."""

from __future__ import annotations

from explorer.model.stage import Stage, node_count
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import FxGraph, FxGraphText, render_graph
from explorer.stages.gathering import with_nodes
from explorer.stages.kinds import fx_kinds

STAGE = Stage(
    name="forward",
    title="Forward graph",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Forward graph"),
    gather=with_nodes,
    kinds=fx_kinds,
    link=link_graph,
    phases=("aot_trace_joint_graph",),
    made_from=("joint",),
    about="The forward in Core ATen: decomposed, without views of inputs or in-place changes.",
)
