"""What an optimizer of torch keeps, and what its step takes beside that: its own code runs on parameters without data."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.capture.observe.tensors import named_tensors
from explorer.errors import InputError, unknown_name
from explorer.studies.fitting.models import local_part

#: What torch raises where an optimizer asks meta tensors for numbers, wants a closure, or does not take such parameters.
STEP_ERRORS = (RuntimeError, TypeError, ValueError)
#: The classes of torch.optim, in lower case, that cannot step without data: they read numbers of tensors, want a closure, or
#: sparse gradients.
NEED_DATA = frozenset({"adafactor", "asgd", "lbfgs", "sparseadam"})


@dataclass(frozen=True)
class OptimizerMemory:
    """Bytes that an optimizer keeps on the GPU from step to step, and the most that a step takes beside these."""

    name: str
    state: int
    temporary: int


def optimizer_memory(asked: str | Callable[..., Any], parameters: Iterable[Any]) -> OptimizerMemory:
    """Run one step on meta tensors of the parameters' shapes; InputError if `asked` is no optimizer, or needs data to step.

    `asked` is the name of a class of torch.optim, in upper or lower case, which is made with its defaults; or a function that
    makes an optimizer from a list of parameters. The multi-tensor form (`foreach`) is taken if the optimizer has one and was not
    told otherwise, as it is by default for parameters on a GPU.
    """
    import torch

    own = [_empty(parameter) for parameter in parameters if parameter.requires_grad]
    optimizer = _make_optimizer(asked, own)
    name = type(optimizer).__name__
    for parameter in own:
        parameter.grad = torch.empty_like(parameter)
    try:
        with _counting() as counting:
            optimizer.step()
    except STEP_ERRORS as error:
        raise InputError(
            f"{name} cannot take a step on parameters without data, so explorer.fits does not know what it keeps: "
            f"{_first_line(error)}; name another optimizer, such as 'adamw', or leave optimizer= out"
        ) from error
    state = sum(t.untyped_storage().nbytes() for _, t in named_tensors(list(optimizer.state.values())) if t.device.type == "meta")
    return OptimizerMemory(name, state, counting.peak - state)


def _empty(parameter: Any) -> Any:
    import torch

    local = local_part(parameter)
    return torch.nn.Parameter(torch.empty(tuple(local.shape), dtype=local.dtype, device="meta"))


def _make_optimizer(asked: str | Callable[..., Any], parameters: list[Any]) -> Any:
    import torch

    maker: Any = _class_of(asked) if isinstance(asked, str) else asked
    try:
        optimizer = maker(parameters) if callable(maker) else None
    except STEP_ERRORS as error:
        name = getattr(maker, "__name__", repr(maker))
        raise InputError(f"{name} cannot make an optimizer of these parameters: {_first_line(error)}") from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer is the name of a class of torch.optim, or makes an optimizer of parameters, not {asked!r}")
    for group in optimizer.param_groups:
        if _takes_multi_tensor_form(group):
            group["foreach"] = True
    return optimizer


def _class_of(name: str) -> Any:
    import torch

    kinds = {key.lower(): kind for key, kind in vars(torch.optim).items() if _is_optimizer(kind)}
    kind = kinds.get(name.lower())
    if kind is None:
        raise unknown_name("optimizer", name, sorted(set(kinds) - NEED_DATA))
    return kind


def _takes_multi_tensor_form(group: Mapping[str, Any]) -> bool:
    """Whether torch takes the multi-tensor form by default for a group on a GPU; on the meta device it never does."""
    import torch

    open_choice = "foreach" in group and group["foreach"] is None
    tensor_rate = isinstance(group.get("lr"), torch.Tensor) and not group.get("capturable")
    return open_choice and not group.get("fused") and not group.get("differentiable") and not tensor_rate


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _is_optimizer(kind: object) -> bool:
    import torch

    return isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer


def _counting() -> Any:
    """Count the bytes of meta tensors that are made inside the block while they live."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        """Has the live bytes, and the most there were."""

        live, peak = 0, 0

        def __init__(self) -> None:
            super().__init__()
            self.known: dict[int, int] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = {t.untyped_storage()._cdata for _, t in named_tensors((args, kwargs or {}))}
            result = func(*args, **(kwargs or {}))
            for _, tensor in named_tensors((result,)):
                storage = tensor.untyped_storage()
                if tensor.device.type == "meta" and storage._cdata not in given and storage._cdata not in self.known:
                    self.known[storage._cdata] = storage.nbytes()
                    self.live += storage.nbytes()
                    weakref.finalize(storage, self.ended, storage._cdata)
            self.peak = max(self.peak, self.live)
            return result

        def ended(self, key: int) -> None:
            self.live -= self.known.pop(key)

    return Counting()


__all__ = ["OptimizerMemory", "optimizer_memory"]
