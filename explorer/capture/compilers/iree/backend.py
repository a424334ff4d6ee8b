"""IREE as a backend of torch.compile, which emits every text that its compiler makes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from explorer.capture.compilers.aot_graphs import backend_of, backward_decompositions, boxed
from explorer.capture.compilers.iree.compile import Compiled, compiled
from explorer.capture.compilers.iree.execution import DRIVER, Module
from explorer.capture.compilers.iree.importing import Imported, imported
from explorer.capture.compilers.iree.passes import Passes
from explorer.capture.compilers.iree.targets import flags_for, target_named
from explorer.capture.compilers.option_lists import texts_of
from explorer.capture.compilers.pass_names import PassError, check_names
from explorer.capture.compilers.tensors import check_devices
from explorer.capture.compilers.user_lines import with_user_lines
from explorer.capture.observe.aot import emit_aot_graph
from explorer.model.stage import Emit
from explorer.stages.fx_locations import FIRST_NODE, FX_GRAPH
from explorer.stages.iree.passes import IreePassText

#: Where an error of IREE's is: the line of an FX node in the file that stands for the graph.
_ERROR = re.compile(rf"^{FX_GRAPH}:(\d+):\d+: error:", re.MULTILINE)


class IreeError(RuntimeError):
    """IREE could not compile a graph; the message is its own."""


def iree_backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile: AOTAutograd's graphs, each compiled by IREE and run by its runtime."""
    flags, targets, after = (texts_of(options, name) for name in ("flags", "targets", "after_passes"))
    for name in targets:
        target_named(name)
    passes = after if after or options.get("passes") else None
    compile_as = partial(compile_graph, emit=emit, flags=flags, targets=targets, passes=passes)
    from iree.turbine.dynamo.decompositions import DEFAULT_DECOMPOSITIONS
    from torch._decomp import get_decompositions

    turbines = get_decompositions(DEFAULT_DECOMPOSITIONS)
    return backend_of(compile_as, decompositions={**backward_decompositions(), **turbines})


def compile_graph(
    gm: Any,
    inputs: Sequence[Any],
    *,
    emit: Emit,
    graph: str,
    flags: Sequence[str],
    targets: Sequence[str],
    passes: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Compile one of AOTAutograd's graphs; what comes back takes its inputs in a list, as AOTAutograd gives them.

    With `passes` each pass that changed something is emitted, and the whole module behind those that it names.
    """
    check_devices(inputs, "IREE's modules")
    with emit.during(graph):
        emit_aot_graph(emit, gm, graph)
        source = imported(gm)
        emit("iree_torch", lambda: {"text": source.text, "fx_nodes": source.nodes})
        made = compiled(source.text, flags)
        emit_texts(emit, source, made)
        if passes is not None:
            emit.attempt("iree_pass", "the passes", partial(emit_passes, emit, source, made, flags, passes))
        for name in targets if not made.error else ():
            emit.attempt("iree_target", name, partial(emit_target, emit, source, name))
    if made.error:
        raise IreeError(f"IREE could not compile the {graph} graph:\n{with_user_lines(made.error, nodes_in(made.error, gm))}")
    module = Module(made.vmfb, source.results.values)
    emit.later("execution", lambda: execution(graph, module))
    return boxed(lambda inputs: source.results.put_together(module(*inputs)))


def nodes_in(error: str, gm: Any) -> list[Any]:
    """Return the FX nodes that IREE's errors point to."""
    nodes = dict(enumerate(gm.graph.nodes, FIRST_NODE))
    return [nodes[line] for line in map(int, _ERROR.findall(error)) if line in nodes]


def emit_texts(emit: Emit, source: Imported, made: Compiled) -> None:
    """Emit each text of a compile, also of one that failed."""
    of_functions = {"iree_llvm", "iree_assembly"}
    for stage, text in made.texts.items():
        if stage in of_functions:
            emit(stage, lambda t=text: {"text": t, "fx_nodes": source.nodes, "functions": made.functions})  # type: ignore[misc]
        elif stage == "iree_vm_module":
            emit(stage, lambda t=text: {"text": t})  # type: ignore[misc]
        else:
            emit(stage, lambda t=text: {"text": t, "fx_nodes": source.nodes})  # type: ignore[misc]
    if made.vmfb:
        rows = [{"name": name, "bytes": size} for name, size in made.sections]
        digest = hashlib.sha256(made.vmfb).hexdigest()
        facts = {"rows": rows, "bytes": len(made.vmfb), "sha256": digest, "seconds": made.seconds, "command": made.command}
        emit("iree_vmfb", lambda: facts)


def emit_passes(emit: Emit, source: Imported, made: Compiled, flags: Sequence[str], wanted: Sequence[str]) -> None:
    """Emit the changes of each pass.

    Raises PassError for passes that could not be shown, and if this compile's file differs from the one that runs.
    """
    seen: list[str] = []

    def change(facts: IreePassText) -> None:
        seen.append(facts.name)
        emit("iree_pass", lambda: facts)

    passes = Passes(source.text, source.nodes, wanted)
    passes.run(flags, change, lambda whole: emit("iree_after_pass", lambda: whole))
    if passes.error and not made.error:
        raise PassError(f"{passes.error} while it printed its passes; those up to there are shown")
    if passes.vmfb != made.vmfb:
        raise PassError("iree-compile made another file while it printed its passes than the one that runs")
    if passes.left_out:
        raise PassError(f"the modules after {passes.left_out} passes are left out: together they are too long; name fewer passes")
    check_names(wanted, seen, "iree_pass")


def emit_target(emit: Emit, source: Imported, name: str) -> None:
    """Emit what IREE writes for a target; IreeError, with its words, where it cannot, or crashes."""
    target = target_named(name)
    made = compiled(source.text, target=flags_for(name), wanted=target.ending)
    if "wanted" not in made.texts:
        raise IreeError(made.error or f"IREE wrote no {target.form}")
    facts = {"target": name, "form": target.form, "language": target.language, "fx_nodes": source.nodes}
    emit("iree_target", lambda: {**facts, "text": made.texts["wanted"]})


def execution(graph: str, module: Module) -> dict[str, Any]:
    """The row that says what ran a graph."""
    return {"graph": graph, "engine": "IREE", "device": DRIVER, "what": "the whole graph", "calls": module.calls, "why": ""}
