"""The arguments of trace and record: refuse what cannot work, and say what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from types import BuiltinFunctionType, FrameType
from typing import Any

from explorer.capture.absent.cluster import Cluster, cluster_of
from explorer.capture.absent.mps import has_dtype
from explorer.capture.compilers import backend as backends
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.observe.tensors import named_tensors
from explorer.errors import InputError, unknown_name
from explorer.lab.live.call import Call
from explorer.model.stage import Stage
from explorer.model.values import NodePairs
from explorer.reference.gpus.figures import Target
from explorer.tracing.recording.call_site import call_under_way, with_inner_call_opened

#: The registered backends that compile for a GPU you don't have; a callable of one's own does as far as it uses these.
FOR_ABSENT = ("inductor", "cudagraphs")


@dataclass(frozen=True)
class TraceRequest:
    """The arguments of one call of `trace`, by the names that they have there."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None
    target: str | Target | Cluster
    train: bool
    mode: str | None
    dynamic: bool | None
    fullgraph: bool
    backend: Any
    options: Mapping[str, Any] | None
    stages: Sequence[Stage]
    keep_apart: NodePairs = ()
    fuse: NodePairs = ()
    without_pattern: str | Sequence[str] = ()
    without_pass: str | Sequence[str] = ()
    world: int | None = None
    rank: int = 0
    check: bool = True

    @property
    def cluster(self) -> Cluster | None:
        """The cluster to compile for, None for one device; InputError for arguments that contradict each other."""
        return cluster_of(self.target, self.world, self.rank)

    def joined(self) -> AbstractContextManager[None]:
        """Be the cluster's rank inside the block, where there is a cluster."""
        cluster = self.cluster
        return cluster.joined() if cluster is not None else nullcontext()

    def compile_settings(self) -> dict[str, Any]:
        """Return the settings that torch.compile takes, but for the backend."""
        options = dict(self.options) if self.options else None
        return {"mode": self.mode, "dynamic": self.dynamic, "fullgraph": self.fullgraph, "options": options}

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of `trace`."""
        return {name: getattr(self, name) for name in keyword_names()}


#: What people write who know other tools, and what `trace` calls it.
KEYWORD_HABITS = {
    "fusion": "keep_apart",
    "device": "target",
    "gpu": "target",
    "arch": "target",
    "training": "train",
    "backward": "train",
}


def keyword_names() -> list[str]:
    """Name the keyword arguments of `trace`."""
    return [field.name for field in fields(TraceRequest) if field.name not in ("fn", "args")]


def check_request(request: TraceRequest, unknown: Mapping[str, Any], caller: FrameType) -> None:
    """Raise InputError for arguments that `trace` cannot take; `unknown` are keywords that it does not have.

    `caller` is the frame that calls `trace`.
    """
    check_function(request.fn, caller)
    if request.kwargs is not None and not isinstance(request.kwargs, Mapping):
        raise InputError(
            f"kwargs is a mapping of the function's keyword arguments, kwargs={{'x': x}}, not {type(request.kwargs).__name__}"
        )
    if advice := compiling.not_for_dynamo(request.fn):
        raise InputError(advice)
    if unknown:
        raise _unknown_keywords(unknown)
    check_stages(request.stages)
    check_settings(request)
    check_names(request)


def check_function(fn: object, caller: FrameType) -> None:
    """Raise InputError for an object that `trace` cannot call; it shows the call that the caller meant."""
    if not callable(fn):
        inner, meant = with_inner_call_opened(call_under_way(caller))
        given = f"the {type(fn).__name__} that {inner} returned" if inner else type(fn).__name__
        raise InputError(
            f"trace takes a function or module and its arguments, not {given}: write {meant or 'explorer.trace(f, x)'}"
        )
    if compiling.is_module_class(fn):
        raise InputError(f"trace takes a module, and {name_of(fn)} is a class: make one first, trace({name_of(fn)}(…), x)")


def _unknown_keywords(unknown: Mapping[str, Any]) -> InputError:
    """Build the error for keyword arguments that `trace` does not have; it offers the nearest ones."""
    names = keyword_names()
    nearest = [KEYWORD_HABITS.get(given) or _nearest(given, names) for given in unknown]
    nearest = [name for name in nearest if name]
    offer = f"did you mean {' or '.join(map(repr, nearest))}? " if nearest else ""
    placed = ", ".join(f"{name!r}: …" for name in unknown)
    given = ", ".join(map(repr, unknown))
    keyword = "Keyword" if offer else "keyword"
    return InputError(f"trace has no argument {given}: {offer}{keyword} arguments of the function go into kwargs={{{placed}}}")


def _nearest(given: str, names: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(given, names, n=1, cutoff=0.7)), "")


def check_stages(stages: object) -> None:
    """Raise InputError for stages that are not Stage values."""
    several = (stages,) if isinstance(stages, (str, Stage)) else stages
    wrong = next((s for s in several if not isinstance(s, Stage)), None) if isinstance(several, Iterable) else stages
    if wrong is not None or isinstance(stages, Stage):
        what = type(stages).__name__ if wrong is None else repr(wrong)
        raise InputError(f"stages is a sequence of explorer.types.Stage, such as (*explorer.types.STAGES, mine), not {what}")


def check_settings(request: TraceRequest) -> None:
    """Raise InputError for settings of another type than torch.compile takes."""
    if request.dynamic is not None and not isinstance(request.dynamic, bool):
        raise InputError(f"dynamic is True, False or None, not {request.dynamic!r}")
    if not isinstance(request.fullgraph, bool):
        raise InputError(f"fullgraph is True or False, not {request.fullgraph!r}")
    if not isinstance(request.check, bool):
        raise InputError(f"check is True or False, not {request.check!r}")
    if request.options is not None and not isinstance(request.options, Mapping):
        raise InputError(f"options is a mapping of Inductor's options, options={{'max_autotune': True}}, not {request.options!r}")


def check_names(request: TraceRequest) -> None:
    """Raise InputError for a backend, mode or option that torch.compile does not have."""
    backends.resolve(request.backend)
    if request.mode is not None and compiler_named(request.backend) is not None:
        raise InputError(f"mode is Inductor's, and the backend {request.backend!r} has none")
    if request.mode is not None and request.mode not in compiling.valid_modes():
        raise unknown_name("mode", request.mode, compiling.valid_modes())
    if request.mode is not None and request.options:
        raise InputError("torch.compile takes mode or options, not both: put the mode's settings into options")
    valid = {name.replace("-", "_") for name in backends.valid_options(request.backend)}
    for option, value in (request.options or {}).items():
        if valid and str(option).replace("-", "_") not in valid:
            raise unknown_name("option", option, valid)
        if request.backend == "inductor" and (kind := compiling.wrong_type(str(option), value)):
            raise InputError(f"option {option!r} is of type {kind}, not {value!r}")


def check_data(tensor_without_data: str, absent: Target | None, device: str | Target) -> None:
    """Raise InputError for a tensor without data where the function runs on a device of this machine."""
    if tensor_without_data and absent is None:
        raise InputError(
            f"{tensor_without_data} has no data (it is fake, or on the meta device), and a trace for {str(device)!r} runs the "
            "function once: name a GPU, such as target='h100', for which it is compiled and not computed; or give data, for a "
            "module by module.to_empty(device='cpu'), for a tensor by torch.empty_like(x, device='cpu')"
        )


def check_dtypes(absent: Target | None, call: Call) -> None:
    """Raise InputError for a tensor that an Apple GPU cannot hold, such as one of float64."""
    if absent is None or absent.device != "mps":
        return
    import torch

    tensors = [*named_tensors(call.args, "args"), *named_tensors(dict(call.kwargs), "kwargs")]
    if isinstance(call.function, torch.nn.Module):
        tensors += [*call.function.named_parameters(), *call.function.named_buffers()]
    for name, tensor in tensors:
        if not has_dtype(tensor.dtype):
            raise InputError(
                f"{name} is {tensor.dtype}, which no Apple GPU has: convert it, as by .float(), for target {absent.name!r}"
            )


def absent_target(device: str | Target, backend: Any, options: Mapping[str, Any] | None) -> Target | None:
    """Return the absent GPU to compile for, None for an attached device; InputError where Inductor cannot compile for it."""
    if isinstance(device, str):
        return None
    if compiling.freezes(options):
        raise InputError(
            f"freezing folds the parameters into the graph on the device itself, and {device.name!r} is not here: "
            "trace without freezing, or with target='cpu'"
        )
    if isinstance(backend, str) and backend not in FOR_ABSENT:
        works = " and ".join(map(repr, FOR_ABSENT))
        raise InputError(f"backend {backend!r} needs the device it compiles for; target {device.name!r} works with {works}")
    return device


def name_of(value: Any) -> str:
    """Return the name of a function, a module or a backend, as its author would say it."""
    if isinstance(value, str):
        return value
    if isinstance(value, BuiltinFunctionType):
        return value.__name__
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__).rpartition("<locals>.")[2]
