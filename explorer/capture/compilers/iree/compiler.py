"""IREE as a Compiler: what it is called, whether it is here, what it emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from explorer.capture.compilers.compiler import Compiler
from explorer.model.stage import Emit
from explorer.stages.iree import STAGES as IREE_STAGES


def backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile that compiles by IREE; what needs IREE is imported here."""
    from explorer.capture.compilers.iree.backend import iree_backend

    return iree_backend(emit, options)


def watch(emit: Emit) -> AbstractContextManager[None]:
    """The probe for IREE Turbine's own backends."""
    from explorer.capture.compilers.iree.turbine import turbine

    return turbine(emit)


IREE = Compiler(
    name="iree",
    title="IREE",
    about="an MLIR compiler for CPUs and GPUs, which makes one portable module of a whole graph",
    extra="iree",
    modules=("iree.compiler", "iree.runtime", "iree.turbine"),
    backend=backend,
    kinds=("forward", "backward", "execution", *(stage.name for stage in IREE_STAGES)),
    options=MappingProxyType(
        {
            "targets": "targets that need not be here, whose text is wanted too: 'cuda:sm_80', 'vulkan', 'aarch64'",
            "passes": "True for each pass that changed the module, as the difference that it made; it takes another compile",
            "after_passes": "names of passes, '*' for any characters, whose whole module is wanted too: 'iree-stream-*'",
            "flags": "flags of iree-compile, as it lists them itself, behind explorer's own",
        }
    ),
    registered=("turbine_cpu", "iree_turbine"),
    watch=watch,
)
