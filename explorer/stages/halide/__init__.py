"""What Halide makes of a kernel that Inductor writes in Halide."""

from __future__ import annotations

from explorer.stages.halide.forms import ASSEMBLY, LLVM, SCHEDULE, STMT

#: The names of the stages, in Halide's order.
HALIDE_FORMS = (SCHEDULE.name, STMT.name, LLVM.name, ASSEMBLY.name)

__all__ = ["ASSEMBLY", "HALIDE_FORMS", "LLVM", "SCHEDULE", "STMT"]
