"""Every FX pass of Inductor that changed a graph, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.shared import FxPass
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain, text_lines
from explorer.stages.chain import link_pass
from explorer.stages.fx_graph import of_graph
from explorer.stages.kinds import fx_kinds


@record
class FxPassText(FxPass):
    """A pass changed an FX graph: the graph after it, a node a line."""

    text: str


@record
class FxPassIdle(Record):
    """The passes with which a round ended, which changed nothing: name and seconds."""

    section: str
    idle: tuple[tuple[str, float], ...]
    of: str | None = None


#: The kind of event that names the passes at the end of a round, which changed nothing.
IDLE = "fx_pass_idle"


def render(event: Event, id: str) -> Artifact:
    """The graph after the pass, one node a line; `data` has the text before, the nodes made and erased.

    `idle` has name and seconds of the passes since the last change, which changed nothing, `idle_after` after the last one.
    """
    data = typed(FxPassText, event.data)
    title = f"{data.section} pass {data.name}{of_graph(data.of)}: {_nodes(data)}"
    return text_artifact(event, id, title, "fx-lines", seconds=data.seconds)


def _nodes(data: FxPassText) -> str:
    """How many nodes the pass made and erased, or else changed in their places."""
    if data.made or data.erased:
        return f"+{len(data.made)} −{len(data.erased)} nodes"
    changed = set(text_lines(data.text)).difference(text_lines(data.before))
    return f"{len(changed)} node{'s'[: len(changed) != 1]} changed" if changed else "nodes in another order"


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Each pass that changed a graph, the last of a round with those that ran after it and changed nothing."""
    for number, event in enumerate(events):
        if event.kind == IDLE:
            continue
        after = next((e for e in events[number + 1 :] if _round(e) == _round(event)), None)
        if after is not None and after.kind == IDLE:
            idle = typed(FxPassIdle, after.data).idle
            yield replace(event, data=replace(typed(FxPassText, event.data), idle_after=idle))
        else:
            yield event


def _round(event: Event) -> tuple[str, ...]:
    """Which round of passes, over which graph."""
    data = typed(FxPassIdle, event.data) if event.kind == IDLE else typed(FxPassText, event.data)
    return event.frame, event.graph, data.section, data.of or ""


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes the passes made and erased."""
    passes = [typed(FxPass, artifact.data) for artifact in artifacts]
    made, erased = sum(len(data.made) for data in passes), sum(len(data.erased) for data in passes)
    return f"+{made} −{erased} nodes"


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The pass is one row, with the text before and after it."""
    data = typed(FxPass, artifact.data)
    yield {
        "graph": artifact.graph,
        "section": data.section,
        "name": data.name,
        "seconds": data.seconds,
        "made": data.made,
        "erased": data.erased,
        "before": data.before,
        "after": artifact.text,
    }


def all_rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The pass, between those that ran before it, or after it in its round, and changed nothing; `changed` says which."""
    data = typed(FxPass, artifact.data)
    yield from (_idle_row(artifact, one, data.before) for one in data.idle or ())
    yield from ({key: {**row, "changed": True}[key] for key in ALL_COLUMNS} for row in rows(artifact, trace))
    yield from (_idle_row(artifact, one, artifact.text) for one in data.idle_after or ())


def _idle_row(artifact: Artifact, one: tuple[str, float], text: str) -> Mapping[str, Plain]:
    """The row of a pass that left the graph's text as it was."""
    section = typed(FxPass, artifact.data).section
    return dict(zip(ALL_COLUMNS, (artifact.graph, section, one[0], False, one[1], (), (), text, text), strict=True))


COLUMNS = ("graph", "section", "name", "seconds", "made", "erased", "before", "after")
#: The columns of `all_rows`.
ALL_COLUMNS = ("graph", "section", "name", "changed", *COLUMNS[3:])


STAGE = Stage(
    name="fx_pass",
    title="FX pass",
    language="fx-lines",
    event=FxPassText,
    artifact=FxPass,
    render=render,
    rows=rows,
    columns=COLUMNS,
    summary=summary,
    gather=gather,
    kinds=fx_kinds,
    link=link_pass,
    consumes={IDLE: FxPassIdle},
    backend="inductor",
    why_absent="no pass changed a graph",
    about="One pass over an FX graph that changed it: cleaning up, pattern matching, reordering, in-placing.",
)
