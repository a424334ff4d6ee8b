"""CUDA graphs: which graphs Inductor captures, and each reason why one is not, or not whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, Plain
from explorer.stages.fx_graph import link_rows, placed_rows
from explorer.stages.gathering import one_table_with_graphs


def render(event: Event, id: str) -> Artifact:
    """One line a decision; the event holds all of one frame's, see `replay`."""
    rows = placed_rows(event)
    return text_artifact(event, id, "CUDA graphs", "text", text="\n".join(map(readable, rows)), data={"rows": rows})


def readable(row: Mapping[str, Plain]) -> str:
    """A decision as one line: the graph, what became of it, why, and the user's line."""
    why = f"  # {row['code']}" if row["code"] else ""
    graph = f"{row['graph']}: " if row["graph"] else ""
    return f"{graph}{row['what']} is {row['decision']}: {row['reason']}{why}"


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each decision to the user's line that it names."""
    return link_rows(artifact, trace)


def summary(artifacts: Sequence[Artifact]) -> str:
    """What became of the graphs."""
    return ", ".join(dict.fromkeys(str(row["decision"]) for a in artifacts for row in a.data["rows"]))


STAGE = Stage(
    name="cuda_graph",
    title="CUDA graphs",
    language="text",
    render=render,
    summary=summary,
    gather=one_table_with_graphs,
    link=link,
    about="Where CUDA graphs are asked for (reduce-overhead, max-autotune): which graphs are captured, and why others are not.",
)
