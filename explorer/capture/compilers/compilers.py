"""The compilers other than Inductor that explorer hands graphs to itself: the written-out tuple of them, and plug-ins'."""

from __future__ import annotations

from explorer.capture.compilers.compiler import Compiler
from explorer.capture.compilers.iree.compiler import IREE
from explorer.capture.compilers.onnxrt.compiler import ONNXRT
from explorer.capture.compilers.openvino.compiler import OPENVINO
from explorer.capture.compilers.tvm.compiler import TVM
from explorer.capture.compilers.xla.compiler import XLA
from explorer.process import plugins
from explorer.process.plugins import Brought

#: Explorer's own compilers, in the order of the docs. Another one: see docs/contributing/compiler.md.
COMPILERS: tuple[Compiler, ...] = (IREE, ONNXRT, OPENVINO, TVM, XLA)


def plugged_compilers() -> Brought[Compiler]:
    """Load the compilers of the entry points `explorer.compilers`."""
    return plugins.brought(plugins.COMPILERS, Compiler, frozenset(compiler.name for compiler in COMPILERS))


def compilers() -> tuple[Compiler, ...]:
    """Every compiler: explorer's own, then those of plug-ins."""
    return (*COMPILERS, *plugged_compilers().values)


def compiler_named(name: object) -> Compiler | None:
    """The compiler that `backend=name` asks for; None for Inductor, for a callable and for what only torch knows."""
    return next((compiler for compiler in compilers() if compiler.name == name), None)
