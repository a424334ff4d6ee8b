"""Advice on an error that the traced function raised, where the way it was called is the likely cause."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.observe.tensors import named_tensors
from explorer.errors import chain
from explorer.lab.live.call import Call
from explorer.tracing.recording.call_site import call_under_way, with_arguments_apart

#: What torch says of tensors on two devices: eager, a meta function, Dynamo's fake tensors.
DEVICES = ("same device", "two different devices", "is not on the expected device")


def advice_on_call(error: Exception, call: Call, caller: FrameType) -> Iterator[str]:
    """Say what may be wrong with how the function was called; nothing where the error does not look like it.

    `caller` is the frame that called `trace`, whose source has the call as it was written.
    """
    if "does not have a grad_fn" in str(error) and not call.train:
        yield (
            "trace calls the function without gradients, and with train=True differentiates its outputs itself; "
            "for one that calls backward() write: with explorer.record() as r: torch.compile(f)(x)"
        )
    if device_advice := compiling.no_driver(error) or (compiling.needs_its_gpu(error) if call.absent else ""):
        yield device_advice
    if apart := devices_apart(error, call):
        yield apart
    if meant := _arguments_apart(error, call, caller) or _all_arguments(error, call):
        yield meant


def _arguments_apart(error: Exception, call: Call, caller: FrameType) -> str:
    """Show the call with its arguments one by one where they were given as a tuple or list and the error speaks of that."""
    only = call.args[0] if len(call.args) == 1 else None
    if not isinstance(only, (tuple, list)):
        return ""
    refused = isinstance(error, (TypeError, AttributeError)) and type(only).__name__ in str(error)
    if not refused and (_fits(call.function, (only,), call) or not _fits(call.function, tuple(only), call)):
        return ""
    meant = with_arguments_apart(call_under_way(caller)) or "explorer.trace(f, x, y)"
    return f"the function was called with one argument, a {type(only).__name__}; arguments are given one by one: write {meant}"


def _all_arguments(error: Exception, call: Call) -> str:
    """Name the arguments that a function takes where the error is that it did not get them."""
    if not isinstance(error, TypeError) or _fits(call.function, call.args, call):
        return ""
    parameters = inspect.signature(call.function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in positional]
    return (
        f"trace calls the function with the arguments after it: write explorer.trace({', '.join(['f', *needed])})"
        if needed
        else ""
    )


def _fits(function: Callable[..., Any], args: tuple[Any, ...], call: Call) -> bool:
    """Whether a function takes these arguments by its signature; True where it has none that Python can tell."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*args, **call.kwargs)
    except TypeError:
        return False
    return True


def devices_apart(error: BaseException, call: Call) -> str:
    """Name the devices where a module is on one and its arguments on another, and the error is of that; else ""."""
    said = "\n".join(map(str, chain(error)))
    if not compiling.could_be_compiled(call.function) or not any(words in said for words in DEVICES):
        return ""
    module: Any = call.function
    places = {str(tensor.device) for tensor in (*module.parameters(), *module.buffers())}
    given = {str(tensor.device) for _, tensor in named_tensors((call.args, dict(call.kwargs)))}
    if len(places) != 1 or len(given) != 1 or places == given:
        return ""
    [place], [device] = places, given
    return f"the module is on {place}, and its arguments are on {device}: move one of them, as model.to({device!r}) does"
