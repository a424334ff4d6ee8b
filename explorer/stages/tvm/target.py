"""What TVM writes for a target that need not be here: assembly of another CPU, or the source of a GPU's kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.iree import assembly
from explorer.stages.tvm.notes import links_to


@record
class TvmForTarget(Record):
    """What TVM writes for another target: `form` is what the text is called.

    `nodes` has the FX nodes of each line of the module that was compiled; the locations of assembly name these lines.
    """

    target: str
    form: str
    language: str
    nodes: tuple[tuple[int, Names], ...]


@record
class TvmForTargetText(TvmForTarget):
    """What TVM writes for another target."""

    text: str


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
    event=TvmForTargetText,
    artifact=TvmForTarget,
    backend="tvm",
    render=render,
    summary=summary,
    link=link,
    why_absent="no target was asked for; trace with options={'targets': ['cuda', 'webgpu', 'aarch64']}",
    about="What TVM's compiler writes of the same graph for a target that you name, which need not be here; nothing of it ran.",
)
