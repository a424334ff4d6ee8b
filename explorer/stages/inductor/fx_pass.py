"""Every FX pass of Inductor that changed a graph, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain, plain
from explorer.stages.chain import link_pass
from explorer.stages.fx_graph import of_graph
from explorer.stages.kinds import fx_kinds

#: The kind of event that names the passes at the end of a round, which changed nothing.
IDLE = "fx_pass_idle"


def render(event: Event, id: str) -> Artifact:
    """The graph after the pass, one node a line; `data` has the text before, the nodes made and erased.

    `idle` has name and seconds of the passes since the last change, which changed nothing, `idle_after` after the last one.
    """
    data = event.data
    title = f"{data['section']} pass {data['name']}{of_graph(event)}: +{len(data['made'])} −{len(data['erased'])} nodes"
    return text_artifact(event, id, title, "fx-lines", seconds=data["seconds"])


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Each pass that changed a graph, the last of a round with those that ran after it and changed nothing."""
    for number, event in enumerate(events):
        if event.kind == IDLE:
            continue
        after = next((e for e in events[number + 1 :] if _round(e) == _round(event)), None)
        idle = after.data["idle"] if after is not None and after.kind == IDLE else None
        yield event if idle is None else replace(event, data=plain({**event.data, "idle_after": idle}))


def _round(event: Event) -> tuple[str, ...]:
    """Which round of passes, over which graph."""
    return event.frame, event.graph, str(event.data["section"]), str(event.data.get("of", ""))


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes the passes made and erased."""
    made, erased = (sum(len(a.data.get(key, ())) for a in artifacts) for key in ("made", "erased"))
    return f"+{made} −{erased} nodes"


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The pass is one row, with the text before and after it."""
    keys = ("section", "name", "seconds", "made", "erased", "before")
    yield {"graph": artifact.graph, **{key: artifact.data[key] for key in keys}, "after": artifact.text}


def idle_rows(artifact: Artifact) -> Iterator[Mapping[str, Plain]]:
    """One row a pass that ran before it, or after it in its round, and changed nothing."""
    for name, seconds in (idle for key in ("idle", "idle_after") for idle in artifact.data.get(key, ())):
        yield {"graph": artifact.graph, "section": artifact.data["section"], "name": name, "seconds": seconds}


STAGE = Stage(
    name="fx_pass",
    title="FX pass",
    language="fx-lines",
    render=render,
    rows=rows,
    summary=summary,
    gather=gather,
    kinds=fx_kinds,
    link=link_pass,
    consumes=(IDLE,),
    about="One pass over an FX graph that changed it: cleaning up, pattern matching, reordering, in-placing.",
)
