"""Every pass of XLA that changed the module, in order: the difference that it made."""

from __future__ import annotations

from explorer.model.records import Record, record, typed
from explorer.model.stage import Passes, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.changing_passes import one_row, summary
from explorer.stages.xla import hlo


@record
class XlaPass(Record):
    """A pass of XLA's that changed the module, in one of XLA's pipelines.

    `number` is XLA's own, in order. `before` and `after` are the lines of the module.
    """

    number: int
    pipeline: str
    name: str
    before: int
    after: int


@record
class XlaPassText(XlaPass):
    """A pass of XLA's, and the difference of the module's texts."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The difference of the module's texts."""
    data = typed(XlaPassText, event.data)
    return text_artifact(event, id, f"{data.name} · {data.pipeline}: {data.before} → {data.after} lines", "diff")


STAGE = Stage(
    name="xla_pass",
    title="Passes · XLA",
    language="diff",
    event=XlaPassText,
    artifact=XlaPass,
    backend="xla",
    render=render,
    rows=one_row(XlaPass, "difference"),
    summary=summary,
    passes=Passes("XLA"),
    link=hlo.link,
    why_absent="no pass changed the module",
    about="One pass of XLA that changed the module, as the difference of its HLO before and after it.",
)
