"""ONNX Runtime as a Compiler: what it is called, whether it is here, what it emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from explorer.capture.compilers.compiler import Compiler
from explorer.model.stage import Emit
from explorer.stages.onnxrt.graph import ONNX_GRAPHS


def backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile that compiles by ONNX Runtime; what needs it is imported here."""
    from explorer.capture.compilers.onnxrt.backend import onnxrt_backend

    return onnxrt_backend(emit, options)


ONNXRT = Compiler(
    name="onnxrt",
    title="ONNX Runtime",
    about="an engine for graphs in ONNX, which rewrites them level by level and runs them operator by operator",
    extra="onnx",
    modules=("onnxruntime", "onnxscript"),
    backend=backend,
    kinds=("forward", "backward", "execution", "onnx_exported_program", *ONNX_GRAPHS, "onnxrt_providers"),
    options=MappingProxyType(
        {
            "level": "how far ONNX Runtime optimises: 'disable', 'basic', 'extended', 'layout' or 'all', which is the default",
            "threads": "how many threads an operator may use; as many as torch's by default",
            "providers": "ONNX Runtime's execution providers, the first choice first; ['CPUExecutionProvider'] by default",
            "optimize": "True to have onnxscript's optimizer rewrite the graph before ONNX Runtime gets it",
        }
    ),
)
