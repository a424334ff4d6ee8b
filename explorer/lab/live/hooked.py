"""The modules of DDP and FSDP2 that a function calls, whose hooks exchange gradients and parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from explorer.capture.observe.eager_collectives import living_modules
from explorer.lab.live.state import State

#: The modules that define the classes.
OF_DDP, OF_FSDP2 = "torch.nn.parallel.distributed", "torch.distributed.fsdp"


def hooked_modules(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the DistributedDataParallel and FSDP2 modules whose parameters a function reaches; () without process groups."""
    kinds = _kinds()
    if not kinds:
        return ()
    reached = {id(tensor) for tensor in State.of(function).tensors.values()}
    return tuple(module for module in living_modules(kinds) if any(id(parameter) in reached for parameter in module.parameters()))


def _kinds() -> tuple[type, ...]:
    """The wrappers that a module can be an instance of in this process."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return ()
    names = ((OF_DDP, "DistributedDataParallel"), (OF_FSDP2, "FSDPModule"))
    return tuple(kind for module, name in names if (kind := getattr(sys.modules.get(module), name, None)) is not None)


__all__ = ["hooked_modules"]
