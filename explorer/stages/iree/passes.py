"""Every pass of IREE that changed the module, in order: its difference, and on request the whole module behind it."""

from __future__ import annotations

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Passes, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.changing_passes import one_row, summary
from explorer.stages.fx_locations import Places, links_to_nodes
from explorer.stages.iree import phases


@record
class IreePass(Record):
    """A pass of IREE's that changed the module: `operation` is what it ran on, such as "func.func @main".

    `number` counts from 0 the passes that IREE says changed something. `before` and `after` are the lines of the whole module.
    `places` has for each line of the difference the places (file, line) that it comes from.
    """

    number: int
    name: str
    options: str
    operation: str
    before: int
    after: int
    fx_nodes: Names
    places: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


@record
class IreeAfterPass(Record):
    """IREE's whole module after a pass, `number` among the passes that changed something; `before` is its text before it."""

    number: int
    name: str
    before: str
    fx_nodes: Names


@record
class IreePassText(IreePass):
    """A pass of IREE's, and the difference that it made."""

    text: str


@record
class IreeAfterPassText(IreeAfterPass):
    """IREE's whole module after a pass, with its locations."""

    text: str


def render(event: Event, id: str) -> Artifact:
    """The difference of the module's texts."""
    data = typed(IreePass, {key: value for key, value in event.data.items() if key != "text"})
    title = f"{data.name} · {data.operation}: {data.before} → {data.after} lines"
    return text_artifact(event, id, title, "diff")


def places(artifact: Artifact) -> Places:
    """The places that were read when the texts were compared."""
    return typed(IreePass, artifact.data).places


def render_after(event: Event, id: str) -> Artifact:
    """The module after the pass."""
    return text_artifact(event, id, f"After {event.data['name']} · IREE", "mlir")


PASS = Stage(
    name="iree_pass",
    title="Passes · IREE",
    language="diff",
    event=IreePassText,
    artifact=IreePass,
    backend="iree",
    render=render,
    rows=one_row(IreePass, "difference"),
    summary=summary,
    passes=Passes("IREE", "iree_after_pass"),
    link=links_to_nodes(places, "loc"),
    why_absent="it was not asked for: options={'passes': True}",
    about="One pass of IREE that changed the module, as the difference of its texts; a value that is only renumbered is none.",
)
AFTER_PASS = Stage(
    name="iree_after_pass",
    title="Modules after passes · IREE",
    language="mlir",
    event=IreeAfterPassText,
    artifact=IreeAfterPass,
    backend="iree",
    render=render_after,
    rows=one_row(IreeAfterPass, "after"),
    summary=summary,
    link=links_to_nodes(phases.places, "loc"),
    kinds=phases.kinds,
    why_absent="no pass was named: options={'after_passes': ['canonicalize', 'iree-dispatch-creation-*']}",
    about="The whole module behind a pass of IREE that changed it, for the passes that you name.",
)
STAGES = (PASS, AFTER_PASS)
