"""Fill memory that a program leaves unwritten, so that what depends on it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode

#: The operators that give a tensor whose numbers are whatever was in memory.
EMPTY = frozenset(
    f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)


def filled(number: int, made: list[int]) -> TorchDispatchMode:
    """A mode that writes a number into every tensor that an operator gives unwritten; `made` gets the sizes of these."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Filled(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            name = getattr(getattr(function, "_schema", None), "name", "")
            if name in EMPTY and isinstance(result, torch.Tensor) and result.layout == torch.strided:
                made.append(result.numel())
                result.fill_(number % 2 if result.dtype == torch.bool else number)
            return result

    return Filled()
