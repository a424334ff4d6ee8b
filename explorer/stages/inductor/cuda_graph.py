"""CUDA graphs: which graphs are captured and why others are not; how often calls warmed up, recorded and replayed each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.model.wording import quantity
from explorer.stages.dynamo.source import SourceText
from explorer.stages.fx_graph import COMPILED, NOWHERE, FxGraphText, StackPlace, innermost, link_rows, names_of_inputs
from explorer.stages.gathering import one_table

#: What torch decides when it compiles a graph.
CAPTURED, SKIPPED, IN_PARTS, NOT_THIS_PART = "captured", "skipped", "captured in parts", "not captured"
#: What happens to a graph when it is called; a compile may already know the first.
SKIPPED_CALL = "skipped when called"
WARMED_UP, RECORDED, RECORDED_AGAIN, REPLAYED = IN_A_GRAPH = ("warmed up", "recorded", "recorded again", "replayed")
#: Why a graph was recorded again. Details follow after a colon.
NEW_SIZE = "each size of the inputs has its own CUDA graph"
MOVED_INPUT = "an input that stays in place, such as a parameter, is at another address"
MOVED_OUTPUT = "an input that another CUDA graph made is at another address"
STILL_ALIVE = "an output of an earlier CUDA graph is still alive, and was not when this one was recorded"
STEP_NOT_OVER = "the step before is not over, because one of its forwards waits for its backward"
OTHER_PLACE = "it runs after another CUDA graph than before"
OTHER_THREAD = "each thread has its own CUDA graphs"


@record
class CudaGraph(Record):
    """A decision on a CUDA graph, or what calls did with it, and why; the user's line is "" and 0 if none is known.

    `count` is how often calls did it while the program was recorded. `seconds` is how long Python took for all of these; None
    for replays and skipped calls, which are not timed. A decision that was made before the first call has neither.
    """

    graph: str
    decision: str
    what: str
    reason: str
    file: str
    line: int
    function: str
    code: str
    count: int | None = None
    seconds: float | None = None


@record
class CudaGraphs(Record):
    """The decisions on CUDA graphs of one frame, and what calls did with them."""

    rows: tuple[CudaGraph, ...]


@record
class CudaGraphDecision(Record):
    """A decision on a CUDA graph, or what calls did with it: why, and the Python stack that torch names, or "".

    `count` and `seconds` are those of `CudaGraph`. `after` is the compiler's own compile id of the graph that ran before, where
    that is why; the reason ends before it.
    """

    decision: str
    what: str
    reason: str
    stack: str
    count: int | None = None
    seconds: float | None = None
    after: str | None = None


#: The graphs whose inputs a decision may name.
DYNAMO, SOURCE = "dynamo", "source"
CONSUMED = (DYNAMO, *COMPILED)
#: A word, or one that stands alone in parentheses.
_WORD = re.compile(r"\((?P<alone>\w+)\)|\b(?P<word>\w+)\b")


def render(event: Event, id: str) -> Artifact:
    """One line per decision of the frame."""
    data = typed(CudaGraphs, event.data)
    return text_artifact(event, id, "CUDA graphs", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: CudaGraph) -> str:
    """A decision as one line: the graph, what became of it, how often and how long, why, and the user's line."""
    why = f"  # {row.code}" if row.code else ""
    graph = f"{row.graph}: " if row.graph else ""
    times = f" {quantity(row.count, 'time')}" if row.count is not None else ""
    took = f", {row.seconds:.3g} s" if row.seconds is not None else ""
    return f"{graph}{row.what} is {row.decision}{times}{took}: {row.reason}{why}"


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One table per frame, in which inputs have the program's names too; what calls did is at the function's line at least."""
    decided = [event for event in events if event.kind == STAGE.name]
    names = _names(events) if decided else {}
    functions = _functions(events) if decided else {}

    def row_of(event: Event) -> CudaGraph:
        data = with_names(event, names.get((event.frame, event.graph), {}))
        reason = f"{data.reason} {frames.names.get(data.after, data.after)}" if data.after else data.reason
        place = innermost(data.stack) or (functions.get(event.frame) if data.count is not None else None) or NOWHERE
        return CudaGraph(
            graph=event.graph,
            decision=data.decision,
            what=data.what,
            reason=reason,
            count=data.count,
            seconds=data.seconds,
            **place._asdict(),
        )

    yield from one_table(row_of, CudaGraphs, distinct=True)(decided, frames)


def _functions(events: Sequence[Event]) -> dict[str, StackPlace]:
    """The first line of the function that each frame compiles."""
    sources = ((event.frame, typed(SourceText, event.data)) for event in events if event.kind == SOURCE)
    return {
        frame: StackPlace(source.file, source.first_line, source.function, source.text.partition("\n")[0].strip())
        for frame, source in sources
        if not source.inlined and not source.launches
    }


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
    consumes={**dict.fromkeys(CONSUMED, FxGraphText), SOURCE: SourceText},
    gather=gather,
    link=link,
    why_absent="CUDA graphs were not asked for; trace with mode='reduce-overhead'",
    about="Where CUDA graphs are asked for (reduce-overhead, cudagraphs): which graphs are captured, which are not, which are "
    "recorded again, and why.",
)
