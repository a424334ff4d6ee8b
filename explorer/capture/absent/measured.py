"""Run on the CPU the operators that torch runs on a GPU to learn their results' shapes.

An operator without a rule for fake tensors (geqrf, fake_quantize_per_tensor_affine) is run by torch on zeros, to see what
shapes and strides its results have. And torch asks cuDNN how many bytes a batch norm keeps for its backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.patch import added, replaced
from explorer.reference.gpus.figures import DEVICES

#: Records one assumption: (where, what was assumed, why) → nothing.
Assume = Callable[[str, str, str], None]


def ignore_assumption(where: str, assumed: str, why: str) -> None:
    """Record no assumption."""


@contextmanager
def measured_on_the_cpu(assume: Assume) -> Iterator[None]:
    """Run such an operator on the CPU inside the block, and record the result as an assumption."""
    import torch
    from torch._subclasses import fake_impls, fake_tensor

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run_fallback_kernel(fake_mode: Any, func: Any, flat_args: Any, *args: Any, **kwargs: Any) -> Any:
            gpu = _gpu_of(flat_args)
            if gpu is None:
                return original(fake_mode, func, flat_args, *args, **kwargs)
            assume(
                f"{func}",
                "its results have the shapes and strides that they have on the CPU",
                "torch has no rule for it and would run it on the GPU to find out, which is not attached",
            )
            return _run_on_cpu(lambda moved: original(fake_mode, func, moved, *args, **kwargs), fake_mode, flat_args, gpu)

        return run_fallback_kernel

    def reserved(*args: Any) -> int:
        assume("batch norm by cuDNN", "it keeps no bytes for its backward", "cuDNN says how many, and needs its GPU for that")
        return 0

    # Two modules have the function by name
    with replaced(fake_tensor, "run_fallback_kernel", make), replaced(fake_impls, "run_fallback_kernel", make):
        with added(torch._C, "_get_cudnn_batch_norm_reserve_space_size", reserved):
            yield


def _gpu_of(flat_args: Any) -> Any:
    """The GPU of an operator's arguments or results; None if all are on the CPU."""
    import torch

    devices = (a if isinstance(a, torch.device) else a.device for a in flat_args if isinstance(a, (torch.Tensor, torch.device)))
    return next((device for device in devices if device.type in DEVICES.values()), None)


def _run_on_cpu(run: Callable[[list[Any]], Any], fake_mode: Any, flat_args: Any, gpu: Any) -> Any:
    """Run the operator on its arguments moved to the CPU, and return its results as fake tensors on the GPU."""
    import torch
    from torch.utils import _pytree as pytree

    given: dict[int, Any] = {}

    def here(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == gpu.type else value
        if not isinstance(value, torch.Tensor) or value.device.type != gpu.type:
            return value
        made = _like(fake_mode, value, torch.device("cpu"))
        given[id(made)] = value
        return made

    results = run([here(value) for value in flat_args])
    return pytree.tree_map_only(torch.Tensor, lambda made: given.get(id(made), _like(fake_mode, made, gpu)), results)


def _like(fake_mode: Any, tensor: Any, device: Any) -> Any:
    """A fake tensor of the same size, strides and dtype on another device."""
    import torch

    with fake_mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
