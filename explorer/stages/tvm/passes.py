"""Every pass of TVM that changed a function, in order: its difference, and on request all functions behind it."""

from __future__ import annotations

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Passes, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.changing_passes import one_row, summary
from explorer.stages.tvm import modules
from explorer.stages.tvm.notes import link_notes


@record
class TvmPass(Record):
    """A pass of TVM that changed functions; its `level` says whether of Relax, of TIR, or of both.

    `number` counts all passes from 0. `before` and `after` are the lines of the functions that it changed.
    """

    number: int
    name: str
    level: str
    functions: Names
    before: int
    after: int
    seconds: float


@record
class TvmAfterPass(Record):
    """All functions of TVM's module after a pass, `number` among all passes; `before` is their text before it."""

    number: int
    name: str
    before: str


@record
class TvmPassText(TvmPass):
    """A pass of TVM's, and the difference of the texts of the functions that it changed."""

    text: str


@record
class TvmAfterPassText(TvmAfterPass):
    """All functions of TVM's module after a pass, as TVMScript."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The difference of the functions' texts."""
    data = typed(TvmPass, {key: value for key, value in event.data.items() if key != "text"})
    title = f"{data.name} · {data.level}: {data.before} → {data.after} lines"
    return text_artifact(event, id, title, "diff", seconds=data.seconds)


def render_after(event: Event, id: str) -> Artifact:
    """All functions after the pass."""
    return text_artifact(event, id, f"After {event.data['name']} · TVM", "python")


PASS = Stage(
    name="tvm_pass",
    title="Passes · TVM",
    language="diff",
    event=TvmPassText,
    artifact=TvmPass,
    backend="tvm",
    render=render,
    rows=one_row(TvmPass, "difference"),
    summary=summary,
    passes=Passes("TVM", "tvm_after_pass"),
    link=link_notes,
    why_absent="no pass changed a function",
    about="One pass of TVM that changed functions of Relax or of TIR, as the difference of their texts; long lines are cut.",
)
AFTER_PASS = Stage(
    name="tvm_after_pass",
    title="Functions after passes · TVM",
    language="python",
    event=TvmAfterPassText,
    artifact=TvmAfterPass,
    backend="tvm",
    render=render_after,
    rows=one_row(TvmAfterPass, "after"),
    summary=summary,
    link=link_notes,
    kinds=modules.kinds,
    why_absent="no pass was named: options={'after_passes': ['FuseOps', 'tirx.*']}",
    about="All functions of Relax and of TIR behind a pass of TVM that changed one, for the passes that you name.",
)
STAGES = (PASS, AFTER_PASS)
