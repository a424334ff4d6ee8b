"""Make the choices of torch's build for Apple GPUs, during one compile; a build for Linux has no kernel for MPS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from explorer.capture.absent.xpu import additive, attention_on


def has_dtype(dtype: Any) -> bool:
    """Whether a tensor on MPS can have this dtype, by torch's own interface of the device."""
    from torch._dynamo.device_interface import get_interface_for_device

    return bool(get_interface_for_device("mps").is_dtype_supported(dtype))


@contextmanager
def mps_attention() -> Iterator[None]:
    """Make `scaled_dot_product_attention` on MPS the operator that MPS would choose."""
    import torch

    if torch._C._has_mps:  # its own choice is there
        yield
        return
    with attention_on("mps", _attention):
        yield


@contextmanager
def mps_linear() -> Iterator[None]:
    """Give `linear` a kernel on MPS, as torch's build for macOS does: autograd then keeps the operator and calls its backward.

    torch has a rule of `linear_backward` for fake tensors, after aten/src/ATen/native/mps/operations/Linear.mm.
    """
    import torch

    if torch._C._has_mps:
        yield
        return
    operator = torch.ops.aten.linear.default
    library = torch.library.Library("aten", "IMPL")
    library.impl("linear", lambda *args, **kwargs: operator.decompose(*args, **kwargs), "MPS")
    operator._dispatch_cache.clear()
    try:
        yield
    finally:
        library._destroy()
        operator._dispatch_cache.clear()


def _attention(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None, grouped: bool
) -> Any:
    """Call the fused operator for inference, under macOS 15 or newer, and else the one made of products and a softmax.

    The order and the conditions follow aten/src/ATen/native/transformers/attention.cpp.
    """
    import torch

    tensors = (query, key, value)
    given = (*tensors, additive(mask, query), dropout, causal, None)
    trains = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if dropout == 0.0 and not trains and not any(tensor.is_nested for tensor in tensors):
        fused = torch.ops.aten._scaled_dot_product_attention_math_for_mps
        return fused(*given, scale=scale, enable_gqa=grouped)[0]
    return torch.ops.aten._scaled_dot_product_attention_math(*given, scale=scale, enable_gqa=grouped)[0]
