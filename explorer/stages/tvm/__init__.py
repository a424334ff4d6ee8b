"""The stages of TVM, in its compiler's order."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.tvm import machine_code, modules, passes, target, vm

STAGES: tuple[Stage, ...] = (*modules.STAGES, *passes.STAGES, vm.STAGE, *machine_code.STAGES, target.STAGE)

__all__ = ["STAGES"]
