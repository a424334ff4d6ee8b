"""The FX graph that Dynamo hands to the backend."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.fx_graph import link_files, render_graph
from explorer.stages.kinds import fx_kinds

STAGE = Stage(
    name="dynamo",
    title="Dynamo FX graph",
    language="fx",
    render=render_graph("Dynamo FX graph"),
    kinds=fx_kinds,
    link=link_files,
    phases=("bytecode_tracing",),
    opens_at=2,
    about="The tensor operations of the frame, as Dynamo saw them run on fake tensors; the rest of Python is gone.",
)
