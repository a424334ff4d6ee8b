"""OpenVINO's own backend of torch.compile, run on AOTAutograd's graphs, with all that it makes emitted.

It is called with `aot_autograd=True`, as OpenVINO offers it: without that a change of an input is lost. Three things differ
from a program's own `torch.compile(f, backend="openvino")`:

- The precision is float32. OpenVINO's default on CPUs that have it is bfloat16.
- Where the backend cannot partition a graph, it hands the graph to Inductor without a word. Here that is an error.
- Its results are copied. They lie in buffers that the next call writes to: a result kept from an earlier call would change.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import lru_cache, partial
from typing import Any

from explorer.compilers.graph_copy import outputs_of
from explorer.compilers.openvino.execution import PartitionedGraph
from explorer.compilers.openvino.partition import Partition, partition_of
from explorer.compilers.tensors import check_devices
from explorer.model.artifacts import ChangedSetting
from explorer.model.stage import Emit
from explorer.observe.context import current_compile_id
from explorer.observe.fx import graph_record
from explorer.observe.patch import observed, replaced_in_plain_sight

#: What OpenVINO's backend is asked for, unless the user's options say otherwise.
PRECISION = "INFERENCE_PRECISION_HINT"
DEFAULTS: Mapping[str, str] = {PRECISION: "f32"}


class OpenVinoError(RuntimeError):
    """OpenVINO could not take a graph or a part of it; the message is its own."""


def openvino_backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile: AOTAutograd's graphs, each handed to OpenVINO's backend."""
    from torch._decomp import get_decompositions
    from torch._dynamo.backends.common import aot_autograd

    own = imported()
    from openvino.frontend.pytorch.torchdynamo.decompositions import get_aot_decomposition_list, get_inf_decomposition_list

    settings = {"device": "CPU", **options, "aot_autograd": True, "config": {**DEFAULTS, **(options.get("config") or {})}}
    wanted = [*settings.get("decompositions", ()), *get_inf_decomposition_list(), *get_aot_decomposition_list()]
    compile_as = partial(compile_graph, emit=emit, settings=settings)
    made: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(compile_as, graph="forward"),
        bw_compiler=partial(compile_as, graph="backward"),
        inference_compiler=partial(compile_as, graph="inference"),
        decompositions={**get_decompositions(wanted), **{op: own[op] for op in wanted if op in own}},
    )
    return made


@lru_cache(maxsize=1)
def imported() -> Mapping[Any, Callable[..., Any]]:
    """Import OpenVINO's backend, and undo what its import does to torch.

    It turns `inline_inbuilt_nn_modules` of Dynamo off, and adds decompositions to torch's table, which other compiles read too.
    These are given back; none where the program has imported the backend itself.
    """
    from torch._decomp import decomposition_table
    from torch._dynamo import config

    name = "inline_inbuilt_nn_modules"
    known = set(decomposition_table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 says that the setting does nothing any more
        before = config.get_config_copy().get(name)
        with config.patch({name: before}) if before is not None else nullcontext():
            import openvino.frontend.pytorch.torchdynamo.backend  # noqa: F401
    added = {op: decomposition_table[op] for op in decomposition_table if op not in known}
    for op in added:
        del decomposition_table[op]
    return added


def compile_graph(
    gm: Any, inputs: Sequence[Any], *, emit: Emit, graph: str, settings: Mapping[str, Any]
) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Partition one of AOTAutograd's graphs; OpenVINO compiles its parts when they are first called."""
    check_devices(inputs, "OpenVINO")
    likes = tuple(value.meta.get("val") if hasattr(value, "meta") else None for value in outputs_of(gm))
    with emit.during(graph):
        for name, value in settings["config"].items():
            emit("setting", partial(_setting, name, value))
        emit("backward" if graph == "backward" else "forward", lambda: graph_record(gm))
        call, read = partitioned(gm, inputs, settings)
        found: list[Partition] = []
        emit.attempt("openvino_partition", "read", lambda: found.append(read()))
        partition = found[0] if found else Partition()
        if found:
            emit("openvino_partition", partition.facts)
    runner = PartitionedGraph(call, partition, likes, emit, current_compile_id(), graph, settings["device"])
    for row in runner.rows():
        emit.later("execution", row)

    def run(given: list[Any]) -> tuple[Any, ...]:
        arguments = list(given)
        given.clear()
        return runner(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def partitioned(
    gm: Any, inputs: Sequence[Any], settings: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[[], Partition]]:
    """What OpenVINO's backend makes of a graph to be called, and what reads how it partitioned the graph."""
    from openvino.frontend.pytorch.torchdynamo import backend
    from openvino.frontend.pytorch.torchdynamo.partition import Partitioner

    before = {node.name: node.target for node in gm.graph.nodes}
    partitions: list[tuple[Any, Any]] = []

    def seen(partitioner: Any, module: Any, options: Any) -> Iterator[None]:
        graph_module = yield
        partitions.append((graph_module, partitioner.supported_ops))

    def read() -> Partition:
        ((graph_module, supported),) = partitions
        return partition_of(graph_module, before, supported)

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise OpenVinoError(f"OpenVINO's backend could not partition the graph: {_said(sys.exception())}") from sys.exception()

    with ExitStack() as stack:
        stack.enter_context(observed(Partitioner, "make_partitions", seen))
        stack.enter_context(replaced_in_plain_sight(backend, "compile_fx", lambda _: refused))
        stack.enter_context(replaced_in_plain_sight(backend, "openvino_options", lambda _: {}))  # those of an earlier call
        call = backend.fx_openvino(gm, inputs, dict(settings))
    return call, read


def _said(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def _setting(name: str, value: Any) -> ChangedSetting:
    """A property that OpenVINO compiles with."""
    setter = "explorer" if DEFAULTS.get(name) == value else "torch.compile"
    return ChangedSetting(of="openvino", name=name, value=repr(value), default="", set_by=setter)
