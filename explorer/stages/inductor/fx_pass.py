"""Every FX pass of Inductor that changed a graph, in order."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.chain import link_pass
from explorer.stages.fx_graph import of_graph


def render(event: Event, id: str) -> Artifact:
    """The graph after the pass, one node a line; `data` has the text before, the nodes made and erased.

    `idle` has name and seconds of the passes since the last change, which changed nothing, `idle_after` after the last one.
    """
    data = event.data
    title = f"{data['section']} pass {data['name']}{of_graph(event)}: +{len(data['made'])} −{len(data['erased'])} nodes"
    return text_artifact(event, id, title, "fx-lines", seconds=data["seconds"])


STAGE = Stage(
    name="fx_pass",
    title="FX pass",
    language="fx-lines",
    render=render,
    link=link_pass,
    consumes=("fx_pass_idle",),
    about="One pass over an FX graph that changed it: cleaning up, pattern matching, reordering, in-placing.",
)
