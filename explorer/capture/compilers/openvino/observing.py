"""Observe OpenVINO's backend of torch.compile: how it partitions a graph, and what comes of the parts.

A program that is recorded may ask torch.compile for it itself: that is OpenVINO's own affair, with the options that the program
gives, and is only observed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from explorer.capture.compilers.openvino.caches import free_with
from explorer.capture.compilers.openvino.execution import PartitionedGraph
from explorer.capture.compilers.openvino.partition import Partition, partition_of
from explorer.capture.observe.aot import aot_graph_of, emit_aot_graph
from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.fx import graph_record
from explorer.capture.observe.patch import guard_here, observed, replaced_in_plain_sight, shielded
from explorer.model.stage import Emit
from explorer.stages.torch_compile.execution import ExecutedPart
from explorer.stages.torch_compile.setting import ChangedSetting

#: The module of OpenVINO's backend, whose import takes long and changes torch: explorer imports it only to compile by it.
BACKEND = "openvino.frontend.pytorch.torchdynamo.backend"


class InductorRanError(RuntimeError):
    """OpenVINO's backend handed a graph to Inductor; the message is OpenVINO's."""


def observed_backend(
    gm: Any, inputs: Sequence[Any], settings: Any, *, emit: Emit, graph: str, defaults: Mapping[str, Any], frees: bool = False
) -> Callable[..., Any]:
    """Call OpenVINO's backend for a graph. The returned function is called like the backend's own, and its runs are emitted.

    `defaults` are the properties that explorer asks for if the user does not. With `frees`, OpenVINO's backend keeps nothing
    of the graph once the returned function is gone. If explorer fails, the backend's own function is returned.
    """
    from openvino.frontend.pytorch.torchdynamo import backend

    seen = _Seen(emit, settings)
    emit.attempt("setting", "openvino", lambda: _emit_settings(emit, settings, defaults))
    with shielded(seen.watch, guard_here(), "make_partitions"):
        call: Callable[..., Any] = _original(backend.fx_openvino)(gm, inputs, settings)
    followed = [call]
    emit.attempt("openvino_partition", "read", lambda: followed.append(_followed(call, seen, emit, graph, settings)))
    if frees and seen.graph is not None:
        free_with(followed[-1], seen.graph)
    return followed[-1]


class _Seen:
    """The observation of OpenVINO's backend while it takes a graph.

    `partitions` has functions that read the backend's partition of the graph with the id `graph`. `inductor` is the backend's
    error if it handed the graph to Inductor instead.
    """

    def __init__(self, emit: Emit, settings: Any) -> None:
        self.partitions: list[Callable[[], Partition]] = []
        self.graph: int | None = None
        self.inductor = ""
        self._emit, self._settings = emit, settings

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Observe the backend inside the block."""
        from openvino.frontend.pytorch.torchdynamo import backend
        from openvino.frontend.pytorch.torchdynamo.partition import Partitioner

        with observed(Partitioner, "make_partitions", self._partitioned), observed(backend, "compile_fx", self._handed_on):
            yield

    def _partitioned(self, partitioner: Any, module: Any, options: Any) -> Iterator[None]:
        if not _uses_aot_autograd(self._settings):
            self._emit("forward", lambda: graph_record(module))
        before = {node.name: node.target for node in module.graph.nodes}
        graph_module = yield
        self.graph = id(graph_module)
        self.partitions.append(lambda: partition_of(graph_module, before, partitioner.supported_ops))

    def _handed_on(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        error = sys.exception()
        self.inductor = f"{type(error).__name__}: {error}"
        yield


def _followed(call: Callable[..., Any], seen: _Seen, emit: Emit, graph: str, settings: Any) -> Callable[..., Any]:
    """What OpenVINO's backend gave for a graph, followed as it is called."""
    if seen.inductor:
        emit.attempt("openvino_partition", graph, partial(_fail, seen.inductor))
        emit.later("execution", partial(_inductors, graph, seen.inductor))
    if not seen.partitions:
        return call
    partition = seen.partitions[0]()
    emit("openvino_partition", partition.facts)
    runner = PartitionedGraph(call, partition, emit, current_compile_id(), graph, str((settings or {}).get("device", "CPU")))
    for row in runner.rows():
        emit.later("execution", row)
    return runner.function()


def _emit_settings(emit: Emit, settings: Any, defaults: Mapping[str, Any]) -> None:
    for name, value in ((settings or {}).get("config") or {}).items():
        emit("setting", partial(_setting, name, value, defaults))


def _uses_aot_autograd(settings: Any) -> bool:
    """Whether the options ask for AOTAutograd, as OpenVINO's backend reads them."""
    from openvino.frontend.pytorch.torchdynamo import backend

    return bool(backend._get_aot_autograd(settings))


def _original(function: Any) -> Callable[..., Any]:
    """OpenVINO's own function, also while a program's calls of it are observed."""
    original: Callable[..., Any] = getattr(function, "__wrapped__", function)
    return original


def _setting(name: str, value: Any, defaults: Mapping[str, Any]) -> ChangedSetting:
    """A property that OpenVINO compiles with."""
    setter = "explorer" if name in defaults and defaults[name] == value else "torch.compile"
    return ChangedSetting(of="openvino", name=name, value=repr(value), default="", set_by=setter)


def _fail(error: str) -> None:
    raise InductorRanError(f"OpenVINO's backend could not partition the graph, and handed it to Inductor: {error}")


def _inductors(graph: str, error: str) -> ExecutedPart:
    """The row of a graph that Inductor compiled; how often it ran is not observed."""
    why = f"OpenVINO's backend could not partition it: {error}"
    return ExecutedPart(graph=graph, engine="Inductor", device="cpu", what="the whole graph", calls=0, why=why)


# A program's own calls -----------------------------------------------------------------------------------------------------


@contextmanager
def watch(emit: Emit) -> Iterator[None]:
    """Observe OpenVINO's backend inside the block, where the program asks torch.compile for it."""
    from torch._dynamo.backends import registry

    with ExitStack() as stack:

        def put_on() -> None:
            stack.enter_context(replaced_in_plain_sight(sys.modules[BACKEND], "fx_openvino", partial(_observing, emit)))

        def looked_up(name: Any) -> Iterator[None]:
            known = BACKEND in sys.modules
            yield
            if not known and BACKEND in sys.modules:
                put_on()

        if BACKEND in sys.modules:
            put_on()
        else:
            stack.enter_context(observed(registry, "lookup_backend", looked_up))
        yield


def _observing(emit: Emit, original: Callable[..., Any]) -> Callable[..., Any]:
    """OpenVINO's function for a graph, observed, as the program calls it."""

    @functools.wraps(original)
    def fx_openvino(subgraph: Any, example_inputs: Any, options: Any = None) -> Any:
        settings = sys.modules[BACKEND].openvino_options or options
        graph = aot_graph_of(subgraph)  # OpenVINO's backend has one function for all
        with emit.during(graph):
            emit.attempt("forward", "openvino", lambda: _emit_graph(emit, graph, subgraph, settings))
            return observed_backend(subgraph, example_inputs, settings, emit=emit, graph=graph, defaults={})

    return fx_openvino


def _emit_graph(emit: Emit, graph: str, gm: Any, settings: Any) -> None:
    """Emit a graph from AOTAutograd. In its default mode OpenVINO's backend makes its own graph from Dynamo's instead."""
    if _uses_aot_autograd(settings):
        emit_aot_graph(emit, gm, graph)
