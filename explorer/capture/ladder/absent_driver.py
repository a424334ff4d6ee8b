"""Triton's driver for an absent GPU."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from explorer.reference.gpus.properties import triton_properties

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target


class AbsentDriver:
    """Triton's driver for an absent GPU: it names the target and its figures, and launches nothing.

    These are the answers that triton's front end needs. What runs programs for the target, and what hands graphs to
    Inductor, each has a subclass with more.
    """

    def __init__(self, target: Target, device: object = 0) -> None:
        self._target = target
        self.device = device
        self.utils = types.SimpleNamespace(get_device_properties=lambda device: triton_properties(target))
        self.binary_ext = {"cuda": "cubin", "hip": "hsaco", "xpu": "spv"}.get(target.backend, "")

    def get_current_target(self) -> Any:
        """Triton's GPUTarget."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(*self._target.triple)

    def get_current_device(self) -> Any:
        """The only device; triton's kernel caches are by device."""
        return self.device

    def set_current_device(self, device: object) -> None:
        """Change nothing: there is one device."""

    def get_current_stream(self, device: object = None) -> int:
        """No stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The CPU, which holds the arguments."""
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        """A benchmarker that gives 0.0: nothing can be timed on an absent GPU."""
        return lambda *args, **kwargs: 0.0

    def is_active(self) -> bool:
        """True: the target is the GPU in use."""
        return True
