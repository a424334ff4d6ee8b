"""Targets: the devices a trace can be made for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from explorer.capture.ladder.triton_tools import missing_backend, missing_triton, no_sass
from explorer.capture.observe.tensors import map_tensors, named_tensors
from explorer.capture.observe.versions import defines_metal, version_of
from explorer.errors import InputError, require_installed, unknown_name
from explorer.model.values import Table
from explorer.reference.gpus.figures import NAMED, Target
from explorer.reference.gpus.properties import BELOW_METAL


@dataclass(frozen=True)
class Attached:
    """A device of this machine: its name for `target=`, its title, and why it cannot be used, "" if it can."""

    name: str
    title: str
    missing: str = ""


def attached() -> tuple[Attached, ...]:
    """The CPU, and "cuda", whose `missing` says why if torch sees no GPU."""
    import platform

    import torch

    cpu = Attached("cpu", f"this machine's CPU ({platform.machine()})")
    if torch.cuda.is_available():
        return cpu, Attached("cuda", torch.cuda.get_device_name())
    built = "sees no GPU" if torch.version.cuda or torch.version.hip else "is built for the CPU only"
    return cpu, Attached("cuda", "the attached NVIDIA or AMD GPU", f"torch {torch.__version__} {built}")


def attached_gpu() -> Target:
    """Return the attached GPU as a Target, from torch's device properties.

    The peak rates come from the named GPU with the same title, if there is one. Raises InputError, with the names to choose
    from, if no GPU is attached.
    """
    import torch

    here = attached()[1]
    if here.missing:
        names = ", ".join(t.name for t in NAMED)
        raise InputError(f"no GPU is attached ({here.missing}): name one, such as target='h100', of {names}")
    own = torch.cuda.get_device_properties()
    amd = torch.version.hip is not None
    same = next((t for t in NAMED if t.title in own.name or own.name in t.title), None)
    clock, bus = float(getattr(own, "memory_clock_rate", 0)) * 1e3, int(getattr(own, "memory_bus_width", 0))
    return Target(
        name="cuda",
        title=own.name,
        vendor="amd" if amd else "nvidia",
        arch=own.gcnArchName.partition(":")[0] if amd else own.major * 10 + own.minor,
        multiprocessors=own.multi_processor_count,
        memory=own.total_memory,
        bandwidth=same.bandwidth if same else 2 * clock * bus / 8,
        peak=same.peak if same else {},
        l2=own.L2_cache_size,
        shared_per_block=getattr(own, "shared_memory_per_block_optin", own.shared_memory_per_block),
        shared_per_multiprocessor=own.shared_memory_per_multiprocessor,
        shared_static=own.shared_memory_per_block,
        registers=own.regs_per_multiprocessor,
        threads=own.max_threads_per_multi_processor,
        blocks=same.blocks if same else 32,
        warp=own.warp_size,
        clock=float(getattr(own, "clock_rate", 0)) * 1e3,
        memory_clock=clock,
        bus=bus,
        sources=("torch.cuda.get_device_properties",),
    )


def targets() -> Table:
    """One row for each target: its name, its title, whether and why it works here, and its figures.

    A named GPU need not be attached. Its figures: arch, multiprocessors, memory (GB), bandwidth (GB/s), the dense
    peak rate of each dtype (TFLOP/s, TOP/s for integers), L2 (MB), shared memory a block (KB), registers a
    multiprocessor, and the public sources of these.
    """
    require_installed("torch", "explorer.targets", "full")
    auto = {"target": "auto", "title": "the device that the arguments are on", "works": True, "why": ""}
    here = ({"target": t.name, "title": t.title, "works": not t.missing, "why": t.missing} for t in attached())
    missing = compiler_missing()
    named = ({"target": t.name, "title": t.title, "works": not missing, "why": missing or _notes(t), **t.row} for t in NAMED)
    return Table([auto, *here, *named])


def _notes(target: Target) -> str:
    """Notes on a GPU that works: how far its kernels can be compiled here, and its own note."""
    if target.device == "mps":
        return "; ".join(filter(None, (f"down to Metal source: {BELOW_METAL}", target.note)))
    below = missing_backend(target)
    read = no_sass(target) if not below else ""
    notes = (below and f"down to Inductor's Triton source only: {below}", read and f"down to PTX and cubin: {read}", target.note)
    return "; ".join(filter(None, notes))


def compiler_missing() -> str:
    """Why nothing can be compiled for an absent GPU, such as no triton outside Linux; "" if it can."""
    return missing_triton()


def resolve(target: object, arguments: Any, function: Callable[..., Any]) -> str | Target:
    """The device that a trace is made for: "cpu", "cuda", or the Target of a named GPU.

    "auto" is the GPU if the arguments or the module's parameters are on it, else the CPU. InputError for an unknown target,
    for "cuda" without an attached GPU, and for a named GPU without triton.
    """
    names = {t.name: t for t in attached()}
    target = _device_name(target)
    if target == "auto":
        return next((d for d in device_types(arguments, function) if d in names and d != "cpu"), "cpu")
    if not isinstance(target, str) or target not in names:
        return _parsed_or_error(target, names)
    if names[target].missing:
        raise InputError(f"target {target!r} is not here: {names[target].missing}")
    return target


def _device_name(target: object) -> object:
    """Take the type of a torch.device; anything else stays as it is.

    InputError for a GPU by number: kernels are the same on each.
    """
    import torch

    name = str(target) if isinstance(target, torch.device) else target
    if isinstance(name, str) and (m := re.fullmatch(r"(cpu|cuda)(:\d+)?", name)):
        if m[2] and m[1] == "cuda":
            raise InputError(f"target {name!r}: a GPU is not chosen by number; put the arguments on it, and write target='auto'")
        return m[1]
    return target


def named_gpu(target: object) -> Target:
    """The GPU of a name, which need not be here; InputError lists those that there are."""
    return _parsed_or_error(target, ())


def _parsed_or_error(target: object, attached: Iterable[str]) -> Target:
    """The GPU of that name; InputError lists everything a target may be."""
    try:
        found = Target.parse(target)
    except InputError as error:
        if str(target).partition(":")[0] == "xpu":
            intels = ", ".join(repr(t.name) for t in NAMED if t.device == "xpu")
            raise InputError(f"target {target!r}: name an Intel GPU by its model, which need not be here: {intels}") from error
        raise unknown_name("target", target, ["auto", *attached, *(t.name for t in NAMED)]) from error
    if compiler_missing():
        raise InputError(f"target {found.name!r} cannot be compiled for: it {compiler_missing()}")
    if found.device == "mps" and not defines_metal():
        needed = f"needs a torch whose Inductor hands Metal to async_compile, as 2.13 does, not {version_of('torch')}"
        raise InputError(f"target {found.name!r} {needed}")
    return found


def device_types(arguments: Any, function: Callable[..., Any]) -> list[str]:
    """The types of the devices that the arguments and the module's parameters are on."""
    import torch

    tensors = [tensor for _, tensor in named_tensors(arguments)]
    if isinstance(function, torch.nn.Module):
        tensors += [*function.parameters(), *function.buffers()]
    return list(dict.fromkeys(t.device.type for t in tensors))


def moved(value: Any, device: str) -> Any:
    """Copy to `device` the tensors in nested arguments that are elsewhere."""

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
