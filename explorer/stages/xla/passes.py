"""Every pass of XLA that changed the module, in order: the difference that it made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.artifacts import XlaPass
from explorer.model.events import XlaPassText
from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.stages.xla import hlo


def render(event: Event, id: str) -> Artifact:
    """The difference of the module's texts."""
    data = typed(XlaPassText, event.data)
    return text_artifact(event, id, f"{data.name} · {data.pipeline}: {data.before} → {data.after} lines", "diff")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many passes changed something."""
    return f"{len(artifacts)} passes"


def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """The pass is one row, with the lines of the module before and after it."""
    data = typed(XlaPass, artifact.data)
    yield {
        "graph": artifact.graph,
        "number": data.number,
        "pipeline": data.pipeline,
        "name": data.name,
        "before": data.before,
        "after": data.after,
        "difference": artifact.text,
    }


STAGE = Stage(
    name="xla_pass",
    title="Passes · XLA",
    language="diff",
    backend="xla",
    render=render,
    rows=rows,
    summary=summary,
    link=hlo.link,
    why_absent="no pass changed the module",
    about="One pass of XLA that changed the module, as the difference of its HLO before and after it.",
)
