"""Advice on an error that the traced function raised, where the way it was called is the likely cause."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.capture.compilers import torch_compile as compiling
from explorer.lab.live.call import Call


def advice_on_call(error: Exception, call: Call) -> Iterator[str]:
    """Say what may be wrong with how the function was called; nothing where the error does not look like it."""
    if "does not have a grad_fn" in str(error) and not call.train:
        yield (
            "trace calls the function without gradients, and with train=True differentiates its outputs itself; "
            "for one that calls backward() write: with explorer.record() as r: torch.compile(f)(x)"
        )
    if not call.args and not call.kwargs and "missing" in str(error) and isinstance(error, TypeError):
        yield "the function was called without arguments; they stand behind it: trace(f, x)"
    if device_advice := compiling.no_driver(error) or (compiling.needs_its_gpu(error) if call.absent else ""):
        yield device_advice
    only = call.args[0] if len(call.args) == 1 else None
    if isinstance(only, (tuple, list)) and f"'{type(only).__name__}' object" in str(error):
        yield "the function was called with one argument; arguments are given one by one: trace(f, x, y)"
