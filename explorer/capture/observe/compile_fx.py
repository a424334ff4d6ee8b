"""Observe the graphs that Inductor is handed: what Dynamo made, the joint graph, and each graph that is lowered."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.compile_calls import call_ahead
from explorer.capture.observe.context import graph_of
from explorer.capture.observe.failed import Noting, failed_graph
from explorer.capture.observe.functions import emit_sources
from explorer.capture.observe.fx_copy import graph_facts
from explorer.capture.observe.patch import observed
from explorer.capture.observe.structured import listening
from explorer.model.shared import Text
from explorer.model.stage import Emit


@contextmanager
def lowered_graph(emit: Emit) -> Iterator[None]:
    """Record each graph that Inductor is handed; in training it is AOTAutograd's forward or backward itself."""
    from torch._inductor.compile_fx import _InProcessFxCompile

    def begun(self: Any, gm: Any, inputs: Any, check: Any, kwargs: Any) -> Iterator[None]:
        graph = graph_of(kwargs)
        emit("inductor_input" if graph == "inference" else graph, lambda: graph_facts(gm))
        yield

    with observed(_InProcessFxCompile, "codegen_and_compile", begun), compiles_without_dynamo(emit):
        yield


@contextmanager
def compiles_without_dynamo(emit: Emit) -> Iterator[None]:
    """Give each graph that Inductor is handed without Dynamo, as by AOTInductor, a frame of its own and its functions' source."""
    from torch._inductor import compile_fx as module

    begun: list[str] = []
    inside: list[str] = []

    def compiled(graph: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if inside or emit.here().frame:
            yield
            return
        frame = f"without Dynamo {len(begun)}/0"
        begun.append(frame)
        inside.append(frame)
        try:
            with emit.within(frame), Noting(lambda error: emit.compile_failed(error, failed_graph(error, "graph"))):
                emit("compile_call", call_ahead)
                emit.attempt("source", "functions", lambda: emit_sources(emit, frame, graph))
                yield
        finally:
            inside.pop()

    with observed(module, "compile_fx", compiled):
        yield


@contextmanager
def runnable(emit: Emit) -> Iterator[None]:
    """Record the graph as a file that runs on its own, which Inductor writes for its reproducers."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit("fx_graph_runnable", lambda: Text(text=payload))

    with listening(emit, {"fx_graph_runnable": heard}):
        yield


@contextmanager
def joint_graph(emit: Emit) -> Iterator[None]:
    """Record the joint graph, or in inference the forward graph, before Inductor's passes on it."""
    from torch._inductor import compile_fx

    def begun(gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if emit.here().path:
            yield  # part of the text of the graph around it
            return
        graph, kind = ("joint", "joint") if is_joint(gm.graph) else ("inference", "forward")
        with emit.during(graph):
            emit(kind, lambda: graph_facts(gm))
            yield

    with observed(compile_fx, "_recursive_joint_graph_passes", begun):
        yield


def is_joint(graph: Any) -> bool:
    """True for AOTAutograd's joint graph: its inputs are the primals and the tangents."""
    return any(str(node.target).startswith("tangents") for node in graph.find_nodes(op="placeholder"))


@contextmanager
def pre_grad(emit: Emit) -> Iterator[None]:
    """Record the graph after Inductor's passes on what Dynamo made, and first each graph inside it."""
    from torch._inductor import compile_fx

    def round_of(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        result = yield
        emit("pre_grad", lambda: graph_facts(result, of=emit.here().path))

    with observed(compile_fx, "_recursive_pre_grad_passes", round_of):
        yield
