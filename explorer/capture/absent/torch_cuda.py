"""Make `torch.cuda` describe an absent GPU to a program, outside of Inductor's compiles.

Answered is what the functions of torch.cuda ask below themselves. They stay as they are: Dynamo knows by the function what it
may fold into a constant, and what ends a graph.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from explorer.capture.observe.patch import (
    Guard,
    answered,
    guard_here,
    guarded_always,
    guarding,
    replaced,
    replaced_in_plain_sight,
    replaced_pure,
)
from explorer.capture.observe.versions import device_switches
from explorer.errors import InputError

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

JITERATOR = (
    "a jiterator function is compiled by its GPU's driver when it is called, and that GPU is not attached: run the program on "
    "the GPU itself, with target='cuda', or write the function as a Triton kernel"
)

GENERATOR = (
    "a generator on a GPU is created by that GPU's driver, and that GPU is not attached: call torch.manual_seed(…) and give no "
    "generator, or run the program on the GPU itself, with target='cuda'"
)

STREAM = (
    "a stream or an event is created by its GPU's driver, and that GPU is not attached: leave streams and events out of what is "
    "compiled, or run the program on the GPU itself, with target='cuda'"
)

DRIVER = (
    "a GPU's driver was asked, and that GPU is not attached: leave streams and events out of what is compiled, call "
    "torch.manual_seed(…) and give no generator, or run the program on the GPU itself, with target='cuda'"
)


#: Whether torch.cuda answers this thread for the machine itself.
_THIS_MACHINES: ContextVar[bool] = ContextVar("explorer torch.cuda of this machine", default=False)


@contextmanager
def torch_cuda_of_this_machine() -> Iterator[None]:
    """Restore torch.cuda's own answers inside the block, for code that is compiled for this machine."""
    from explorer.capture.absent.absent_gpu import forget_devices

    before = _THIS_MACHINES.set(True)
    forget_devices()
    try:
        yield
    finally:
        _THIS_MACHINES.reset(before)
        forget_devices()


@contextmanager
def torch_cuda_answers(target: Target) -> Iterator[None]:
    """Make torch.cuda report the target inside the block, idle and with empty memory."""
    import torch
    from torch._dynamo.variables.ctx_manager import CUDADeviceVariable
    from torch._dynamo.variables.streams import SymbolicStreamState
    from torch.cuda import jiterator

    from explorer.capture.absent.absent_gpu import forget_devices
    from explorer.capture.absent.native import forget_starts

    if target.device != "cuda" or torch.cuda.is_available():
        yield
        return
    seeing = guard_here()
    guard = _outside_of_inductor(seeing)
    with ExitStack() as stack:
        stack.callback(forget_starts)
        stack.enter_context(_built_for(seeing))
        for owner, answers in ((torch.cuda, _STARTED), (torch.cuda.random, _IMPORTED)):
            for name, answer in answers.items():  # Inductor's own questions get the same answer, see `pretending`
                stack.enter_context(answered(owner, name, answer))
        with guarding(guard):  # only what is put on here: not what is inside the block
            stack.enter_context(_DEVICES.to(guard))
            for owner, answers in ((torch._C, _below(target)), (torch.cuda, _of_module(target))):
                for name, answer in answers.items():
                    stack.enter_context(answered(owner, name, answer))
            for name in device_switches():  # Dynamo's own of `with torch.cuda.device(0)`
                stack.enter_context(replaced(CUDADeviceVariable, name, lambda _: staticmethod(_the_only_device)))
            if not device_switches():
                for name in ("enter", "exit"):
                    stack.enter_context(replaced(CUDADeviceVariable, name, _switching_nothing))
            stack.enter_context(_properties_are_constants())
            stack.enter_context(replaced(SymbolicStreamState, "__init__", partial(_without_streams, guard)))
            stack.enter_context(replaced(SymbolicStreamState, "cur_stream", _a_stream_begun))
            stack.enter_context(replaced_in_plain_sight(jiterator._JittedFunction, "__call__", lambda _: _no_jiterator))
        stack.callback(forget_devices)  # what torch found out of the target and keeps, such as that triton can be used
        yield


def _outside_of_inductor(guard: Guard) -> Guard:
    """Restrict a guard to questions from outside Inductor: recorded compiles are answered elsewhere.

    Any other compile, such as one for other arguments than the trace's, is torch's own, and for the CPU.
    """
    from torch._inductor.virtualized import NullHandler, V

    def covers() -> bool:
        return guard.acts("torch.cuda") and not _THIS_MACHINES.get() and isinstance(V.graph, NullHandler)

    return Guard(covers, guard.errors, stage=guard.stage, essential=guard.essential)


