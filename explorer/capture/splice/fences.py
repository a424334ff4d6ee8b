"""Lay a launch's tensors between fences, so that a kernel that writes outside of them is found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from explorer.capture.observe.tensors import map_tensors
from explorer.errors import InputError

#: The bytes before and behind each storage, and what each of them has. What is written farther off is not found.
WIDTH, BYTE = 4096, 0xA5


class Fences:
    """Copies of tensors between fences; those that share memory share it here too. Other arguments stay as they are."""

    def __init__(self, args: Sequence[Any]) -> None:
        self._storages: dict[int, Any] = {}
        self._fences: list[tuple[int, Any, Any]] = []
        self.args = tuple(map_tensors(partial(self._fenced, number), argument) for number, argument in enumerate(args, 1))

    def _fenced(self, number: int, tensor: Any) -> Any:
        import torch

        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or not tensor.untyped_storage().nbytes():
            return tensor
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = self._with_fences(number, storage, tensor.device)
        fenced = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        offset = tensor.storage_offset() + WIDTH // tensor.dtype.itemsize
        return fenced.set_(self._storages[storage.data_ptr()], offset, tensor.shape, tensor.stride())

    def _with_fences(self, number: int, storage: Any, device: Any) -> Any:
        import torch

        count = storage.nbytes()
        whole = torch.full((count + 2 * WIDTH,), BYTE, dtype=torch.uint8, device=device)
        whole[WIDTH : WIDTH + count] = torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
        self._fences.append((number, whole[:WIDTH], whole[WIDTH + count :]))
        return whole.untyped_storage()

    def raise_if_written(self) -> None:
        """InputError that says which argument the kernel wrote beside."""
        for number, before, behind in self._fences:
            for fence, where in ((before, "before"), (behind, "behind")):
                if changed := int((fence != BYTE).sum()):
                    raise InputError(
                        f"it writes outside of its tensors: at least {changed} bytes {where} argument {number} of "
                        f"{len(self.args)}. Keep each index below the number of elements"
                    )


__all__ = ["Fences"]
