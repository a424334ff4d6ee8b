"""The forms of a kernel in CUDA C++, made on demand by nvcc: PTX and SASS.

The device code is in CUTLASS's headers. The PTX names lines of these, and no line of the kernel's own source, so that no line is
linked: `owners` of the kernel says which FX nodes it computes.
"""

from __future__ import annotations

from functools import partial

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import instruction_kinds
from explorer.stages.triton import sass


@record
class CudaForm(Record):
    """A form of a kernel in CUDA C++, and the GPU that it is for."""

    name: str
    target: str


@record
class CudaFormText(CudaForm):
    """A form of a kernel in CUDA C++, as nvcc or nvdisasm writes it."""

    text: str


def render(event: Event, id: str, *, title: str, language: str) -> Artifact:
    """The text, in the artifact of the kernel."""
    data = typed(CudaFormText, event.data)
    return text_artifact(event, id, f"{title} of {data.name}", language, kernel=data.name)


PTX = Stage(
    name="cuda_ptx",
    title="PTX · CUDA C++",
    language="ptx",
    event=CudaFormText,
    artifact=CudaForm,
    render=partial(render, title="PTX", language="ptx"),
    kinds=instruction_kinds,
    per_kernel=True,
    backend="inductor",
    on_demand_of="cuda",
    about="The virtual assembly that nvcc makes of a CUTLASS template; its lines come from CUTLASS's headers.",
)
SASS = Stage(
    name="cuda_sass",
    title="SASS · CUDA C++",
    language="sass",
    event=CudaFormText,
    artifact=CudaForm,
    render=partial(render, title="SASS", language="sass"),
    kinds=sass.kinds,
    per_kernel=True,
    backend="inductor",
    on_demand_of="cuda",
    about="The instructions that an NVIDIA GPU runs for a CUTLASS template, in the order they are issued.",
)
