"""Answer torch's and triton's questions about an absent GPU during one Inductor call.

Everything here is a context manager; `pretending` is all of them. Inside it torch.cuda, or torch.xpu for an Intel GPU, the
device interface, triton's driver and torch's C++ libraries describe the target, and torch's other kinds of device are not
there. For an Apple GPU torch.backends.mps answers alone: Inductor writes its kernels without triton. Nothing is allocated on
the target, launched on it or timed on it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.measured import Assume, ignore_assumption, measured_on_the_cpu
from explorer.capture.absent.mps import mps_attention, mps_linear
from explorer.capture.absent.native import cpp_answers
from explorer.capture.absent.xpu import xpu_attention, xpu_lowerings
from explorer.capture.ladder.absent_driver import AbsentDriver
from explorer.capture.observe.patch import added, beside, compile_lock, guarded, is_replaced_here, replaced, replaced_pure
from explorer.capture.observe.versions import release_of_libraries
from explorer.reference.gpus.figures import DEVICES
from explorer.reference.gpus.properties import torch_properties

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

#: torch's types of the devices that can be absent GPUs.
GPU_TYPES = frozenset(DEVICES.values())
#: What starts a GPU's driver, changes the device or asks for a capture, with one answer for the program and for Inductor.
STARTED = ("_lazy_init", "_lazy_call", "_exchange_device", "_maybe_exchange_device", "is_current_stream_capturing")


@contextmanager
def pretending(target: Target, assume: Assume = ignore_assumption) -> Iterator[None]:
    """Make torch and triton see the target as the machine's only GPU inside the block.

    `assume` is told what torch would have found out by running an operator on the GPU.
    """
    with ExitStack() as stack:
        # Functions answer so in this thread alone. What is no function, and what torch's C++ side answers, every thread would
        # see: none compiles while this one holds the lock, be it for a compile or for the interpreter.
        stack.enter_context(compile_lock())
        stack.enter_context(cpp_answers(target))
        stack.enter_context(_versions(target))
        stack.enter_context(_torch_device(target))
        if target.device != "mps":
            stack.enter_context(_interface(target))
            stack.enter_context(_triton_driver(target))
        stack.enter_context(_fake_tensors())
        stack.enter_context(measured_on_the_cpu(assume))
        stack.enter_context(_constants())
        stack.enter_context(_import_time_choices(target))
        stack.enter_context(_fresh_answers())
        yield


class DeviceProperties(types.SimpleNamespace):
    """A device's properties, as a separate type: Dynamo checks the type of an object that it turns into a constant."""


def properties(target: Target) -> DeviceProperties:
    """The target's device properties, as torch.cuda or torch.xpu gives them; memory in bytes, clocks in kHz or MHz.

    For an Intel GPU these are the ones that the installed torch documents, since they differ between releases.
    """
    if target.device == "xpu":
        import torch

        documented = str(torch.xpu.get_device_properties.__doc__)
        return DeviceProperties(**{name: fact for name, fact in target.xpu.items() if f"``{name}``" in documented})
    return DeviceProperties(**torch_properties(target))


