"""Run what XLA compiled on torch's tensors, by XLA's client on this machine's CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.capture.compilers.tensors import with_strides_of
from explorer.capture.compilers.xla.client import cpu_client

#: Where XLA expects a tensor's memory to begin.
ALIGNMENT = 64


class Module:
    """An executable that is loaded; called with a graph's inputs it gives its results, and counts the calls.

    `values` are the fake tensors of the results.
    """

    def __init__(self, executable: Any, values: Sequence[Any]) -> None:
        self.calls = 0
        self._executable = executable
        self._values = values
        self._device = cpu_client().local_devices()[0]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of the module's function `main`."""
        import torch
        from jaxlib import _jax

        given = [self._given(tensor) for tensor in inputs]
        returned = self._executable.execute(given)
        self.calls += 1
        tensors = [torch.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(value)) for value in returned]
        return [with_strides_of(own, like) for own, like in zip(tensors, self._values, strict=True)]

    def _given(self, tensor: Any) -> Any:
        """An input as XLA takes it: the same memory, where that is laid out as XLA expects."""
        from jaxlib import _jax
        from torch.utils.dlpack import to_dlpack

        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        if tensor.data_ptr() % ALIGNMENT:
            tensor = tensor.clone()
        return _jax.dlpack_managed_tensor_to_buffer(to_dlpack(tensor), self._device, None)
