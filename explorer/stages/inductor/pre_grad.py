"""Dynamo's graph after Inductor's pre-grad passes."""

from __future__ import annotations

from explorer.model.stage import Stage, node_count
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import FxGraph, FxGraphText, render_graph
from explorer.stages.kinds import fx_kinds

STAGE = Stage(
    name="pre_grad",
    title="Pre-grad graph",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Pre-grad graph"),
    kinds=fx_kinds,
    link=link_graph,
    phases=("_recursive_pre_grad_passes",),
    backend="inductor",
    about="Inductor's passes on the graph before autograd, such as folding batch norm; it still has torch functions and modules.",
)
