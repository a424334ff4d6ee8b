"""AOTAutograd's joint graph of forward and backward."""

from __future__ import annotations

from explorer.model.stage import Stage, node_count
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import FxGraph, FxGraphText, render_graph
from explorer.stages.gathering import with_nodes
from explorer.stages.kinds import fx_kinds

STAGE = Stage(
    name="joint",
    title="Joint graph",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Joint graph"),
    gather=with_nodes,
    kinds=fx_kinds,
    link=link_graph,
    phases=("aot_trace_joint_graph",),
    why_absent="there is no backward; trace with train=True, and a parameter or input that requires grad",
    about="Forward and backward traced together in ATen operators, so that one can be optimised knowing the other.",
)
