"""Performance hints: what Inductor itself says could be faster."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import NOWHERE, innermost, link_rows
from explorer.stages.gathering import counted, one_table


@record
class PerfHint(Record):
    """A performance hint, the FX nodes that it is about, and the user's line, "" and 0 where none is known."""

    graph: str
    hint: str
    nodes: Names
    file: str
    line: int
    function: str
    code: str


@record
class PerfHints(Record):
    """The performance hints of one frame."""

    rows: tuple[PerfHint, ...]


@record
class GivenHint(Record):
    """A performance hint of Inductor's, the FX nodes that it is about, and the Python stack of the first that has one."""

    hint: str
    nodes: Names
    stack: str


def render(event: Event, id: str) -> Artifact:
    """One line per hint of the frame."""
    data = typed(PerfHints, event.data)
    return text_artifact(event, id, "Performance hints", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: PerfHint) -> str:
    """A hint as one line: the graph, Inductor's words, the nodes, and the user's line."""
    nodes = f" ({', '.join(row.nodes)})" if row.nodes else ""
    graph = f"{row.graph}: " if row.graph else ""
    why = f"  # {row.code}" if row.code else ""
    return f"{graph}{row.hint}{nodes}{why}"


def row_of(event: Event) -> PerfHint:
    """The hint, the graph that it is about, and the user's line of its first node that has one."""
    data = typed(GivenHint, event.data)
    place = innermost(data.stack) or NOWHERE
    return PerfHint(graph=event.graph, hint=data.hint, nodes=data.nodes, **place._asdict())


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each hint to the user's line of the node that it is about."""
    return link_rows(artifact, ((row.file, row.line) for row in typed(PerfHints, artifact.data).rows), trace)


STAGE = Stage(
    name="perf_hint",
    title="Performance hints",
    language="text",
    event=GivenHint,
    artifact=PerfHints,
    render=render,
    summary=counted("hint"),
    gather=one_table(row_of, PerfHints, distinct=True),
    link=link,
    backend="inductor",
    why_absent="Inductor gave no hint",
    about="What Inductor hints at while it compiles (TORCH_LOGS=perf_hints), with the line of the node that it is about.",
)
