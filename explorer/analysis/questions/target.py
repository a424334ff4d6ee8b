"""What a trace was compiled for, read once from what it says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.model.trace_data import TraceData
from explorer.reference.gpus.figures import NAMED, Target

#: The targets that name a kind of attached device. "auto" is a recording's, which leaves the device to each call.
AUTO, CPU, CUDA, XPU = "auto", "cpu", "cuda", "xpu"


@dataclass(frozen=True)
class CompiledFor:
    """The device that a trace was compiled for: its name as `target=` takes it, "" where the trace does not say."""

    name: str

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU."""
        return self.name == CPU

    @property
    def is_attached_gpu(self) -> bool:
        """Whether it is a GPU of the machine that made the trace."""
        return self.name in (CUDA, XPU)

    @property
    def is_absent_gpu(self) -> bool:
        """Whether it is a GPU that need not be attached: a named one, or one that the caller described."""
        return self.name not in ("", AUTO, CPU, CUDA, XPU)

    @property
    def named_gpu(self) -> Target | None:
        """The figures of a named GPU; None for another device."""
        return next((target for target in NAMED if target.name == self.name), None)

    def __str__(self) -> str:
        return "the device of each call" if self.name == AUTO else self.name


def compiled_for(trace: TraceData) -> CompiledFor:
    """Read what a trace was compiled for."""
    return CompiledFor(str(trace.meta.get("target") or ""))


def gpu_of(trace: TraceData) -> Target | None:
    """Find the GPU that a trace was compiled for; None if its figures are unknown, as for the CPU.

    Only the process that made the trace knows the figures of an attached GPU, and of one that the caller described.
    """
    stated = trace.target
    gpu = stated if isinstance(stated, Target) else compiled_for(trace).named_gpu
    return gpu if gpu is not None and gpu.bandwidth > 0 else None
