"""Run TVM's executable on torch's tensors, by the virtual machine of Relax on this machine's CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.capture.compilers.tensors import with_strides_of

#: What the code that TVM compiles is aligned to, in bytes.
ALIGNMENT = 64


class Module:
    """An executable that is loaded; called with a graph's inputs it gives its results, and counts the calls.

    `tensors` are the numbers of the inputs that it takes, `values` the fake tensors of the results.
    """

    def __init__(self, executable: Any, tensors: Sequence[int], values: Sequence[Any]) -> None:
        import tvm
        from tvm import relax

        self.calls = 0
        self._tensors, self._values = tensors, values
        self._machine = relax.VirtualMachine(executable, tvm.cpu())
        self._main = self._machine["main"]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of the module's function `main`."""
        import torch

        given = [_given(inputs[number]) for number in self._tensors]
        returned = self._main(*given)
        self.calls += 1
        tensors = map(torch.from_dlpack, returned)
        # TVM's importer gives every product float32, also one of bfloat16
        return [with_strides_of(own.to(like.dtype), like) for own, like in zip(tensors, self._values, strict=True)]


def _given(tensor: Any) -> Any:
    """An input as TVM takes it: the same memory, where that is laid out as TVM expects."""
    import tvm

    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.data_ptr() % ALIGNMENT:
        tensor = tensor.clone()
    return tvm.runtime.from_dlpack(tensor)
