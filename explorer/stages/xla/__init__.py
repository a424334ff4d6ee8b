"""The stages of XLA through StableHLO, in its compiler's order."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.xla import buffers, cost, machine_code, mlir, modules, passes

STAGES: tuple[Stage, ...] = (
    *mlir.STAGES,
    modules.BEFORE,
    passes.STAGE,
    modules.OPTIMIZED,
    buffers.STAGE,
    cost.STAGE,
    *machine_code.STAGES,
)

__all__ = ["STAGES"]
