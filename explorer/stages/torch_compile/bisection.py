"""What a bisection judged of each kernel and library call, put into the trace by `Trace.with_bisection`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.artifacts import Bisected
from explorer.model.records import typed
from explorer.model.rows import JudgedValue
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import node_lines

#: How a line of the bisection is known to be of a line elsewhere.
BY_NAME = "bisection"
#: What is said of a value, with a sign.
OFF, RIGHT, UNTOLD = "✗ off", "✓ right", "○ not compared"
#: The lines of the text before its rows.
HEAD = 2


def render(event: Event, id: str) -> Artifact:
    """One line a value that was judged, in the order of the launches."""
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
    render=render,
    link=link,
    kinds=kinds,
    summary=summary,
    why_absent="no bisection was put into the trace: t.with_bisection(t.bisect())",
    about="Which kernels and library calls compute something else than their FX nodes, by a bisection.",
)
