"""XLA as a Compiler: what it is called, whether it is here, what it emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from explorer.capture.compilers.compiler import Compiler
from explorer.model.stage import Emit
from explorer.stages.xla import STAGES as XLA_STAGES


def backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile that compiles by XLA; what needs XLA is imported here."""
    from explorer.capture.compilers.xla.backend import xla_backend

    return xla_backend(emit, options)


XLA = Compiler(
    name="xla",
    title="XLA through StableHLO",
    about="a compiler for CPUs, GPUs and TPUs; torch-mlir writes its input, and jaxlib has it for this CPU, without PyTorch/XLA",
    extra="xla",
    modules=("torch_mlir", "jaxlib"),
    backend=backend,
    kinds=("forward", "backward", "execution", *(stage.name for stage in XLA_STAGES)),
    options=MappingProxyType({"flags": "XLA's own flags, as XLA_FLAGS has them: '--xla_backend_optimization_level=0'"}),
)
