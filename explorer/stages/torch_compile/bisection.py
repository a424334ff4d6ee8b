"""What a bisection judged of each kernel and library call, put into the trace by `Trace.attach`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import node_lines


@record
class JudgedValue(Record):
    """A value that a launch wrote, and how a bisection judged it: `equal` is None where it was not compared, `note` says why.

    `launch` is the number of the launch in the call, from 1, and `line` the line of the output code. `parameter` is the kernel's
    name of the value, `node` its FX node, `nodes` those inside the launch that lead to it, and `operations` the scheduler's nodes
    that write it.
    """

    launch: int
    kernel: str
    frame: str
    graph: str
    line: int
    parameter: str
    node: str
    equal: bool | None
    note: str
    operations: Names
    nodes: Names


@record
class Bisected(Record):
    """What a bisection found: in a sentence, what brings it about, and every value that it judged.

    `first` is the number of the first launch that is off, 0 where none is.
    """

    summary: str
    cause: str
    first: int
    rows: tuple[JudgedValue, ...]


#: How a line of the bisection is known to be of a line elsewhere.
BY_NAME = "bisection"
#: What is said of a value, with a sign.
OFF, RIGHT, UNTOLD = "✗ off", "✓ right", "○ not compared"
#: The lines of the text before its rows.
HEAD = 2


def render(event: Event, id: str) -> Artifact:
    """One line per value that was judged, in the order of the launches."""
    data = typed(Bisected, event.data)
    text = "\n".join([data.summary, data.cause or "no cause was looked for", *map(readable, data.rows)])
    return text_artifact(event, id, "Bisection", "text", text=text, data=data)


def readable(row: JudgedValue) -> str:
    """One row as a line."""
    what = f"{row.kernel} {row.parameter}".rstrip()
    note = f": {row.note}" if row.note else ""
    return f"{said(row):15} launch {row.launch:3}  {what}{f' ({row.node})' if row.node else ''}{note}"


def said(row: JudgedValue) -> str:
    """The verdict on a value, with its sign."""
    return UNTOLD if row.equal is None else RIGHT if row.equal else OFF


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each row to its launch in the output code, and to its FX node."""
    for number, row in enumerate(typed(Bisected, artifact.data).rows, HEAD + 1):
        for code in trace.find("output_code", row.frame, row.graph)[-1:]:
            yield Link(artifact.id, (number,), code.id, (row.line,), BY_NAME)
        for graph in trace.find("post_grad", row.frame, row.graph)[-1:]:
            if line := node_lines(graph).get(row.node):
                yield Link(artifact.id, (number,), graph.id, (line,), BY_NAME)


def kinds(artifact: Artifact) -> Sequence[str]:
    """No line computes."""
    return ["verdicts"] * len(artifact.lines)


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many values are off, right, and not compared."""
    rows = typed(Bisected, artifacts[0].data).rows
    counts = [(word, sum(said(row) == word for row in rows)) for word in (OFF, RIGHT, UNTOLD)]
    return ", ".join(f"{count} {word[2:]}" for word, count in counts if count)


STAGE = Stage(
    name="bisection",
    title="Bisection",
    language="text",
    event=Bisected,
    artifact=Bisected,
    render=render,
    link=link,
    kinds=kinds,
    summary=summary,
    why_absent="no bisection was put into the trace: t.attach(t.bisect())",
    about="Which kernels and library calls compute something else than their FX nodes, by a bisection.",
)
