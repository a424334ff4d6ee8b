"""The FX graph that Dynamo hands to the backend."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.fx_graph import link_files, render_graph

STAGE = Stage(
    name="dynamo",
    title="Dynamo FX graph",
    language="fx",
    render=render_graph("Dynamo FX graph"),
    link=link_files,
    phases=("bytecode_tracing",),
    about="The tensor operations of the frame, as Dynamo saw them run on fake tensors; the rest of Python is gone.",
)
