"""Performance hints: what Inductor itself says could be faster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, Plain
from explorer.stages.fx_graph import link_rows, placed_rows
from explorer.stages.gathering import counted, one_table_with_graphs


def render(event: Event, id: str) -> Artifact:
    """One line a hint; the event holds all of one frame's, see `replay`."""
    rows = placed_rows(event)
    return text_artifact(event, id, "Performance hints", "text", text="\n".join(map(readable, rows)), data={"rows": rows})


def readable(row: Mapping[str, Plain]) -> str:
    """A hint as one line: the graph, Inductor's words, the nodes, and the user's line."""
    nodes = f" ({', '.join(row['nodes'])})" if row["nodes"] else ""
    graph = f"{row['graph']}: " if row["graph"] else ""
    why = f"  # {row['code']}" if row["code"] else ""
    return f"{graph}{row['hint']}{nodes}{why}"


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each hint to the user's line of the node that it is about."""
    return link_rows(artifact, trace)


STAGE = Stage(
    name="perf_hint",
    title="Performance hints",
    language="text",
    render=render,
    summary=counted("hint"),
    gather=one_table_with_graphs,
    link=link,
    about="What Inductor hints at while it compiles (TORCH_LOGS=perf_hints), with the line of the node that it is about.",
)
