"""What TVM writes for a target that need not be here: assembly of another CPU, or the source of a GPU's kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.artifacts import TvmForTarget
from explorer.model.events import TvmForTargetText
from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.iree import assembly
from explorer.stages.tvm.notes import links_to


def render(event: Event, id: str) -> Artifact:
    """The text, in the language of its target."""
    data = typed(TvmForTargetText, event.data)
    return text_artifact(event, id, f"{data.form} for {data.target} · TVM", data.language)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each instruction to the FX nodes of the module's line that its location names; sources for GPUs state no location."""
    data = typed(TvmForTarget, artifact.data)
    if data.language != "asm":
        return
    nodes = dict(data.nodes)
    places = ((number, chain[0][1]) for number, chain in assembly.chains(artifact.text))
    yield from links_to(artifact, trace, ((number, nodes.get(line, ())) for number, line in places), ".loc")


def summary(artifacts: Sequence[Artifact]) -> str:
    """The targets."""
    return ", ".join(dict.fromkeys(typed(TvmForTarget, a.data).target for a in artifacts))


STAGE = Stage(
    name="tvm_target",
    title="For other targets · TVM",
    language="text",
    backend="tvm",
    render=render,
    summary=summary,
    link=link,
    why_absent="no target was asked for; trace with options={'targets': ['cuda', 'webgpu', 'aarch64']}",
    about="What TVM's compiler writes of the same graph for a target that you name, which need not be here; nothing of it ran.",
)
