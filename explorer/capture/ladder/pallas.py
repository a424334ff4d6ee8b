"""Lower a Pallas kernel as JAX does: to a jaxpr, to StableHLO for the CPU, and to Mosaic's MLIR for an absent TPU.

A kernel's source has three functions: the one that pallas_call is given, a function under `jax.jit` that calls pallas_call, and
one that turns PyTorch's tensors into JAX's arrays and calls the second. Here the third is called with the arguments of a launch,
to find out what it gives the second, which is then lowered with that and not run.
"""

from __future__ import annotations

import base64
import json
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

#: What JAX calls the TPU that kernels are lowered for: a TPU v6e.
TPU = "TPU v6 lite"
_CONFIG = re.compile(r'@tpu_custom_call\(.*?backend_config = "((?:[^"\\]|\\.)*)"')
#: JAX pads each equation with spaces up to the longest.
_PADDING = re.compile(r" {2,}# (?=\S+:\d+:\d+ \()")


class _GivenError(Exception):
    """Raised in place of the call of the function under `jax.jit`."""


def jaxpr(name: str, source: str, file: str, arguments: Sequence[Any]) -> str:
    """The jaxpr of a kernel, with the line of each equation behind it."""
    text = str(_traced(name, source, file, arguments).jaxpr.pretty_print(source_info=True))
    return _PADDING.sub("  # ", text)


def stablehlo(name: str, source: str, file: str, arguments: Sequence[Any]) -> str:
    """StableHLO with locations: pallas_call is there as the loop that interprets it."""
    return str(_traced(name, source, file, arguments).lower().as_text(debug_info=True))


def mosaic(name: str, source: str, file: str, arguments: Sequence[Any]) -> str:
    """The MLIR of the kernel for a TPU v6e, with locations: no TPU is needed, and nothing of it runs."""
    import jax

    compiled = source.replace("interpret=True", "interpret=False")
    device = jax.sharding.AbstractDevice(device_kind=TPU, num_cores=1, platform="tpu")
    mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        lowered = _traced(name, compiled, file, arguments).lower(lowering_platforms=("tpu",))
    return _decoded(str(lowered.as_text()))


def _traced(name: str, source: str, file: str, arguments: Sequence[Any]) -> Any:
    """What JAX traces of the function under `jax.jit`, with what PyTorch's tensors give it."""
    space: dict[str, Any] = {"__name__": name}
    given: list[tuple[Any, ...]] = []

    def instead(*args: Any) -> None:
        given.append(args)
        raise _GivenError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, file, "exec"), space)
        function: Callable[..., Any] = space[f"{name}_jit_wrapper"]
        space[f"{name}_jit_wrapper"] = instead
        with suppress(_GivenError):
            space[f"{name}_main"](*arguments)
        return function.trace(*given[0])  # type: ignore[attr-defined]


def _decoded(text: str) -> str:
    """The kernel's MLIR, of the call of the TPU's compiler that has it in MLIR's bytecode."""
    from jax._src.interpreters.mlir import make_ir_context
    from jax._src.lib import tpu
    from jaxlib.mlir import ir
    from jaxlib.mlir.passmanager import PassManager

    call = _CONFIG.search(text)
    if call is None:
        raise ValueError("JAX's text for a TPU has no call of the TPU's compiler")
    config = json.loads(call[1].replace(r"\22", '"'))
    context = make_ir_context()
    tpu.register_dialect(context)
    context.allow_unregistered_dialects = True
    with context:
        module = ir.Module.parse(base64.b64decode(config["custom_call_config"]["body"]))
        PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)
        return str(module.operation.get_asm(enable_debug_info=True))
