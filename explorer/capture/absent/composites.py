"""Composite operators that torch decomposes differently on the CPU, traced as for the absent GPU.

Until torch 2.11 at least, `quantile` and `nanquantile` of a tensor on the CPU read their quantiles' values to check them, which
breaks Dynamo's graph; on a GPU they do not. The tensors that Dynamo traces with are on the CPU, so the operator is given
copies of them on the meta device, and its results are moved back. On the GPU's own device autograd would ask its C++ for the
GPU, which ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.patch import guarded

#: Operators that read a tensor's value on the CPU only, which breaks Dynamo's graph.
READ_ON_CPU = ("quantile", "nanquantile")


@contextmanager
def composites_off_the_cpu() -> Iterator[None]:
    """Give these operators no fake tensor on the CPU inside the block."""
    import torch

    packets = [getattr(torch.ops.aten, name) for name in READ_ON_CPU]
    with ExitStack() as stack:
        for overload in (getattr(packet, name) for packet in packets for name in packet.overloads() if "out" not in name):
            stack.enter_context(_off_the_cpu(overload))
        yield


@contextmanager
def _off_the_cpu(overload: Any) -> Iterator[None]:
    """Make torch's Python dispatcher call the operator with tensors on the meta device."""
    from torch._C import DispatchKey

    key, kernels = DispatchKey.CompositeImplicitAutograd, overload.py_kernels
    if key in kernels:  # torch's own
        yield
        return

    def in_cpp(*args: Any, **kwargs: Any) -> Any:
        return overload._op_dk(key, *args, **kwargs)

    kernel = kernels[key] = guarded(in_cpp, _moving, f"{overload}")
    overload._dispatch_cache.clear()
    try:
        yield
    finally:
        if kernels.get(key) is kernel:
            del kernels[key]
            overload._dispatch_cache.clear()


def _moving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Move the operator's fake tensors from the CPU to the meta device, and its results back."""
    from torch._subclasses import FakeTensor
    from torch.utils import _pytree as pytree

    def composite(*args: Any, **kwargs: Any) -> Any:
        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
        if not any(tensor.device.type == "cpu" for tensor in given):
            return original(*args, **kwargs)
        args, kwargs = pytree.tree_map_only(FakeTensor, lambda tensor: tensor.to("meta"), (args, kwargs))
        return pytree.tree_map_only(FakeTensor, lambda tensor: tensor.to("cpu"), original(*args, **kwargs))

    return composite
