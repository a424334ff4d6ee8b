"""Every pass of TVM that changed a function, in order: its difference, and on request all functions behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.artifacts import TvmAfterPass, TvmPass
from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.tvm import modules
from explorer.stages.tvm.notes import link_notes


def render(event: Event, id: str) -> Artifact:
    """The difference of the functions' texts."""
    data = typed(TvmPass, {key: value for key, value in event.data.items() if key != "text"})
    title = f"{data.name} · {data.level}: {data.before} → {data.after} lines"
    return text_artifact(event, id, title, "diff", seconds=data.seconds)


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many passes changed something."""
    return f"{len(artifacts)} passes"


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The pass is one row, with the lines of the functions that it changed, before and after it."""
    data = typed(TvmPass, artifact.data)
    yield {
        "graph": artifact.graph,
        "number": data.number,
        "name": data.name,
        "level": data.level,
        "functions": data.functions,
        "before": data.before,
        "after": data.after,
        "seconds": data.seconds,
        "difference": artifact.text,
    }


def render_after(event: Event, id: str) -> Artifact:
    """All functions behind the pass."""
    return text_artifact(event, id, f"After {event.data['name']} · TVM", "python")


def rows_after(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The pass is one row, with the text of all functions before and after it."""
    data = typed(TvmAfterPass, artifact.data)
    yield {
        "graph": artifact.graph,
        "number": data.number,
        "name": data.name,
        "before": data.before,
        "after": artifact.text,
    }


PASS = Stage(
    name="tvm_pass",
    title="Passes · TVM",
    language="diff",
    backend="tvm",
    render=render,
    rows=rows,
    summary=summary,
    link=link_notes,
    why_absent="no pass changed a function",
    about="One pass of TVM that changed functions of Relax or of TIR, as the difference of their texts; long lines are cut.",
)
AFTER_PASS = Stage(
    name="tvm_after_pass",
    title="Functions after passes · TVM",
    language="python",
    backend="tvm",
    render=render_after,
    rows=rows_after,
    summary=summary,
    link=link_notes,
    kinds=modules.kinds,
    why_absent="no pass was named: options={'after_passes': ['FuseOps', 'tirx.*']}",
    about="All functions of Relax and of TIR behind a pass of TVM that changed one, for the passes that you name.",
)
STAGES = (PASS, AFTER_PASS)
