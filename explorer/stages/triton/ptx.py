"""The PTX of each Triton kernel."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import instruction_kinds
from explorer.stages.triton import origins
from explorer.stages.triton.origins import KernelForm, KernelFormText


def render(event: Event, id: str) -> Artifact:
    """The kernel's PTX."""
    return origins.kernel_artifact(event, id, "PTX", "ptx")


STAGE = Stage(
    name="ptx",
    title="PTX",
    language="ptx",
    event=KernelFormText,
    artifact=KernelForm,
    render=render,
    per_kernel=True,
    kinds=instruction_kinds,
    link=origins.assembly_links("ptx .loc"),
    backend="inductor",
    about="NVIDIA's virtual assembly, with any number of registers; ptxas makes machine code of it.",
)
