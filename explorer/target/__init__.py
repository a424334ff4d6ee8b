"""Targets: the devices a trace can be made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError, unknown_name
from explorer.hooks.tensors import map_tensors, named_tensors
from explorer.model import Rows


@dataclass(frozen=True)
class Attached:
    """A device of this machine: its name for `target=`, what it is, and why it cannot be used, "" where it can."""

    name: str
    title: str
    missing: str = ""


def attached() -> tuple[Attached, ...]:
    """The CPU, and the CUDA GPU where torch sees one."""
    import platform

    import torch

    cpu = Attached("cpu", f"this machine's CPU ({platform.machine()})")
    if torch.cuda.is_available():
        return cpu, Attached("cuda", torch.cuda.get_device_name())
    built = "sees no GPU" if torch.version.cuda or torch.version.hip else "is built for the CPU only"
    return cpu, Attached("cuda", "the attached NVIDIA or AMD GPU", f"torch {torch.__version__} {built}")


def targets() -> Rows:
    """One row a target: its name, what it is, whether it works here, and why not where it does not."""
    auto = {"target": "auto", "title": "the device that the arguments are on", "works": True, "why": ""}
    return Rows([auto, *({"target": t.name, "title": t.title, "works": not t.missing, "why": t.missing} for t in attached())])


def resolve(target: object, arguments: Any, function: Callable[..., Any]) -> str:
    """The device type a trace is made for: "cpu" or "cuda". InputError for a target that is unknown or not here.

    "auto" is the accelerator when the arguments or the module's parameters are on it, else the CPU.
    """
    names = {t.name: t for t in attached()}
    if target == "auto":
        return next((d for d in device_types(arguments, function) if d in names and d != "cpu"), "cpu")
    if not isinstance(target, str) or target not in names:
        raise unknown_name("target", target, ["auto", *names])
    if names[target].missing:
        raise InputError(f"target {target!r} is not here: {names[target].missing}")
    return target


def device_types(arguments: Any, function: Callable[..., Any]) -> list[str]:
    """The types of the devices that the arguments and the module's parameters are on."""
    import torch

    tensors = [tensor for _, tensor in named_tensors(arguments)]
    if isinstance(function, torch.nn.Module):
        tensors += [*function.parameters(), *function.buffers()]
    return list(dict.fromkeys(t.device.type for t in tensors))


def moved(value: Any, device: str) -> Any:
    """A nest of arguments with copies on `device` of the tensors that are elsewhere."""

    def one(tensor: Any) -> Any:
        if tensor.device.type == device:
            return tensor
        return tensor.detach().to(device).requires_grad_(tensor.requires_grad)

    return map_tensors(one, value)


def moved_function(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """The function itself, or a copy on `device` of a module that is elsewhere."""
    import copy

    import torch

    if not isinstance(function, torch.nn.Module) or not device_types((), function) or device_types((), function) == [device]:
        return function
    placed: Callable[..., Any] = copy.deepcopy(function).to(device)
    return placed
