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
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

from explorer.capture.compilers.aot_graphs import backend_of, boxed
from explorer.capture.compilers.graph_copy import outputs_of
from explorer.capture.compilers.openvino.observing import observed_backend
from explorer.capture.compilers.tensors import check_devices, with_strides_of
from explorer.capture.observe.aot import emit_aot_graph
from explorer.capture.observe.patch import replaced_in_plain_sight
from explorer.model.stage import Emit

#: The properties that OpenVINO compiles with, unless the user's options say otherwise.
DEFAULTS: Mapping[str, str] = MappingProxyType({"INFERENCE_PRECISION_HINT": "f32"})


class OpenVinoError(RuntimeError):
    """OpenVINO's backend could not take a graph; the message is its own."""


def openvino_backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile: AOTAutograd's graphs, each handed to OpenVINO's backend."""
    from torch._decomp import get_decompositions

    own = imported()
    from openvino.frontend.pytorch.torchdynamo.decompositions import get_aot_decomposition_list, get_inf_decomposition_list

    settings = {"device": "CPU", **options, "aot_autograd": True, "config": {**DEFAULTS, **(options.get("config") or {})}}
    wanted = [*settings.get("decompositions", ()), *get_inf_decomposition_list(), *get_aot_decomposition_list()]
    compile_as = partial(compile_graph, emit=emit, settings=settings)
    return backend_of(compile_as, decompositions={**get_decompositions(wanted), **{op: own[op] for op in wanted if op in own}})


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
        emit_aot_graph(emit, gm, graph)
        with as_asked():
            call = observed_backend(gm, inputs, dict(settings), emit=emit, graph=graph, defaults=DEFAULTS, frees=True)

    def results(arguments: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(copied(value, arguments, like) for value, like in zip(call(arguments), likes, strict=True))

    return boxed(results)


@contextmanager
def as_asked() -> Iterator[None]:
    """Make OpenVINO's backend take only its given options inside the block, not an earlier call's, and never use Inductor."""
    from openvino.frontend.pytorch.torchdynamo import backend

    def refused(*args: Any, **kwargs: Any) -> Any:
        error = sys.exception()
        raise OpenVinoError(f"OpenVINO's backend could not partition the graph: {type(error).__name__}: {error}") from error

    with (
        replaced_in_plain_sight(backend, "compile_fx", lambda _: refused),
        replaced_in_plain_sight(backend, "openvino_options", lambda _: {}),
    ):
        yield


def copied(value: Any, arguments: Sequence[Any], like: Any) -> Any:
    """Copy a result to new memory, with the strides of the graph's result `like`. Inputs and non-tensors are returned as is."""
    import torch

    if not isinstance(value, torch.Tensor) or any(value is given for given in arguments):
        return value
    return value.clone() if like is None else with_strides_of(value.clone(), like)