@contextmanager
def _all(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Replace each attribute of `owner` that exists by the given value."""
    with ExitStack() as stack:
        for name, value in values.items():
            if hasattr(owner, name):
                stack.enter_context(replaced_pure(owner, name, _instead(value)))  # the value does not call it
        yield


@contextmanager
def _all_here(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Replace each attribute of the class or module that exists by the given value, in this thread alone."""
    with ExitStack() as stack:
        for name, value in values.items():
            if hasattr(owner, name):
                stack.enter_context(added(owner, name, value))
        yield


def guarded_property(owner: type, name: str, get: Callable[[Any], object]) -> property:
    """Make a property that stands for a class's own: where `get` fails, the compile for the GPU is given up.

    `added` guards who reads it, not the function that it calls: an error of that would be taken for torch's.
    """
    own = inspect.getattr_static(owner, name)
    return property(guarded(own.fget, lambda _: get, f"{owner.__name__}.{name}"))


def _instead(value: Any) -> Callable[[Any], Any]:
    return lambda original: value


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


#: The answers of a module of torch's whose kind of device is not there.
NO_DEVICE: Mapping[str, Any] = types.MappingProxyType(
    {"is_available": _always(False), "device_count": _always(0), "_is_compiled": _always(False)}
)


@contextmanager
def _versions(target: Target) -> Iterator[None]:
    """Make torch.version name the toolkit of a build for the target, and no other."""
    import torch.version

    published = release_of_libraries()
    values: dict[str, str | None] = {"cuda": None, "hip": None, "xpu": None}
    installed = getattr(torch.version, target.backend, None)
    if target.backend in values:
        values[target.backend] = installed or {"cuda": published.cuda, "hip": published.hip, "xpu": published.xpu}[target.backend]
    with _all_here(torch.version, values):
        yield


@contextmanager
def _torch_device(target: Target) -> Iterator[None]:
    """Make torch.cuda, torch.xpu or torch.backends.mps describe the target and start nothing; the others see no device."""
    import torch

    if target.device == "mps":
        one = {"is_available": _always(True), "device_count": _always(1)}
        with ExitStack() as stack:
            for module, answers in ((torch.backends.mps, _answers_of_mps(target)), (torch.mps, one)):
                stack.enter_context(_all(module, answers))
            for module in (torch.cuda, torch.xpu):
                stack.enter_context(_all(module, NO_DEVICE))
            yield
        return
    module, other = (torch.xpu, torch.cuda) if target.device == "xpu" else (torch.cuda, torch.xpu)
    started = {"_lazy_init": _always(None), "_lazy_call": _always(None)}
    answers = {name: answer for name, answer in _answers(target).items() if not _answered_before(module, name)}
    started = {name: answer for name, answer in started.items() if not _answered_before(module.random, name)}
    with _all(module, answers), _all(module.random, started), _all(other, NO_DEVICE):
        yield


def _answered_before(owner: Any, name: str) -> bool:
    """Whether `torch_cuda_answers` gives this thread the same answer already, which is then replaced once."""
    return name in STARTED and hasattr(owner, name) and is_replaced_here(owner, name)


def _answers(target: Target) -> dict[str, Any]:
    """The answers of torch.cuda's or torch.xpu's functions for the target."""
    import torch

    state = torch.zeros(16, dtype=torch.uint8)
    described = properties(target)
    names = {"nvidia": f"sm_{target.arch}", "intel": f"intel_gpu_{str(target.arch).replace('.', '_')}"}
    capability = vars(described) if target.device == "xpu" else (described.major, described.minor)
    return {
        **({"_is_compiled": _always(True)} if target.device == "xpu" else {}),
        "is_available": _always(True),
        "is_initialized": _always(True),
        "_lazy_init": _always(None),
        "_lazy_call": _always(None),
        "device_count": _always(1),
        "current_device": _always(0),
        "set_device": _always(None),
        "_exchange_device": _always(0),
        "_maybe_exchange_device": _always(0),
        "get_device_properties": _always(described),
        "get_device_capability": _always(capability),
        "get_device_name": _always(described.name),
        "get_arch_list": _always([names.get(target.vendor, str(target.arch))]),
        "is_current_stream_capturing": _always(False),
        "can_device_access_peer": _always(False),
        "synchronize": _always(None),
        "empty_cache": _always(None),
        "mem_get_info": _always((target.memory, target.memory)),
        "memory_allocated": _always(0),
        "get_rng_state": lambda *args: state.clone(),
        "set_rng_state": _always(None),
        "default_generators": (_generator(torch.device(target.device, 0)),),
    }


def _generator(of: Any) -> Any:
    """Make a generator that says it is the GPU's: AOTAutograd asks where a checkpoint repeats a random operator."""
    import torch

    class Generator(torch.Generator):  # type: ignore[misc]
        """Has the numbers of a CPU's generator, and shares them with its clones."""

        device = of

        def clone_state(self) -> Any:
            return self

    return Generator()


def _answers_of_mps(target: Target) -> dict[str, Any]:
    """The answers of torch.backends.mps for the target, under a macOS that has all that torch asks for."""
    return {
        "is_built": _always(True),
        "is_available": _always(True),
        "is_macos_or_newer": _always(True),
        "is_macos13_or_newer": _always(True),
        "get_name": _always(target.title),
        "get_core_count": _always(target.multiprocessors),
    }


@contextmanager
def _interface(target: Target) -> Iterator[None]:
    """Make Dynamo's device interface answer as torch.cuda or torch.xpu does."""
    import torch
    from torch._dynamo import device_interface

    device_interface.get_interface_for_device("cpu")  # the table is filled at the first question
    base = device_interface.XpuInterface if target.device == "xpu" else device_interface.CudaInterface
    module = getattr(torch, target.device)
    worker = type(
        "Worker",
        (base.Worker,),
        {
            "current_device": staticmethod(_always(0)),
            "get_device_properties": staticmethod(_always(properties(target))),
        },
    )
    answers = {
        name: staticmethod(getattr(module, name))
        for name in (
            "current_device",
            "set_device",
            "device_count",
            "synchronize",
            "get_device_properties",
            "is_available",
            "memory_allocated",
            "is_bf16_supported",
        )
    }
    answers |= {
        "exchange_device": staticmethod(_always(0)),
        "maybe_exchange_device": staticmethod(_always(0)),
        "get_raw_stream": staticmethod(_always(0)),
    }
    if target.device == "xpu":  # it asks for triton's Intel backend, which Inductor's own stages do without
        answers["raise_if_triton_unavailable"] = staticmethod(_always(None))
    interface = type(base.__name__, (base,), {**answers, "Worker": worker})
    table = {**device_interface.device_interfaces, target.device: interface, f"{target.device}:0": interface}
    kept: dict[str, Any] = {"caching_worker_device_properties": {}, "caching_worker_current_devices": {}}
    with _all(device_interface, {"device_interfaces": table, **kept}):
        yield


class InductorDriver(AbsentDriver):
    """Triton's driver for an absent GPU as Inductor sees it: the tensors, which are fake, are on the target."""

    def get_active_torch_device(self) -> Any:
        """The target's first device."""
        import torch

        return torch.device(self._target.device, 0)

    def get_device_interface(self) -> Any:
        """torch.cuda or torch.xpu, which describes the target here."""
        import torch

        return getattr(torch, self._target.device)


@contextmanager
def _triton_driver(target: Target) -> Iterator[None]:
    """Make triton's active driver name the target and its figures."""
    import triton.testing
    from torch._inductor.runtime import triton_helpers
    from triton.runtime.driver import driver

    absent = InductorDriver(target)
    clock = [int(target.clock / 1e6)]
    with _all_here(type(driver), {"active": property(_always(absent))}), _all(triton.testing, {"nvsmi": _always(clock)}):
        with _all(triton_helpers, {"set_driver_to_gpu": _always(None)}), _backend_hash(target):
            yield


@contextmanager
def _backend_hash(target: Target) -> Iterator[None]:
    """Replace the hash of triton's backend, which Inductor writes into each kernel, if triton has no backend."""
    from torch.utils import _triton

    from explorer.capture.ladder.triton_tools import missing_backend

    with _all(_triton, {"triton_hash_with_backend": _always("NO_BACKEND")} if missing_backend(target) else {}):
        yield


@contextmanager
def _fake_tensors() -> Iterator[None]:
    """Keep fake tensors on the GPU from starting CUDA, and from sharing cached results with other devices."""
    from collections import defaultdict

    from torch._subclasses import fake_tensor

    kept = {"cache": {}, "cache_hits": 0, "cache_misses": 0, "cache_bypasses": defaultdict(int)}
    avoid = {"avoid_device_init": guarded_property(fake_tensor.FakeTensorMode, "avoid_device_init", lambda mode: True)}
    with _all(fake_tensor, {"init_gpu_context": _always(None)}), _all_here(fake_tensor.FakeTensorMode, avoid):
        with _all(fake_tensor.FakeTensorMode, kept):
            yield


@contextmanager
def _constants() -> Iterator[None]:
    """Keep on the CPU what tracing and constant folding compute for real, such as torch.tensor([1.0], device=x.device).

    A constant that the code has on the GPU is not copied there. It keeps its name, as if it had been created there.
    """
    from torch._inductor.constant_folding import ConstantFolder
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental import proxy_tensor

    mode = _real_on_cpu()

    make_unset = beside(mode, "unset_fake_temporarily", inside=True)

    def make_call(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return original(*args, **kwargs)

        return call

    with ExitStack() as stack:
        stack.enter_context(replaced(proxy_tensor, "unset_fake_temporarily", make_unset))
        stack.enter_context(replaced(ConstantFolder, "run", make_call))
        stack.enter_context(replaced(GraphLowering, "constant_name", lambda _: lambda self, name, device: name))
        stack.enter_context(replaced(UniformValueConstantFolder, "__init__", make_call))
        yield


def _real_on_cpu() -> Any:
    """A dispatch mode that creates on the CPU what would be created on the GPU."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    def moved(value: Any) -> Any:
        return torch.device("cpu") if isinstance(value, torch.device) and value.type in GPU_TYPES else value

    class RealOnCpu(TorchDispatchMode):  # type: ignore[misc]
        """Runs operators on real tensors on the CPU."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(isinstance(leaf, torch._subclasses.FakeTensor) for leaf in pytree.arg_tree_leaves(*args, **(kwargs or {}))):
                return func(*args, **(kwargs or {}))
            args, kwargs = pytree.tree_map(moved, (args, kwargs or {}))
            if kwargs.get("pin_memory"):  # pinning memory needs the GPU's driver
                kwargs["pin_memory"] = False
            return func(*args, **kwargs)

    return RealOnCpu


@contextmanager
def _import_time_choices(target: Target) -> Iterator[None]:
    """Repeat for an AMD or Intel GPU what Inductor decides from torch's build when it is imported."""
    from torch._inductor import config
    from torch._inductor.runtime import hints

    with ExitStack() as stack:
        if target.backend == "hip" and not _built_for_hip():
            stack.enter_context(config.patch({"layout_optimization": False, "triton.spill_threshold": 32}))
            stack.enter_context(_all(hints, {"TRITON_MAX_BLOCK": {**hints.TRITON_MAX_BLOCK, "X": 8192}}))
        if target.device == "xpu":
            stack.enter_context(xpu_lowerings())
            stack.enter_context(xpu_attention())
        if target.device == "mps":
            stack.enter_context(mps_attention())
            stack.enter_context(mps_linear())
        yield


def _built_for_hip() -> bool:
    import torch

    return hasattr(torch._C, "_CudaDeviceProperties") and not hasattr(torch._C, "_cudnn")


#: Modules whose cached functions answer questions about the device.
CACHING = (
    "torch.utils._triton",
    "torch._inductor.utils",
    "torch._inductor.comm_analysis",
    "torch._inductor.kernel.mm",
    "torch._inductor.kernel_inputs",
    "torch._inductor.codegen.cuda.cuda_env",
    "torch._inductor.codegen.triton_utils",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.analysis.device_info",
)
#: A module that imported one of these functions by name, and keeps it while `user_kernels` replaces the original.
BESIDE = ("torch._inductor.scheduler",)
#: Cached methods that answer questions about the device.
CACHED_METHODS = (
    ("torch._inductor.runtime.hints", "DeviceProperties", "create"),
    ("torch._inductor.codecache", "CacheBase", "get_system"),
    ("torch._inductor.codegen.triton", "TritonKernel", "gen_common_triton_imports"),
)
#: Cached functions of those modules that must keep their entries: they fill pattern tables, once.
NOT_DEVICE = ("_pad_mm_init", "lazy_init")


@contextmanager
def _fresh_answers() -> Iterator[None]:
    """Drop torch's cached answers about devices before and after the block."""
    forget_devices()
    try:
        yield
    finally:
        forget_devices()


def forget_devices() -> None:
    """Drop torch's cached answers about devices, so that torch asks again."""
    import sys
    from functools import _lru_cache_wrapper

    for name in (*CACHING, *BESIDE):
        for function in vars(sys.modules.get(name, types)).values():
            own = isinstance(function, _lru_cache_wrapper) and function.__module__ in CACHING
            if own and function.__name__ not in NOT_DEVICE:
                function.cache_clear()
    for module, kind, method in CACHED_METHODS:
        cached = getattr(getattr(sys.modules.get(module), kind, None), method, None)
        clear = getattr(cached, "cache_clear", None) or getattr(getattr(cached, "__func__", None), "cache_clear", None)
        if clear is not None:
            clear()
