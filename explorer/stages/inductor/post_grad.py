"""The graph after all pattern matching, as it is lowered to Inductor's IR."""

from __future__ import annotations

from explorer.model.stage import Stage, node_count
from explorer.stages.chain import link_graph
from explorer.stages.fx_graph import FxGraph, FxGraphText, render_graph
from explorer.stages.kinds import fx_kinds

STAGE = Stage(
    name="post_grad",
    title="Post-grad graph",
    language="fx",
    event=FxGraphText,
    artifact=FxGraph,
    summary=node_count,
    render=render_graph("Post-grad graph"),
    kinds=fx_kinds,
    link=link_graph,
    phases=("_recursive_post_grad_passes",),
    backend="inductor",
    opens_at=3,
    made_from=("forward", "inductor_input", "pre_grad"),
    about="The last FX graph: patterns have been matched and replaced, and in-place updates are back where they are safe.",
)
