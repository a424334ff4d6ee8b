"""The call of torch.compile that a frame came from, and the program's call that began its compile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.model.records import Record, changed, keys_of, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Event, Link, Plain


@record
class CompileCall(Record):
    """The torch.compile call that a frame came from, and the line that called the function.

    `options` are Inductor's, as Python writes their values; `dynamic` is None where it was not given. `cell` and `called_cell`
    name the cells of a notebook that the files stand for, such as "In[5]". `ahead` is True where the program compiled
    the function before it calls it: `file` and `line` are of that compile.
    """

    file: str
    line: int
    code: str
    backend: str
    options: Mapping[str, str]
    called_file: str
    called_line: int
    called_code: str
    dynamic: bool | None = None
    cell: str | None = None
    called_cell: str | None = None
    ahead: bool | None = None


def render(event: Event, id: str) -> Artifact:
    """Two lines: where torch.compile was called and how, and where the function was."""
    data = typed(CompileCall, event.data)
    return text_artifact(event, id, "torch.compile call", "text", text=readable(data), data=data)


def readable(row: CompileCall) -> str:
    """The two places with their code; a call before the recording began is not known."""
    options = "".join(f", {name}={value}" for name, value in row.options.items())
    how = f"backend {row.backend or 'not known'}{options}"
    unknown = "a call before the recording began, or another way to compile than torch.compile"
    compiled = f"{row.cell or row.file}:{row.line}  {row.code}" if row.file else unknown
    not_called = "not called yet: it was compiled ahead of time" if row.ahead else "not known"
    called = f"{row.called_cell or row.called_file}:{row.called_line}  {row.called_code}" if row.called_file else not_called
    return f"compiled by: {compiled}  ({how})\ncalled from: {called}"


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link both places to the user's lines, where the trace shows them."""
    data = typed(CompileCall, artifact.data)
    for number, file, line in ((1, data.file, data.line), (2, data.called_file, data.called_line)):
        if line and (place := source_line(trace, file, line, frame=artifact.frame)):
            yield Link(artifact.id, (number,), place[0], (place[1],), "call stack")


def rows(artifact: Artifact, trace: TraceData) -> Iterable[Mapping[str, Plain]]:
    """The call is one row; a file in it is the cell of the notebook, where it is one."""
    data = typed(CompileCall, artifact.data)
    files = {"file": data.cell or data.file, "called_file": data.called_cell or data.called_file}
    return (changed(data, **files, cell=None, called_cell=None, ahead=None),)


STAGE = Stage(
    name="compile_call",
    title="torch.compile call",
    language="text",
    event=CompileCall,
    artifact=CompileCall,
    render=render,
    rows=rows,
    columns=tuple(key for key in keys_of(CompileCall) if not key.endswith("cell") and key != "ahead"),
    link=link,
    secondary=True,
    about="Which call of torch.compile or of Inductor the frame came from, with backend and options, and which line called it.",
)
