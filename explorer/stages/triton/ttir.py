"""The Triton IR of each Triton kernel."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import mlir_kinds
from explorer.stages.triton import origins
from explorer.stages.triton.origins import KernelForm, KernelFormText


def render(event: Event, id: str) -> Artifact:
    """The kernel's TTIR."""
    return origins.kernel_artifact(event, id, "TTIR", "mlir")


STAGE = Stage(
    name="ttir",
    title="Triton IR",
    language="mlir",
    event=KernelFormText,
    artifact=KernelForm,
    render=render,
    per_kernel=True,
    kinds=mlir_kinds,
    link=origins.link_mlir,
    backend="inductor",
    about="Triton's own operations on whole blocks of values, before anything is decided about threads.",
)
