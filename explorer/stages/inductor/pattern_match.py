"""Every pattern of Inductor's pattern matcher that fired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.records import record, typed
from explorer.model.shared import PatternMatch
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.chain import link_pattern
from explorer.stages.fx_graph import of_graph
from explorer.stages.kinds import fx_kinds


@record
class PatternMatchText(PatternMatch):
    """A pattern fired: the nodes matched and the nodes made, a line each."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The nodes matched and the nodes made; `data` says which pattern and where it is defined."""
    data = typed(PatternMatchText, event.data)
    return text_artifact(event, id, f"Pattern {data.pattern}{of_graph(data.of)}", "fx-lines")


def summary(artifacts: Sequence[Artifact]) -> str:
    """The patterns that fired."""
    return ", ".join(dict.fromkeys(typed(PatternMatch, a.data).pattern for a in artifacts))


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The match is one row."""
    data = typed(PatternMatch, artifact.data)
    yield {
        "graph": artifact.graph,
        "pattern": data.pattern,
        "kind": data.kind,
        "file": data.file,
        "line": data.line,
        "matched": data.matched,
        "made": data.made,
    }


STAGE = Stage(
    name="pattern_match",
    title="Pattern match",
    language="fx-lines",
    event=PatternMatchText,
    artifact=PatternMatch,
    render=render,
    rows=rows,
    columns=("graph", "pattern", "kind", "file", "line", "matched", "made"),
    summary=summary,
    kinds=fx_kinds,
    link=link_pattern,
    backend="inductor",
    why_absent="no pattern of Inductor's matched",
    about="A subgraph that a pattern recognised and replaced by something better.",
)
