"""Every pattern of Inductor's pattern matcher that fired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.chain import link_pattern
from explorer.stages.fx_graph import of_graph
from explorer.stages.kinds import fx_kinds


def render(event: Event, id: str) -> Artifact:
    """The nodes matched and the nodes made; `data` says which pattern and where it is defined."""
    return text_artifact(event, id, f"Pattern {event.data['pattern']}{of_graph(event)}", "fx-lines")


def summary(artifacts: Sequence[Artifact]) -> str:
    """The patterns that fired."""
    return ", ".join(dict.fromkeys(str(a.data.get("pattern", "")) for a in artifacts))


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The match is one row."""
    keys = ("pattern", "kind", "file", "line", "matched", "made")
    yield {"graph": artifact.graph, **{key: artifact.data[key] for key in keys}}


STAGE = Stage(
    name="pattern_match",
    title="Pattern match",
    language="fx-lines",
    render=render,
    rows=rows,
    summary=summary,
    kinds=fx_kinds,
    link=link_pattern,
    about="A subgraph that a pattern recognised and replaced by something better.",
)
