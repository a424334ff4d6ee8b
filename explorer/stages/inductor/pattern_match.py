"""Every pattern of Inductor's pattern matcher that fired."""

from __future__ import annotations

from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.chain import link_pattern
from explorer.stages.fx_graph import of_graph


def render(event: Event, id: str) -> Artifact:
    """The nodes matched and the nodes made; `data` says which pattern and where it is defined."""
    return text_artifact(event, id, f"Pattern {event.data['pattern']}{of_graph(event)}", "fx-lines")


STAGE = Stage(
    name="pattern_match",
    title="Pattern match",
    language="fx-lines",
    render=render,
    link=link_pattern,
    about="A subgraph that a pattern recognised and replaced by something better.",
)
