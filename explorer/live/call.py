"""Call: a function and its arguments, and how a trace calls it: once, with or without a backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from explorer.errors import InputError
from explorer.hooks.tensors import map_tensors, named_tensors


@dataclass(frozen=True)
class Call:
    """A function, its arguments, and whether the outputs are differentiated."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    train: bool = False

    def with_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """The same call with other arguments."""
        return replace(self, args=args, kwargs=kwargs)

    def copy(self) -> Call:
        """The same call with copies of its tensors, for functions that change their inputs."""
        return self.with_arguments(clone(self.args), clone(self.kwargs))


def clone(value: Any) -> Any:
    """A copy of every tensor in a nest of tuples, lists and mappings."""
    return map_tensors(lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad), value)


def run_call(function: Callable[..., Any], call: Call) -> tuple[Any, dict[str, Any] | None]:
    """Call `function` with the call's arguments: (what it returned, gradients by name or None).

    Without `train` no graph for a backward is kept. With it the sum of all floating outputs is differentiated by
    every input and parameter that asks for it; their `.grad` is left alone.
    """
    import torch

    if not call.train:
        with torch.no_grad():
            return function(*call.args, **call.kwargs), None
    with torch.enable_grad():
        returned = function(*call.args, **call.kwargs)
        loss = _loss(returned)
        leaves = differentiable(call)
        if loss is None or not leaves:
            what = "no output" if loss is None else "no input or parameter"
            raise InputError(f"train=True, but {what} requires grad: give a tensor with requires_grad=True")
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return returned, dict(zip(leaves, gradients, strict=True))


def _loss(returned: Any) -> Any:
    """The sum of the outputs that can be differentiated; None where there is none."""
    parts = [t.sum() for _, t in named_tensors(returned) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    return sum(part.abs() if part.is_complex() else part for part in parts) if parts else None


def differentiable(call: Call) -> dict[str, Any]:
    """The tensors that ask for a gradient, by name: "args[0]", "kwargs['x']", then the module's parameters."""
    import torch

    named = [*named_tensors(call.args, "args"), *named_tensors(dict(call.kwargs), "kwargs")]
    if isinstance(call.function, torch.nn.Module):
        named += list(call.function.named_parameters())
    return {name: tensor for name, tensor in named if tensor.requires_grad}


def tensors_of(outcome: tuple[Any, Mapping[str, Any] | None]) -> list[tuple[str, Any]]:
    """The tensors of what `run_call` gave: outputs, then gradients."""
    returned, gradients = outcome
    named = list(named_tensors(returned, "output"))
    return named + [(f"gradient of {n}", g) for n, g in (gradients or {}).items() if g is not None]
