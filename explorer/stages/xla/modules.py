"""The module in HLO: before XLA's passes, and after them, with its fusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from explorer.model.shared import Nothing, Text
from explorer.model.stage import KernelPlace, Stage, line_count, text_artifact
from explorer.model.values import Artifact, Event
from explorer.model.wording import quantity
from explorer.stages.xla import hlo


def render(event: Event, id: str, *, title: str) -> Artifact:
    """The module's text."""
    return text_artifact(event, id, title, "hlo")


def kernels(artifact: Artifact) -> Iterator[KernelPlace]:
    """Return each instruction of the entry that runs a kernel: its own line, and the lines of the computation fused into it."""
    for instruction, inside in hlo.kernels(artifact.lines):
        yield KernelPlace(instruction.name, (*inside, instruction.line))


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many kernels there are, and how many of them are fusions."""
    found = [instruction for artifact in artifacts for instruction, _ in hlo.kernels(artifact.lines)]
    fusions = sum(each.operation == "fusion" for each in found)
    return f"{quantity(len(found), 'kernel')}, {quantity(fusions, 'fusion')}"


BEFORE = Stage(
    name="xla_before",
    title="HLO before passes · XLA",
    language="hlo",
    event=Text,
    artifact=Nothing,
    backend="xla",
    render=partial(render, title="HLO before passes · XLA"),
    link=hlo.link,
    kinds=hlo.kinds,
    summary=line_count,
    about="The module in HLO, XLA's own IR, before its first pass.",
)
OPTIMIZED = Stage(
    name="xla_optimized",
    title="Optimised HLO · XLA",
    language="hlo",
    event=Text,
    artifact=Nothing,
    backend="xla",
    render=partial(render, title="Optimised HLO · XLA"),
    link=hlo.link,
    kinds=hlo.kinds,
    kernels=kernels,
    summary=summary,
    opens_at=4,
    made_from=("xla_before",),
    about="The module after XLA's passes, as it is compiled: an instruction of the entry runs one kernel, often a fusion.",
)
