"""ONNX Runtime as a backend of torch.compile, which emits the graph after each level of its optimiser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from explorer.capture.compilers.aot_graphs import backend_of, backward_decompositions, boxed
from explorer.capture.compilers.graph_copy import Results, outputs_of
from explorer.capture.compilers.onnxrt.exporting import Exported, OnnxError, exported, quiet
from explorer.capture.compilers.onnxrt.graphs import graph_facts
from explorer.capture.compilers.onnxrt.options import Chosen, chosen
from explorer.capture.compilers.onnxrt.session import NoSession, Part, Session, loaded
from explorer.capture.compilers.tensors import check_devices
from explorer.capture.compilers.user_lines import with_user_lines
from explorer.capture.observe.aot import emit_aot_graph
from explorer.capture.observe.fx import graph_record
from explorer.model.stage import Emit
from explorer.stages.fx_graph import FxGraphText
from explorer.stages.onnxrt.graph import ONNXRT_LEVELS

#: How ONNX Runtime names a node in an error: "in node (node_conv2d)", "node with name 'node_conv2d'".
_NAMED = re.compile(r"\bnode (?:with name )?[('](\w+)[)']", re.IGNORECASE)


def onnxrt_backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile: AOTAutograd's graphs, each exported to ONNX and run by ONNX Runtime."""

    compile_as = partial(compile_graph, emit=emit, chosen=chosen(options))
    return backend_of(compile_as, decompositions=decompositions())


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return what AOTAutograd is to decompose: also what ONNX's exporter computes wrongly.

    It gives a batch norm of training, which has the batch's mean, another result, and `mv` of a transposed matrix.
    """
    import torch
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    return {**backward_decompositions(), **get_decompositions([aten._native_batch_norm_legit_functional, aten.mv])}


def compile_graph(gm: Any, inputs: Sequence[Any], *, emit: Emit, graph: str, chosen: Chosen) -> Callable[..., Any]:
    """Compile one of AOTAutograd's graphs; what comes back takes its inputs in a list, as AOTAutograd gives them."""
    check_devices(inputs, "ONNX Runtime")
    outputs = outputs_of(gm)
    results = Results.of(outputs, [node for node in gm.graph.nodes if node.op == "placeholder"])
    computed = [value for value, own in zip(outputs, results.computed, strict=True) if own]
    with emit.during(graph):
        emit_aot_graph(emit, gm, graph)
        try:
            session = session_of(gm, computed, emit, chosen) if computed else NoSession()
        except OnnxError as error:
            raise OnnxError(f"ONNX Runtime could not compile the {graph} graph:\n{error}") from error
    for part in session.parts():
        emit.later("execution", partial(_execution, graph, session, part))
    return boxed(lambda inputs: results.put_together(session(inputs), inputs))


def program_record(source: Exported) -> FxGraphText:
    """The exported program that ONNX was made of: its graph, each node with the FX node it was traced for, and its signature."""
    program = source.program.exported_program
    record = graph_record(program.graph_module)
    origins = {name: (node,) for name, node in source.fx_nodes.items()}
    nodes = tuple(replace(node, from_=origins.get(node.name)) for node in record.nodes or ())
    signature = f"{program.graph_signature}".strip()
    return replace(record, nodes=nodes, text=f"{record.text.rstrip()}\n\nGraph signature:\n{signature}")


def session_of(gm: Any, computed: Sequence[Any], emit: Emit, chosen: Chosen) -> Session:
    """Return the session that runs the graph. Emits the graph in ONNX, and after each optimization level up to the session's."""
    with emit.muted():  # torch.onnx traces the graph again, which is no compile of the user's
        source = exported(gm, tuple(dict.fromkeys(computed)))
    program = source.program
    emit("onnx_exported_program", lambda: program_record(source))
    emit("onnx", lambda: graph_facts(program.model_proto))
    if chosen.optimize:
        with quiet(), emit.muted():
            program.optimize()
        emit("onnx_optimize", lambda: graph_facts(program.model_proto))
    model = program.model_proto.SerializeToString()
    try:
        own, optimized = loaded(model, chosen.level, chosen)
    except OnnxError as error:
        raise OnnxError(with_user_lines(f"{error}", nodes_in(f"{error}", source))) from error
    for level in ONNXRT_LEVELS[1 : ONNXRT_LEVELS.index(chosen.level)]:
        emit.attempt(f"onnxrt_{level}", "optimize", partial(_emit_level, emit, model, level, chosen))
    emit(f"onnxrt_{chosen.level}", lambda: graph_facts(optimized))
    session = Session(own, computed)
    if session.placements():
        emit("onnxrt_providers", lambda: {"rows": session.placements()})
    return session


def nodes_in(error: str, source: Exported) -> list[Any]:
    """Return the nodes of the exported program that ONNX Runtime's error names."""
    named = set(_NAMED.findall(error))
    origins = {node.fx_node for node in graph_facts(source.program.model_proto).nodes if node.name in named}
    return [node for node in source.program.exported_program.graph.nodes if node.name in origins]


def _emit_level(emit: Emit, model: bytes, level: str, chosen: Chosen) -> None:
    """Emit the graph after a level below the one that runs."""
    optimized = loaded(model, level, chosen)[1]
    emit(f"onnxrt_{level}", lambda: graph_facts(optimized))


def _execution(graph: str, session: Session | NoSession, part: Part) -> dict[str, Any]:
    """The row that says what ran a part of a graph."""
    return {"graph": graph, **part._asdict(), "calls": session.calls}
