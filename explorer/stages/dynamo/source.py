"""The Python source of each compiled frame, of the resume functions, and of the functions inlined into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.records import record, typed
from explorer.model.shared import Source
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.fx_graph import short


@record
class SourceText(Source):
    """The source of a function."""

    text: str


#: Why lines are shown by their numbers only.
_UNSEEN = {
    "changed": ", changed since it was compiled",
    "none": ", no source is kept",
    "quoted": ", the lines that a log quotes",
    "today": ", as the file is now",
}
#: A function inside another one, and a resume function, show lines again that stand in the function around them too.
SAME_LINE = "same line of the file"


def render(event: Event, id: str) -> Artifact:
    """The source, titled by its function and what became of it."""
    data = typed(SourceText, event.data)
    if data.launches:
        state = ", outside of torch.compile"
    elif data.inlined:
        state = ", inlined"
    elif not data.compiled:
        state = ", not compiled: this branch has not run" if data.resume else ", not compiled"
    else:
        state = ""
    state += _UNSEEN.get(data.unseen or "", "")
    title = f"{data.qualname} ({data.cell or short(data.file)}:{data.first_line}{state})"
    return text_artifact(event, id, title, "python")


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each line to the same line in the enclosing function's text, in each compile of that.

    Graphs link to the innermost text that has the line; these links lead on to the function that the user wrote.
    """
    first = typed(Source, artifact.data).first_line
    for around in enclosing(artifact, trace):
        offset = first - typed(Source, around.data).first_line
        for number, text in enumerate(artifact.lines, 1):
            if text.strip() and around.lines[number + offset - 1].strip() == text.strip():
                yield Link(artifact.id, (number,), around.id, (number + offset,), SAME_LINE)


def enclosing(artifact: Artifact, trace: TraceData) -> list[Artifact]:
    """The shortest texts that have all lines of a source's text and more; several where a function was compiled again."""
    lines, file = _lines_in_file(artifact), typed(Source, artifact.data).file
    larger = [
        other for other in trace.find("source") if typed(Source, other.data).file == file and _holds(_lines_in_file(other), lines)
    ]
    shortest = min((len(other.lines) for other in larger), default=0)
    return [other for other in larger if len(other.lines) == shortest]


def _lines_in_file(source: Artifact) -> range:
    first = typed(Source, source.data).first_line
    return range(first, first + len(source.lines))


def _holds(whole: range, part: range) -> bool:
    return len(part) > 0 and len(whole) > len(part) and whole.start <= part.start and part.stop <= whole.stop


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Each function that was inlined once, and not where a frame of its own shows it."""
    functions = [(event, typed(SourceText, event.data)) for event in events]
    shown = {(data.file, data.first_line) for _, data in functions if not data.inlined}
    for event, data in functions:
        place = data.file, data.first_line
        if not (data.inlined and place in shown):
            shown.add(place)
            yield event


STAGE = Stage(
    name="source",
    title="Python source",
    language="python",
    event=SourceText,
    artifact=Source,
    render=render,
    gather=gather,
    link=link,
    about="The function as you wrote it. Dynamo compiles one frame (one call of one function) at a time.",
)
