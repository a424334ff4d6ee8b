"""CUDA graphs: which graphs are captured, by Inductor or by `backend="cudagraphs"`, and why others are not, or not whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import COMPILED, NOWHERE, FxGraphText, innermost, link_rows, names_of_inputs
from explorer.stages.gathering import one_table


@record
class CudaGraph(Record):
    """A decision on a CUDA graph: the decision, on which graph, why, and the user's line, "" and 0 if none is known."""

    graph: str
    decision: str
    what: str
    reason: str
    file: str
    line: int
    function: str
    code: str


@record
class CudaGraphs(Record):
    """The decisions on CUDA graphs of one frame."""

    rows: tuple[CudaGraph, ...]


@record
class CudaGraphDecision(Record):
    """A decision on a CUDA graph: what was decided of what, why, and the Python stack that torch names, or ""."""

    decision: str
    what: str
    reason: str
    stack: str


#: The graphs whose inputs a decision may name.
DYNAMO = "dynamo"
CONSUMED = (DYNAMO, *COMPILED)
#: A word, or one that stands alone in parentheses.
_WORD = re.compile(r"\((?P<alone>\w+)\)|\b(?P<word>\w+)\b")


def render(event: Event, id: str) -> Artifact:
    """One line per decision of the frame."""
    data = typed(CudaGraphs, event.data)
    return text_artifact(event, id, "CUDA graphs", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: CudaGraph) -> str:
    """A decision as one line: the graph, what became of it, why, and the user's line."""
    why = f"  # {row.code}" if row.code else ""
    graph = f"{row.graph}: " if row.graph else ""
    return f"{graph}{row.what} is {row.decision}: {row.reason}{why}"


def row_of(event: Event) -> CudaGraph:
    """The decision, the graph that it is about, and the user's line on its stack."""
    data = typed(CudaGraphDecision, event.data)
    place = innermost(data.stack) or NOWHERE
    return CudaGraph(graph=event.graph, decision=data.decision, what=data.what, reason=data.reason, **place._asdict())


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One table per frame of the decisions, whose inputs have the program's names too."""
    decided = [event for event in events if event.kind == STAGE.name]
    names = _names(events) if decided else {}
    named = [replace(event, data=with_names(event, names.get((event.frame, event.graph), {}))) for event in decided]
    yield from one_table(row_of, CudaGraphs, distinct=True)(named, frames)


def _names(events: Sequence[Event]) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """The program's names for the inputs of the graphs, by frame and graph."""
    graphs = [(event, typed(FxGraphText, event.data).nodes or ()) for event in events if event.kind in CONSUMED]
    captured = ((event.frame, nodes) for event, nodes in graphs if event.kind == DYNAMO)
    compiled = (((event.frame, event.graph), nodes) for event, nodes in graphs if event.kind != DYNAMO)
    return names_of_inputs(captured, compiled)


def with_names(event: Event, names: Mapping[str, str]) -> CudaGraphDecision:
    """Return the decision with each input under the program's own name, followed by its node's: "x (arg0_1)"."""
    data = typed(CudaGraphDecision, event.data)

    def with_name(found: re.Match[str]) -> str:
        node = found["alone"] or found["word"]
        name = names.get(node, node)
        if name == node:
            return found[0]
        return f"({node}: {name})" if found["alone"] else f"{name} ({node})"

    return replace(data, what=_WORD.sub(with_name, data.what), reason=_WORD.sub(with_name, data.reason))


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each decision to the user's line that it names."""
    return link_rows(artifact, ((row.file, row.line) for row in typed(CudaGraphs, artifact.data).rows), trace)


def summary(artifacts: Sequence[Artifact]) -> str:
    """What became of the graphs."""
    return ", ".join(dict.fromkeys(row.decision for a in artifacts for row in typed(CudaGraphs, a.data).rows))


STAGE = Stage(
    name="cuda_graph",
    title="CUDA graphs",
    language="text",
    event=CudaGraphDecision,
    artifact=CudaGraphs,
    render=render,
    summary=summary,
    consumes=dict.fromkeys(CONSUMED, FxGraphText),
    gather=gather,
    link=link,
    why_absent="CUDA graphs were not asked for; trace with mode='reduce-overhead'",
    about="Where CUDA graphs are asked for (reduce-overhead, cudagraphs): which graphs are captured, and why others are not.",
)