@contextmanager
def _built_for(guard: Guard) -> Iterator[None]:
    """Tell only those that the guard covers that torch was built with CUDA.

    torch asks whether `torch._C._cuda_getDeviceCount` exists, and during a trace it exists for every thread. Without this,
    another thread finds it and calls it a moment later, when the trace may have removed it.
    """
    import torch

    if torch.cuda._is_compiled() and not _BUILT.told:
        yield
        return
    with guarding(Guard(lambda: True, guard.errors)):  # it answers every thread
        built = replaced_pure(torch.cuda, "_is_compiled", lambda _: _is_built)
    with _BUILT.to(guard), built:
        yield


def _is_built() -> bool:
    return bool(_BUILT())


class _Devices:
    """The device count: one GPU for the threads that see the target, none for others."""

    def __init__(self) -> None:
        self.told: tuple[Guard, ...] = ()

    @contextmanager
    def to(self, guard: Guard) -> Iterator[None]:
        """Report one GPU inside the block to those that the guard covers."""
        self.told = (*self.told, guard)
        try:
            yield
        finally:
            self.told = tuple(other for other in self.told if other is not guard)

    def __call__(self) -> int:
        return int(any(guard.acts("torch.cuda.device_count") for guard in self.told))


_DEVICES = _Devices()

#: Those to whom torch was built with CUDA, inside Inductor too.
_BUILT = _Devices()


@contextmanager
def _properties_are_constants() -> Iterator[None]:
    """Let Dynamo make a constant of the target's properties; torch 2.11 does so with the values of a few types only."""
    from torch._dynamo.utils import common_constant_types as constant_types

    from explorer.capture.absent.absent_gpu import DeviceProperties

    if DeviceProperties in constant_types:
        yield
        return
    constant_types.add(DeviceProperties)
    try:
        yield
    finally:
        constant_types.discard(DeviceProperties)


def _without_streams(guard: Guard, original: Callable[..., Any]) -> Callable[..., Any]:
    """Let Dynamo start a frame without the current stream, which in a CUDA build only the driver can name."""
    import torch

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with guarding(guard), answered(torch.accelerator, "is_available", _always(False)):
            original(self, *args, **kwargs)

    return __init__


def _a_stream_begun(original: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse to name the current stream where the frame began without one."""

    def cur_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.cur_stream_stack:
            raise InputError(STREAM)
        return original(self, *args, **kwargs)

    return cur_stream


def _switching_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make Dynamo's node that enters or leaves `with torch.cuda.device(0)` call a function that asks no driver.

    A graph calls torch's functions by name, so a replacement during the trace does not change the graph's call.
    """

    def switch(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, tx, *args, **kwargs)
        next(iter(reversed(tx.output.graph.nodes))).target = _the_only_device
        return made

    return switch


def _below(target: Target) -> dict[str, Callable[..., Any]]:
    """Answers of torch.cuda's C++ side; other threads see no GPU, and so ask nothing more."""
    architecture = f"sm_{target.arch}" if target.vendor == "nvidia" else str(target.arch)
    return {
        "_cuda_getDeviceCount": guarded_always(_always(0), lambda _: _DEVICES, "torch._C._cuda_getDeviceCount"),
        "_cuda_getDevice": _always(0),
        "_cuda_setDevice": _always(None),
        "_cuda_exchangeDevice": _always(0),  # a graph calls these two by name
        "_cuda_maybeExchangeDevice": _always(0),
        "_cuda_synchronize": _always(None),
        "_cuda_getArchFlags": _always(architecture),
        "_cuda_canDeviceAccessPeer": _always(False),
        "_cuda_emptyCache": _always(None),
        "_cuda_getCurrentStream": _no_stream,
        "_cuda_getDefaultStream": _no_stream,
    }


def _of_module(target: Target) -> dict[str, Any]:
    """Answers inside torch.cuda. `is_initialized()` stays False, so nothing counts as allocated."""
    import torch

    from explorer.capture.absent.absent_gpu import properties

    described, memory = properties(target), int(target.memory)
    return {
        "_nvml_based_avail": _always(False),
        "_device_count_nvml": _always(-1),
        "_device_count_amdsmi": _always(-1),
        "_get_device_properties": _always(described),
        "cudart": _always(types.SimpleNamespace(cudaMemGetInfo=_always((memory, memory)))),
        "default_generators": (torch.Generator(),),
    }


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


#: What of torch.cuda starts CUDA or changes the device, which does nothing, or asks whether a CUDA graph is captured, which none
#: is; and what of it torch.cuda.random imports by name.
_STARTED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "_lazy_init": _always(None),
        "_lazy_call": _always(None),
        "_exchange_device": _always(0),
        "_maybe_exchange_device": _always(0),
        "is_current_stream_capturing": _always(False),  # torch 2.15's Dynamo asks before each frame
    }
)
_IMPORTED = MappingProxyType({name: _STARTED[name] for name in ("_lazy_init", "_lazy_call")})


def _the_only_device(index: int) -> int:
    return 0


def _no_jiterator(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise InputError(JITERATOR)


def _no_stream(*args: Any, **kwargs: Any) -> Any:
    raise InputError(STREAM)
