"""The graph handed to Inductor as a file that runs on its own."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event


def render(event: Event, id: str) -> Artifact:
    """The program Inductor writes for its reproducers."""
    return text_artifact(event, id, "Runnable FX graph", "python")


STAGE = Stage(
    name="fx_graph_runnable",
    title="Runnable FX graph",
    language="python",
    render=render,
    backend="inductor",
    about="The same graph as a program: it makes inputs of the right shapes and compiles the graph.",
)
