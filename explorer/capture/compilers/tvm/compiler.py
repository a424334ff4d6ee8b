"""TVM as a Compiler: what it is called, whether it is here, what it emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from explorer.capture.compilers.compiler import Compiler
from explorer.model.stage import Emit
from explorer.stages.tvm import STAGES as TVM_STAGES


def backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile that compiles by TVM; what needs TVM is imported here."""
    from explorer.capture.compilers.tvm.backend import tvm_backend

    return tvm_backend(emit, options)


TVM = Compiler(
    name="tvm",
    title="TVM",
    about="a compiler for CPUs and GPUs with two IRs: Relax for whole graphs, TIR for loops",
    extra="tvm",
    modules=("tvm", "tvm_ffi"),
    backend=backend,
    kinds=("forward", "backward", "execution", *(stage.name for stage in TVM_STAGES)),
    options=MappingProxyType(
        {
            "targets": "targets that need not be here, whose text is wanted too: 'cuda', 'webgpu', 'opencl', 'c', 'aarch64'",
            "after_passes": "names of passes, '*' for any characters, behind which all functions are wanted: 'FuseOps', 'tirx.*'",
        }
    ),
    replaces_torchs=True,  # it imports Relay, which TVM has no more
)
