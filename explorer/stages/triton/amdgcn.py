"""The AMD machine code of each Triton kernel, as LLVM writes it."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import instruction_kinds
from explorer.stages.triton import origins
from explorer.stages.triton.instruction_mix import amdgcn_mix
from explorer.stages.triton.origins import KernelForm, KernelFormText


def render(event: Event, id: str) -> Artifact:
    """The kernel's AMDGCN, with the number of its instructions of each class as `mix`."""
    return origins.kernel_artifact(event, id, "AMDGCN", "amdgcn", amdgcn_mix)


STAGE = Stage(
    name="amdgcn",
    title="AMDGCN",
    language="amdgcn",
    event=KernelFormText,
    artifact=KernelForm,
    render=render,
    per_kernel=True,
    kinds=instruction_kinds,
    link=origins.assembly_links("amdgcn .loc"),
    backend="inductor",
    about="The instructions an AMD GPU runs: vector registers, scalar registers, and explicit waits.",
)
