"""The forms of a kernel in CUDA C++, which nvcc makes of the kernel's source for the trace's GPU."""

from __future__ import annotations

from explorer.capture.ladder.nvcc import ptx_and_cubin
from explorer.capture.ladder.triton_tools import disassemble, no_sass
from explorer.errors import LiveError
from explorer.model.values import Artifact
from explorer.reference.gpus.figures import Target
from explorer.stages.cuda import PTX, SASS
from explorer.stages.cuda.forms import CudaFormText


def forms(kernel: Artifact, stage: str, target: Target | None) -> dict[str, Artifact]:
    """The PTX of a kernel, and its SASS where nvdisasm reads it; LiveError with the reason where `stage` cannot be made."""
    if target is None:
        raise LiveError(f"{kernel.kernel} is for a GPU that this trace does not name")
    if stage == SASS.name and (why := no_sass(target)):
        raise LiveError(f"there is no {stage} of {kernel.kernel}: {why}")
    ptx, cubin = ptx_and_cubin(kernel.kernel, kernel.text, target)
    texts = {PTX: ptx, **({} if no_sass(target) else {SASS: disassemble(cubin)})}
    return {
        of.name: of.artifact_of_kernel(kernel, CudaFormText(name=kernel.kernel, target=target.name, text=text))
        for of, text in texts.items()
    }
