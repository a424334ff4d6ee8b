"""Graph breaks: where Dynamo had to stop, why, and what it suggests."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from explorer.model.records import Record, changed, keys_of, record, typed
from explorer.model.shared import Names, Text
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Event, Link, Plain, text_lines
from explorer.stages.dynamo.same_text import same_text
from explorer.stages.fx_graph import short


@record
class GraphBreak(Record):
    """Why a graph ended, what Dynamo suggests, and the user's line; `cell` as in `Source`."""

    reason: str
    explanation: str
    hints: Names
    file: str
    line: int
    cell: str | None = None


@record
class GraphBreakText(Text):
    """A graph break's message; `cell` names the cell of a notebook that the user's file stands for."""

    cell: str | None = None


_FILE = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+?)\s*$', re.MULTILINE)
_AT = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
#: A break inside a call says first what was under way, up to a colon, and then, after an empty line, why it broke.
_REASON = re.compile(r"Graph Break Reason: (?:.*:[ \t]*\n\s*\n)*[ \t]*(?P<reason>.*)")
#: A hint may go on in further lines, which are indented more than its first, with empty ones among them.
_REST = r"(?:(?:\n[ \t]*)*\n(?P=indent)[ \t]+\S.*)*"
_HINT = re.compile(rf"^(?P<indent>[ \t]*)Hint: (?P<hint>.*{_REST})", re.MULTILINE)
_EXPLANATION = re.compile(r"^\s*Explanation: (?P<text>.*)", re.MULTILINE)


def facts(text: str) -> GraphBreak:
    """Reason, explanation, hints, and the user's file and line of one graph break, as Dynamo words them."""
    at, places = _AT.search(text), list(_FILE.finditer(text))
    place = at or (places[-1] if places else None)
    reason, explanation = _REASON.search(text), _EXPLANATION.search(text)
    return GraphBreak(
        reason=reason["reason"].strip() if reason else text_lines(text.strip())[0] if text.strip() else "",
        explanation=explanation["text"].strip() if explanation else "",
        hints=tuple(dict.fromkeys(_dedented(m["hint"]) for m in _HINT.finditer(text))),  # Dynamo repeats them in its traceback
        file=place["file"] if place else "",
        line=int(place["line"]) if place else 0,
    )


def code_at(text: str, file: str, line: int) -> str:
    """Return the code of a line as the traceback in Dynamo's message has it, "" where it has not."""
    found = re.search(rf'^ *File "{re.escape(file)}", line {line}, in .*\n +(?P<code>\S.*)$', text, re.MULTILINE)
    return found["code"].strip() if found else ""


def _dedented(text: str) -> str:
    """Take away what all lines but the first are indented by."""
    first, _, rest = text.strip().partition("\n")
    return f"{first.strip()}\n{textwrap.dedent(rest)}" if rest else first


def render(event: Event, id: str) -> Artifact:
    """Dynamo's own message, without Python's empty traceback at its end."""
    told = typed(GraphBreakText, event.data)
    text = same_text(told.text.removesuffix("NoneType: None\n").strip())
    data = changed(facts(text), cell=told.cell)
    title = f"Graph break at {data.cell or short(data.file)}:{data.line}: {data.reason}"
    return text_artifact(event, id, title, "text", text=text, data=data)


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link the break to the user's line that caused it."""
    data = typed(GraphBreak, artifact.data)
    place = source_line(trace, data.file, data.line, frame=artifact.frame)
    if place:
        yield Link(artifact.id, (1,), place[0], (place[1],), "graph break message")


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Keep each break of a frame once: Dynamo reports it again when it restarts the frame."""
    seen: set[tuple[str, str]] = set()
    for event in events:
        key = (event.frame, typed(GraphBreakText, event.data).text)
        if key not in seen:
            seen.add(key)
            yield event


def summary(artifacts: Sequence[Artifact]) -> str:
    """The reason of the first break."""
    return typed(GraphBreak, artifacts[0].data).reason


def rows(artifact: Artifact, trace: TraceData) -> Iterable[Mapping[str, Plain]]:
    """The break is one row."""
    return (row_of(typed(GraphBreak, artifact.data)),)


def row_of(data: GraphBreak) -> GraphBreak:
    """The break as a row: its file is the cell of the notebook, where it is one."""
    return changed(data, file=data.cell or data.file, cell=None)


#: The keys of a row.
COLUMNS = tuple(key for key in keys_of(GraphBreak) if key != "cell")


STAGE = Stage(
    name="graph_break",
    title="Graph break",
    language="text",
    event=GraphBreakText,
    artifact=GraphBreak,
    render=render,
    rows=rows,
    columns=COLUMNS,
    summary=summary,
    gather=gather,
    link=link,
    why_absent="no graph ended early",
    about="Something Dynamo cannot put in a graph: it compiles what came before, runs this in Python, and goes on after it.",
)
