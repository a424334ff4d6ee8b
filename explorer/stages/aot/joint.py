"""AOTAutograd's joint graph of forward and backward."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import render_graph

STAGE = Stage(
    name="joint",
    title="Joint graph",
    language="fx",
    render=render_graph("Joint graph"),
    link=link_graph,
    phases=("aot_trace_joint_graph",),
    about="Forward and backward traced together in ATen operators, so that one can be optimised knowing the other.",
)
