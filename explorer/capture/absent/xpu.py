"""Make the choices of torch's build for Intel GPUs, during one compile.

A build for the CPU has no place where an XPU's choice of an attention operator could be put: its table of choices has no
entry for that device. So the operator itself is given a Python kernel, which Dynamo's and AOTAutograd's traces ask first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

#: XPU's order of attention backends, used if the user set no order.
ORDER = ("OVERRIDEABLE", "FLASH_ATTENTION", "MATH", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
#: torch's default order.
UNTOUCHED = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION", "OVERRIDEABLE")
#: The largest head size of oneDNN's attention, and of the flash attention made with SYCL-TLA.
LARGEST_HEAD, LARGEST_FLASH_HEAD = 576, 192


@contextmanager
def xpu_lowerings() -> Iterator[None]:
    """Keep the backward of an embedding an operator, as an XPU build's lowerings do."""
    import torch
    from torch._inductor import lowering

    with ExitStack() as stack:
        if not torch._C._has_xpu:
            for table in (lowering.lowerings, lowering.fallbacks, lowering.needs_realized_inputs):
                stack.enter_context(_restored(table))
            lowering.make_fallback(torch.ops.aten.embedding_dense_backward, warn=False)
        yield


@contextmanager
def _restored(table: Any) -> Iterator[None]:
    """Restore a dict or set to its contents after the block."""
    before = table.copy()
    try:
        yield
    finally:
        table.clear()
        table.update(before)


@contextmanager
def xpu_attention() -> Iterator[None]:
    """Make `scaled_dot_product_attention` on an XPU the operator that XPU would choose."""
    import torch

    if torch._C._has_xpu:  # its own choice is there
        yield
        return
    with attention_on("xpu", _attention):
        yield


@contextmanager
def attention_on(device: str, attend: Callable[..., Any]) -> Iterator[None]:
    """Compute `scaled_dot_product_attention` of tensors on `device` by `attend`, and others by ATen's own decomposition.

    `attend` gets all arguments of the operator by position, in the order of its schema.
    """
    import torch

    operator = torch.ops.aten.scaled_dot_product_attention.default
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    before = operator.py_kernels.get(composite)

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        given = (query, key, value, attn_mask, dropout_p, is_causal)
        if query.device.type != device:
            return operator._op_dk(composite, *given, scale=scale, enable_gqa=enable_gqa)
        return attend(*given, scale, enable_gqa)

    operator.py_kernels[composite] = attention
    operator._dispatch_cache.clear()
    try:
        yield
    finally:
        del operator.py_kernels[composite]
        if before is not None:
            operator.py_kernels[composite] = before
        operator._dispatch_cache.clear()


def _attention(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None, grouped: bool
) -> Any:
    """Call the operator that an XPU chooses."""
    import torch

    aten = torch.ops.aten
    chosen = choice(query, key, value, mask, dropout, causal, grouped)
    if chosen == "FLASH_ATTENTION":
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout, causal, False, scale=scale)[0]
    given = (query, key, value, additive(mask, query), dropout, causal)
    if chosen == "OVERRIDEABLE":
        return aten._scaled_dot_product_fused_attention_overrideable(*given, False, scale=scale)[0]
    return aten._scaled_dot_product_attention_math(*given, None, scale=scale, enable_gqa=grouped)[0]


def additive(mask: Any, query: Any) -> Any:
    """Convert a boolean mask to an additive one of the query's dtype, as ATen does; others stay."""
    import torch

    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=mask.device))


def choice(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, grouped: bool) -> str:
    """Return the attention backend that torch chooses on an XPU; "MATH" if no other takes the tensors.

    The order and the conditions follow aten/src/ATen/native/mkldnn/xpu/Attention.cpp and
    aten/src/ATen/native/transformers/xpu/sdp_utils.cpp: oneDNN's ("overrideable") first, for inference only; then flash
    attention in half precision, without a mask. Neither takes dropout.
    """
    import torch
    from torch.nn.attention import SDPBackend

    fused = dropout == 0 and _dense(query, key, value, mask, grouped)
    takes = {
        "OVERRIDEABLE": fused and torch._C._get_overrideable_sdp_enabled() and _overrideable(query, key, value, mask),
        "FLASH_ATTENTION": fused and torch._C._get_flash_sdp_enabled() and _flash(query, key, value, mask, causal),
        "MATH": torch._C._get_math_sdp_enabled(),
    }
    own = [SDPBackend(number).name for number in torch._C._get_sdp_priority_order()]
    order = ORDER if own == list(UNTOUCHED) else own
    return next((name for name in order if takes.get(name)), "MATH")


def _dense(query: Any, key: Any, value: Any, mask: Any, grouped: bool) -> bool:
    """The conditions of every fused kernel: four dimensions, one dtype, sizes that fit, and nothing between elements."""
    tensors = (query, key, value)
    if any(t.is_nested or t.dim() != 4 or t.dtype != query.dtype for t in tensors):
        return False
    heads = [t.shape[1] for t in tensors]
    same = heads[1] == heads[2] and (heads[0] % heads[1] == 0 if grouped else heads[0] == heads[1])
    filled = query.shape[2] != 0 and key.shape[2] != 0
    fits = same and filled and query.shape[0] == key.shape[0] and query.shape[0] == value.shape[0]
    return bool(fits) and all(bool(t.stride(-1) == 1) for t in (*tensors, *([] if mask is None else [mask])))


def _overrideable(query: Any, key: Any, value: Any, mask: Any) -> bool:
    """The conditions of oneDNN's attention."""
    import torch

    if torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value)):
        return False
    head, dtypes = query.shape[-1], (torch.float32, torch.bfloat16, torch.float16)
    small = head == key.shape[-1] and head <= LARGEST_HEAD and value.shape[-1] <= LARGEST_HEAD
    return query.dtype in dtypes and bool(small) and _mask_fits(mask, query, key)


def _flash(query: Any, key: Any, value: Any, mask: Any, causal: bool) -> bool:
    """The conditions of flash attention, which the released builds for Linux have."""
    import torch

    if mask is not None or torch.are_deterministic_algorithms_enabled():
        return False
    head, dtypes = query.shape[-1], (torch.float16, torch.bfloat16)
    same = head == key.shape[-1] and head == value.shape[-1] and head <= LARGEST_FLASH_HEAD
    square = not causal or query.shape[-2] == key.shape[-2]
    return query.dtype in dtypes and bool(same) and bool(square)


def _mask_fits(mask: Any, query: Any, key: Any) -> bool:
    """Whether a mask has two or four dimensions, each the scores' or 1, and requires no gradient."""
    if mask is None:
        return True
    if mask.requires_grad or mask.dim() not in (2, 4):
        return False
    scores = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return all(bool(size in (1, wanted)) for size, wanted in zip(reversed(mask.shape), reversed(scores), strict=False))
