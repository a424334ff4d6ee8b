"""The TritonGPU IR of each Triton kernel."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import mlir_kinds
from explorer.stages.triton import origins
from explorer.stages.triton.origins import KernelForm, KernelFormText


def render(event: Event, id: str) -> Artifact:
    """The kernel's TTGIR."""
    return origins.kernel_artifact(event, id, "TTGIR", "mlir")


STAGE = Stage(
    name="ttgir",
    title="TritonGPU IR",
    language="mlir",
    event=KernelFormText,
    artifact=KernelForm,
    render=render,
    per_kernel=True,
    kinds=mlir_kinds,
    link=origins.link_mlir,
    backend="inductor",
    about="The same with a layout for every block: which thread holds what, what goes through shared memory, what is pipelined.",
)
