"""TVM as a backend of torch.compile, which emits every text that its compiler makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from explorer.capture.compilers.aot_graphs import backend_of, backward_decompositions, boxed
from explorer.capture.compilers.option_lists import texts_of
from explorer.capture.compilers.pass_names import check_names, matches
from explorer.capture.compilers.tensors import check_devices
from explorer.capture.compilers.tvm.compile import Compile
from explorer.capture.compilers.tvm.execution import Module
from explorer.capture.compilers.tvm.importing import imported
from explorer.capture.compilers.tvm.targets import emit_target, target_named
from explorer.capture.observe.aot import emit_aot_graph
from explorer.model.stage import Emit


def tvm_backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile: AOTAutograd's graphs, each compiled by TVM and run by its virtual machine."""

    targets, after = (texts_of(options, name) for name in ("targets", "after_passes"))
    for name in targets:
        target_named(name)
    compile_as = partial(compile_graph, emit=emit, targets=targets, after_passes=after)
    inference, training = (backend_of(compile_as, decompositions=decompositions(train=train)) for train in (False, True))

    def backend(gm: Any, inputs: Sequence[Any]) -> Any:
        import torch

        return (training if torch.is_grad_enabled() else inference)(gm, inputs)

    return backend


def decompositions(*, train: bool) -> dict[Any, Callable[..., Any]]:
    """Return what AOTAutograd is to decompose for TVM.

    A batch norm that takes the batch's mean leaves another running variance than eager does. When training, other norms too: TVM
    gives the mean and the deviation, which the backward takes, another shape than ATen does.
    """
    import torch
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    norms = [aten.native_layer_norm, aten.native_group_norm] if train else []
    table = get_decompositions([aten._native_batch_norm_legit_functional, *norms])
    # these compute both at once, which TVM cannot
    return {**backward_decompositions(), **table, aten.var_mean.correction: variance_and_mean}


def variance_and_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Any, Any]:
    """Compute aten.var_mean by two operators."""
    import torch

    return torch.var(x, dim, correction=correction, keepdim=keepdim), torch.mean(x, dim, keepdim=keepdim)


def compile_graph(
    gm: Any, inputs: Sequence[Any], *, emit: Emit, graph: str, targets: Sequence[str], after_passes: Sequence[str] = ()
) -> Callable[..., Any]:
    """Compile one of AOTAutograd's graphs; what comes back takes its inputs in a list, as AOTAutograd gives them.

    Behind the passes that `after_passes` names all functions are emitted, where the pass changed one.
    """
    check_devices(inputs, "what TVM compiles")
    with emit.during(graph):
        emit_aot_graph(emit, gm, graph)
        source = imported(gm)
        work = Compile(source)
        emit("tvm_relax", lambda: {"text": work.text(source.module)})
        try:
            work.run()
        finally:
            emit_texts(emit, work, after_passes)
        for name in targets:
            emit.attempt("tvm_target", name, partial(emit_target, emit, work, name))
    module = Module(work.executable, source.tensors, source.results.values)
    emit.later("execution", lambda: execution(graph, module))
    return boxed(lambda inputs: source.results.put_together(module(inputs), inputs))


def emit_texts(emit: Emit, work: Compile, after_passes: Sequence[str]) -> None:
    """Emit each text of a compile, also of one that failed."""
    emit.attempt("tvm_pass", "the passes", partial(emit_passes, emit, work, after_passes))
    if work.fused is not None:
        emit("tvm_fused", lambda: {"text": work.text(work.fused)})
    if work.executable is None:
        return
    emit("tvm_tir", lambda: {"text": work.lowered()})
    emit("tvm_vm", lambda: {"text": str(work.executable.as_text()).rstrip(), "calls": work.origins.calls})
    emit.attempt("tvm_llvm", "LLVM IR and assembly", partial(emit_machine_code, emit, work))


def emit_passes(emit: Emit, work: Compile, wanted: Sequence[str]) -> None:
    """Emit each pass that changed the module, and all functions behind those that are wanted; PassError for an unknown name."""
    seen = []
    for facts in work.changing_passes():
        seen.append(facts["name"])
        emit("tvm_pass", lambda facts=facts: facts)  # type: ignore[misc]
        if matches(facts["name"], wanted):
            emit("tvm_after_pass", partial(work.after_pass, facts["number"]))
    check_names(wanted, seen, "tvm_pass")


def emit_machine_code(emit: Emit, work: Compile) -> None:
    """Emit LLVM IR and assembly."""
    texts = work.machine_code()
    origins = work.origins
    facts = {"fx_nodes": origins.nodes, "groups": origins.groups, "functions": work.functions(texts["tvm_llvm"])}
    for stage, text in texts.items():
        emit(stage, lambda text=text: {**facts, "text": text})  # type: ignore[misc]


def execution(graph: str, module: Module) -> dict[str, Any]:
    """The row that says what ran a graph."""
    return {"graph": graph, "engine": "TVM", "device": "llvm", "what": "the whole graph", "calls": module.calls, "why": ""}
