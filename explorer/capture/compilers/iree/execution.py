"""Run a VMFB on torch's tensors, by IREE's runtime on this machine's CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.capture.compilers.tensors import with_strides_of

#: IREE's driver for the CPU that runs a program's dispatches in its own threads.
DRIVER = "local-task"


class Module:
    """A VMFB that is loaded; called with a graph's inputs it gives its results, and counts the calls.

    `values` are the fake tensors or symbolic numbers of the results.
    """

    def __init__(self, vmfb: bytes, values: Sequence[Any]) -> None:
        from iree import runtime

        self.calls = 0
        self._values = values
        config = runtime.Config(DRIVER)
        context = runtime.SystemContext(config=config)
        context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, vmfb))
        self._main = context.modules.module["main"]
        self._device = config.device

    def __call__(self, *inputs: Any) -> list[Any]:
        """The results of the module's function `main`."""
        returned = self._main(*[self._given(value) for value in inputs])
        self.calls += 1
        several = returned if isinstance(returned, (tuple, list)) else [returned]
        several = [] if returned is None else several
        return [_result(value, like) for value, like in zip(several, self._values, strict=True)]

    def _given(self, value: Any) -> Any:
        """An input as IREE takes it."""
        import torch
        from iree import runtime

        if not isinstance(value, torch.Tensor):
            return int(value) if isinstance(value, torch.SymInt) else value
        return runtime.asdevicearray(self._device, _array(value.detach()))


def _array(tensor: Any) -> Any:
    """A tensor as an array of numpy, which has no bfloat16 of its own."""
    import torch

    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _result(value: Any, like: Any) -> Any:
    """A result as torch has it: a tensor of the type and with the strides of the graph's own, or a number."""
    import torch

    if not isinstance(like, torch.Tensor):
        return value
    array = value.to_host()
    if like.dtype is torch.bfloat16:
        made = torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    else:
        made = torch.from_numpy(array.copy()).to(like.dtype)
    return with_strides_of(made, like)
