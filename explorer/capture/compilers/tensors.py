"""Tensors that are handed to another compiler's module, and come back from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.errors import InputError


def check_devices(inputs: Sequence[Any], what: str) -> None:
    """InputError for tensors that are not the CPU's; `what` is run there."""
    elsewhere = {str(value.device) for value in inputs if hasattr(value, "device") and value.device.type != "cpu"}
    if elsewhere:
        raise InputError(f"explorer runs {what} on the CPU, and an input is on {elsewhere.pop()}: use target='cpu'")


def with_strides_of(tensor: Any, like: Any) -> Any:
    """A tensor with the strides that the graph's own result has, where these are known and other ones."""
    import torch

    strides = [stride for stride in like.stride() if isinstance(stride, int)]
    if len(strides) == tensor.dim() and tuple(strides) != tensor.stride() and tuple(like.shape) == tuple(tensor.shape):
        once = tensor[tuple(slice(1) if stride == 0 else slice(None) for stride in strides)]  # torch writes no expanded tensor
        return torch.empty_strided(once.shape, strides, dtype=tensor.dtype).copy_(once).expand(tensor.shape)
    return tensor
