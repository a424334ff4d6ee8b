"""A program that is traced for a GPU that is not there runs on the CPU, and does there what it would do on the GPU."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from explorer.absent.autocast import lists_of_the_gpu
from explorer.absent.user_kernels import launched_on_the_cpu
from explorer.observe.patch import replaced, replaced_in_plain_sight

if TYPE_CHECKING:
    from explorer.absent.launches import Launches

#: The names that a program may give the GPU.
GPUS = ("cuda", "xpu")
#: Attributes of an autocast that was made for a GPU: which, and what was on before it.
NAMED, BEFORE = "explorer_gpu", "explorer_before"


@contextmanager
def in_place_of_gpu(launches: Launches | None = None) -> Iterator[None]:
    """Inside the block Triton kernels are interpreted, autocast for a GPU holds on the CPU, and flex_attention trains.

    With `launches` what the program launches outside of torch.compile is noted there.
    """
    with launched_on_the_cpu(launches), _autocast_on_the_cpu(), _flex_attention_trains():
        yield


@contextmanager
def _autocast_on_the_cpu() -> Iterator[None]:
    """`torch.autocast("cuda")` casts what runs on the CPU, where it would do nothing but warn; to float16, if nothing is said.

    It casts what it would on the GPU, which is not what autocast for the CPU casts. Whether it is on, and for which type, is
    said of the GPU too, as the program asks it.
    """
    import torch

    autocast = torch.amp.autocast_mode.autocast

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
            if device_type in GPUS:
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

    with replaced(autocast, "__init__", make), lists_of_the_gpu():
        with replaced(autocast, "__enter__", make_enter), replaced(autocast, "__exit__", make_exit):
            yield


@contextmanager
def autocast_on_the_gpu() -> Iterator[None]:
    """Inside the block, while the GPU is pretended to be there, autocast is for the device that it names."""
    import torch

    with replaced(torch.amp.autocast_mode.autocast, "__init__", inspect.unwrap):
        yield


class _OnTheGPU:
    """What flex_attention asks of a tensor: its device."""

    device = types.SimpleNamespace(type="cuda")


@contextmanager
def _flex_attention_trains() -> Iterator[None]:
    """flex_attention takes tensors on the CPU for what they are on the GPU.

    On the CPU it refuses those that ask for a gradient, and has its kernel not write the logarithms of the sums, which
    the kernel of the backward reads.
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
