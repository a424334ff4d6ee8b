"""AOTAutograd's backward graph."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import render_graph

STAGE = Stage(
    name="backward",
    title="Backward graph",
    language="fx",
    render=render_graph("Backward graph"),
    link=link_graph,
    phases=(),
    about="The backward in Core ATen: what the partitioner chose to save from the forward are its inputs.",
)
