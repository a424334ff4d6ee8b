"""What IREE writes for a target that need not be here: assembly, PTX, AMDGCN, SPIR-V or Metal."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.fx_locations import Places, links_to_nodes
from explorer.stages.iree import assembly, phases


@record
class IreeForTarget(Record):
    """What IREE writes for another target, such as "cuda:sm_80": `form` is what the text is called, such as "PTX"."""

    target: str
    form: str
    language: str
    fx_nodes: Names


@record
class IreeForTargetText(IreeForTarget):
    """What IREE writes for another target."""

    text: str


#: The languages whose instructions follow a .loc.
WITH_LOC = ("asm", "ptx", "amdgcn")


def render(event: Event, id: str) -> Artifact:
    """The text, in the language of its target."""
    data = typed(IreeForTargetText, event.data)
    return text_artifact(event, id, f"{data.form} for {data.target} · IREE", data.language)


def places(artifact: Artifact) -> Places:
    """The locations that the text states; Metal's has none."""
    if artifact.language == "mlir":
        return phases.places(artifact)
    return assembly.chains(artifact.text) if artifact.language in WITH_LOC else ()


def summary(artifacts: Sequence[Artifact]) -> str:
    """The targets."""
    return ", ".join(dict.fromkeys(typed(IreeForTarget, a.data).target for a in artifacts))


STAGE = Stage(
    name="iree_target",
    title="For other targets · IREE",
    language="text",
    event=IreeForTargetText,
    artifact=IreeForTarget,
    backend="iree",
    render=render,
    summary=summary,
    link=links_to_nodes(places, "location"),
    why_absent="no target was asked for; trace with options={'targets': ['cuda:sm_80', 'vulkan', 'aarch64']}",
    about="What IREE's compiler writes of the same graph for a target that you name, which need not be here; nothing of it ran.",
)
