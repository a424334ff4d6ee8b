"""Run a program that is traced for an absent GPU on the CPU, with the GPU's behaviour."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.autocast import lists_of_the_gpu
from explorer.capture.absent.helion_kernels import without_measuring
from explorer.capture.absent.measured import Assume, ignore_assumption
from explorer.capture.absent.user_kernels import launched_on_the_cpu
from explorer.capture.observe.patch import replaced, replaced_in_plain_sight

if TYPE_CHECKING:
    from explorer.capture.absent.launches import Launches

#: The names that a program may give the GPU.
GPUS = ("cuda", "xpu", "mps")
#: Attributes of an autocast that was made for a GPU: which, and what was on before it.
NAMED, BEFORE = "explorer_gpu", "explorer_before"
#: Whether the program runs in place of the GPU here, and whether autocast is for the device that it names all the same.
_IN_PLACE: ContextVar[bool] = ContextVar("explorer in place of the GPU", default=False)
_AS_NAMED: ContextVar[bool] = ContextVar("explorer autocast as named", default=False)


@contextmanager
def in_place_of_gpu(launches: Launches | None = None, device: str = "cuda", assume: Assume = ignore_assumption) -> Iterator[None]:
    """Interpret Triton kernels, apply the GPU's autocast on the CPU, and let flex_attention and Helion's kernels run there.

    `launches` notes what the program launches outside of torch.compile, `device` is torch's type of the GPU, `assume` records
    the config of a Helion kernel that has none. A block inside such a block changes nothing.
    """
    if _IN_PLACE.get():
        yield
        return
    before = _IN_PLACE.set(True)
    try:
        with launched_on_the_cpu(launches), _autocast_on_the_cpu(device), _flex_attention_trains(), without_measuring(assume):
            yield
    finally:
        _IN_PLACE.reset(before)


@contextmanager
def _autocast_on_the_cpu(device: str) -> Iterator[None]:
    """Make `torch.autocast("cuda")` cast what runs on the CPU, where it would only warn; by default to float16.

    It casts by the GPU's lists, which differ from the CPU's. The GPU's own autocast state is set too, since the program may
    ask for it.
    """
    import torch

    autocast = torch.amp.autocast_mode.autocast

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
            if device_type in GPUS and not _AS_NAMED.get():
                vars(self)[NAMED] = device_type
                device_type, dtype = "cpu", dtype or torch.get_autocast_dtype(device_type)
            original(self, device_type, dtype, *args, **kwargs)

        return __init__

    def make_enter(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __enter__(self: Any) -> Any:
            gpu = vars(self).get(NAMED)
            if gpu is not None and BEFORE not in vars(self):  # blocks of this kind may be inside one another
                vars(self)[BEFORE] = torch.is_autocast_enabled(gpu), torch.get_autocast_dtype(gpu)
                torch.set_autocast_enabled(gpu, self._enabled)
                torch.set_autocast_dtype(gpu, self.fast_dtype)
            return original(self)

        return __enter__

    def make_exit(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __exit__(self: Any, *args: Any) -> Any:
            gpu, before = vars(self).get(NAMED), vars(self).pop(BEFORE, None)
            if before is not None:
                torch.set_autocast_enabled(gpu, before[0])
                torch.set_autocast_dtype(gpu, before[1])
            return original(self, *args)

        return __exit__

    with replaced(autocast, "__init__", make), lists_of_the_gpu(device):
        with replaced(autocast, "__enter__", make_enter), replaced(autocast, "__exit__", make_exit):
            yield


@contextmanager
def autocast_on_the_gpu() -> Iterator[None]:
    """Restore autocast for the device that it names, while a graph is compiled for the absent GPU."""
    before = _AS_NAMED.set(True)
    try:
        yield
    finally:
        _AS_NAMED.reset(before)


class _OnTheGPU:
    """Stands for a tensor on the GPU: flex_attention asks only for its device."""

    device = types.SimpleNamespace(type="cuda")


@contextmanager
def _flex_attention_trains() -> Iterator[None]:
    """Make flex_attention treat tensors on the CPU as it treats those on a GPU.

    On the CPU it refuses tensors that require gradients, and its kernel does not write the log-sum-exp that the backward's
    kernel reads.
    """
    from torch.nn.attention import flex_attention as module

    def make_validate(found: Callable[..., Any]) -> Callable[..., Any]:
        original = inspect.unwrap(found)  # as below

        @functools.wraps(original)
        def _validate_device(query: Any, key: Any, value: Any) -> None:
            if query.device.type != "cpu":
                original(query, key, value)

        return _validate_device

    def make_options(found: Callable[..., Any]) -> Callable[..., Any]:
        original = inspect.unwrap(found)  # Dynamo guards on what is called here, which blocks inside one another share

        @functools.wraps(original)
        def _apply_kernel_options(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            if query.device.type == "cpu":
                return original(_OnTheGPU, _OnTheGPU, _OnTheGPU, *args, **kwargs)
            return original(query, key, value, *args, **kwargs)

        return _apply_kernel_options

    with ExitStack() as stack:
        stack.enter_context(replaced_in_plain_sight(module, "_validate_device", make_validate))
        stack.enter_context(replaced_in_plain_sight(module, "_apply_kernel_options", make_options))
        yield
