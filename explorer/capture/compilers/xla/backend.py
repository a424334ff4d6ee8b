"""XLA as a backend of torch.compile, which emits every text that its compiler dumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from explorer.capture.compilers.aot_graphs import backend_of, boxed
from explorer.capture.compilers.option_lists import texts_of
from explorer.capture.compilers.tensors import check_devices
from explorer.capture.compilers.xla.compile import Compile, XlaError
from explorer.capture.compilers.xla.execution import Module
from explorer.capture.compilers.xla.importing import Lowering, decompositions
from explorer.capture.observe.aot import emit_aot_graph
from explorer.errors import InputError
from explorer.model.stage import Emit


def xla_backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile: AOTAutograd's graphs, each lowered by torch-mlir, and compiled and run by XLA."""
    flags = checked_flags(texts_of(options, "flags"))
    compile_as = partial(compile_graph, emit=emit, flags=flags)
    return backend_of(compile_as, decompositions=decompositions())


def checked_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """The user's flags of XLA; InputError for one that would take the texts away which are shown."""
    for flag in flags:
        if flag.removeprefix("--").startswith("xla_dump_"):
            raise InputError(f"explorer asks XLA for its dumps itself, to show them: leave out {flag}")
    return flags


def compile_graph(gm: Any, inputs: Sequence[Any], *, emit: Emit, graph: str, flags: Sequence[str]) -> Callable[..., Any]:
    """Compile one of AOTAutograd's graphs; what comes back takes its inputs in a list, as AOTAutograd gives them."""
    check_devices(inputs, "what XLA compiles")
    with emit.during(graph):
        emit_aot_graph(emit, gm, graph)
        lowering = Lowering.of(gm)
        try:
            lowering.run()
        finally:
            emit("xla_torch", lambda: {"text": lowering.torch, "fx_nodes": lowering.nodes})
        emit("xla_stablehlo", lambda: {"text": lowering.stablehlo, "fx_nodes": lowering.nodes})
        if unknown := symbolic_sizes(inputs):
            raise XlaError(f"XLA compiles for sizes that are known, and {', '.join(unknown)} is not: compile with dynamic=False")
        work = Compile(lowering.source, flags)
        try:
            work.run(emit)
        finally:
            emit_texts(emit, work)
        emit.attempt("xla_cost", "cost analysis", partial(emit_costs, emit, work))
    results = lowering.results  # what runs keeps no text
    module = Module(work.executable, results.values)
    emit.later("execution", lambda: execution(graph, module))
    return boxed(lambda inputs: results.put_together(module(inputs), inputs))


def symbolic_sizes(inputs: Sequence[Any]) -> list[str]:
    """The sizes of a graph's inputs that are not known when it is compiled, as torch names them."""
    import torch

    sizes = (size for value in inputs for size in (value.shape if isinstance(value, torch.Tensor) else (value,)))
    return sorted({str(size) for size in sizes if isinstance(size, torch.SymInt)})


def emit_texts(emit: Emit, work: Compile) -> None:
    """Emit each text of a compile, also of one that failed."""
    for stage, text in (("xla_before", work.before), ("xla_optimized", work.optimized), ("xla_buffers", work.buffers)):
        if text:
            emit(stage, lambda text=text: {"text": text})  # type: ignore[misc]
    for facts in work.passes:
        emit("xla_pass", lambda facts=facts: facts)  # type: ignore[misc]
    for name, text in work.kernels.items():
        emit("xla_llvm", lambda name=name, text=text: {"name": name, "text": text})  # type: ignore[misc]
    if work.assembly:
        emit("xla_assembly", lambda: {"text": work.assembly})


def emit_costs(emit: Emit, work: Compile) -> None:
    """Emit XLA's cost figures for the compiled graph."""
    rows = [{"figure": name, "value": value} for name, value in work.figures()]
    emit("xla_cost", lambda: {"rows": rows})


def execution(graph: str, module: Module) -> dict[str, Any]:
    """The row that says what ran a graph."""
    return {"graph": graph, "engine": "XLA", "device": "cpu", "what": "the whole graph", "calls": module.calls, "why": ""}
