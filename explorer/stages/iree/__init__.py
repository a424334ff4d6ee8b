"""The stages of IREE, in its compiler's order."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.iree import assembly, llvm, passes, phases, target, vm_module, vmfb

STAGES: tuple[Stage, ...] = (
    *phases.STAGES,
    *passes.STAGES,
    llvm.STAGE,
    assembly.STAGE,
    vm_module.STAGE,
    vmfb.STAGE,
    target.STAGE,
)

__all__ = ["STAGES"]
