"""Observe AOTAutograd: its graphs, and what it found of their inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from explorer.capture.observe.fx_copy import graph_facts
from explorer.capture.observe.patch import observed
from explorer.capture.observe.structured import listening
from explorer.capture.observe.versions import has_function
from explorer.model.stage import Emit
from explorer.stages.aot.aot_metadata import AotMetadata, GraphInput, GraphOutput
from explorer.stages.fx_graph import FxGraphText

#: The structured records that hold AOTAutograd's graphs: kind of event, graph.
LOGGED = {
    "aot_joint_graph": ("joint", "joint"),
    "aot_forward_graph": ("forward", "forward"),
    "aot_backward_graph": ("backward", "backward"),
    "aot_inference_graph": ("forward", "inference"),
}


@contextmanager
def graphs(emit: Emit) -> Iterator[None]:
    """Record the text of each graph that AOTAutograd makes, whatever the backend, and the nodes of the joint graph.

    The nodes of a graph that Inductor is handed are recorded by `compile_fx.py`.
    """
    from torch._functorch._aot_autograd import graph_compile

    def begun(state: Any, capture: Any, *rest: Any, **named: Any) -> Iterator[None]:
        if not any(map(is_inductors, (*rest, *named.values()))):
            with emit.during("joint"):
                emit("joint", lambda: graph_facts(capture.graph_module))
        yield

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        name = next(n for n in LOGGED if n in metadata)
        kind, graph = LOGGED[name]
        with emit.during(graph):
            emit(kind, lambda: FxGraphText(text=payload))

    with listening(emit, dict.fromkeys(LOGGED, heard)), observed(graph_compile, "aot_stage2_autograd", begun):
        yield


def is_inductors(compiler: Any) -> bool:
    """Tell whether AOTAutograd hands its graphs to Inductor, which has probes of its own."""
    from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler

    return isinstance(compiler, SerializableAOTDispatchCompiler)


def emit_aot_graph(emit: Emit, gm: Any, graph: str) -> None:
    """Emit "forward", "backward" or "inference" as AOTAutograd hands it to a compiler, with its nodes."""
    emit("backward" if graph == "backward" else "forward", lambda: graph_facts(gm))


def aot_graph_of(gm: Any) -> str:
    """Name one of AOTAutograd's graphs by the names of its inputs: forward, backward or inference."""
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    if any(name.startswith("tangents") for name in names):
        return "backward"
    return "forward" if any(name.startswith("primals") for name in names) else "inference"


#: What hands a captured graph on to the compiler, and the name of the graph then.
HANDED_ON = {"aot_stage2_inference": "inference", "aot_stage2_autograd": "forward"}


@contextmanager
def metadata(emit: Emit) -> Iterator[None]:
    """Record AOTAutograd's metadata on a graph's inputs and outputs: which are changed in place, and which are views of which."""
    from torch._functorch import aot_autograd
    from torch._functorch._aot_autograd import graph_compile

    def begun(state: Any, *rest: Any, graph: str, **named: Any) -> Iterator[None]:
        with emit.during(graph):
            emit("aot_metadata", lambda: metadata_facts(state.fw_metadata, state.flat_args))
        yield

    def exported(state: Any, *rest: Any, **named: Any) -> Iterator[None]:
        if emit.here().frame:  # else a program exports, and compiles nothing
            yield from begun(state, graph="inference")
        else:
            yield

    with ExitStack() as stack:
        for name, graph in HANDED_ON.items():
            stack.enter_context(observed(graph_compile, name, partial(begun, graph=graph)))
        if has_function(aot_autograd, "aot_stage2_export"):
            stack.enter_context(observed(aot_autograd, "aot_stage2_export", exported))
        yield


def metadata_facts(found: Any, arguments: Sequence[Any]) -> AotMetadata:
    """Each input and output of the graph as ViewAndMutationMeta has it; with the arguments' types if they are as many."""
    types = [type_of(value) for value in arguments]
    known = types if len(types) == len(found.input_info) else [""] * len(found.input_info)
    inputs = (
        GraphInput(
            type=type,
            mutation=info.mutation_type.name.lower(),
            mutates_data=bool(info.mutates_data),
            mutates_metadata=bool(info.mutates_metadata),
            is_leaf=bool(info.is_leaf),
            requires_grad=bool(info.requires_grad),
        )
        for type, info in zip(known, found.input_info, strict=True)
    )
    outputs = (
        GraphOutput(kind=info.output_type.name, base=info.base_idx, requires_grad=bool(info.requires_grad))
        for info in found.output_info
    )
    return AotMetadata(inputs=tuple(inputs), outputs=tuple(outputs))


def type_of(value: Any) -> str:
    """Write a tensor's dtype and sizes, such as "float32[4, s77]", or the Python type of another value."""
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
