"""Call: a function and its arguments, and how a trace calls it: once, with or without a backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from explorer.capture.absent.autocast import Ambient
from explorer.capture.absent.cluster import Cluster
from explorer.capture.absent.in_place_of_gpu import in_place_of_gpu
from explorer.capture.absent.seen_by_dynamo import seeing
from explorer.capture.absent.torch_cuda import torch_cuda_answers
from explorer.capture.observe.patch import guard_here, shielded
from explorer.capture.observe.tensors import copier, dense_parts, has_fractions, hidden_tensors, map_tensors, named_tensors
from explorer.capture.observe.uncompiled import as_eager
from explorer.capture.observe.without_data import mixing
from explorer.errors import InputError
from explorer.lab.live.state import NOTHING_HELD, PlainValues, State
from explorer.process.stopping import interruptible
from explorer.reference.gpus.figures import Target


@dataclass(frozen=True)
class Call:
    """A function, its arguments, and whether the outputs are differentiated.

    `absent` is the GPU you don't have for which the call is traced. Then Triton kernels that the program launches itself are
    interpreted, and torch.cuda answers the program for that GPU. `ambient` is the autocast state around the call. With `cluster`,
    the call runs as one rank of that cluster. `hooked` are the modules of DDP and FSDP2 that it calls. `held`
    are the Python values that the traced call changed, as they were before it.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    train: bool = False
    absent: Target | None = None
    ambient: Ambient | None = None
    cluster: Cluster | None = None
    hooked: tuple[Any, ...] = ()
    held: PlainValues = NOTHING_HELD

    def with_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """Return the same call with other arguments."""
        return replace(self, args=args, kwargs=kwargs)

    def copy(self, kept: Iterable[Any] = ()) -> Call:
        """Return the same call with copies of its tensors, for functions that change their inputs.

        Tensors that share memory do so in the copies too. One that shares memory with a tensor of `kept` is not copied.
        """
        args, kwargs = map_tensors(copier(kept), (self.args, dict(self.kwargs)))
        return self.with_arguments(args, kwargs)


def hidden_elsewhere(call: Call, device: str) -> str | None:
    """Say what to do about an object that holds a tensor on another device, which cannot be moved; None if there is none."""
    hidden = (*hidden_tensors(call.args, "args"), *hidden_tensors(dict(call.kwargs), "kwargs"))
    for path, tensor in hidden:
        if tensor.device.type != device:
            return (
                f"{path} is on {tensor.device}, held by an object that explorer does not copy: move it to {device!r} yourself, "
                "or give it as an argument of its own, or in a tuple, a dict or a dataclass"
            )
    return None


def clone(value: Any) -> Any:
    """Copy every tensor in a nest of tuples, lists, mappings and dataclasses; views of one storage stay views of one."""
    return map_tensors(copier(), value)


@contextmanager
def _instead_of(target: Target, told: bool) -> Iterator[None]:
    """Let the CPU do what the GPU would inside the block; if the program is `told`, torch.cuda answers for the GPU."""
    with in_place_of_gpu(device=target.device), torch_cuda_answers(target) if told else nullcontext():
        yield


def run_call(
    function: Callable[..., Any], call: Call, weigh: Callable[[Any], Any] = lambda t: t, *, told: bool = True
) -> tuple[Any, dict[str, Any] | None]:
    """Call `function` with the call's arguments, and return (its result, gradients by name or None).

    Without `train` no graph for a backward is kept. With `train`, the sum of all floating outputs, each under `weigh`, is
    differentiated with respect to every input and parameter that requires grad; their `.grad` is left alone. `told` is False for
    a function that torch alone may compile again, for the CPU: torch.cuda does not answer for the absent GPU then. The call's own
    function runs in eager mode, also where it compiles a part of itself.
    """
    import torch

    absent = call.absent
    guard = guard_here()
    eager: AbstractContextManager[Any] = nullcontext()
    if function is call.function:
        eager = shielded(as_eager, guard, "eager mode")
        if absent is not None:  # the compiled function got its answers while it was traced
            function = seeing(function, absent)
    in_place = shielded(lambda: _instead_of(absent, told), guard, "in place of the GPU") if absent else nullcontext()
    as_rank = call.cluster.joined() if call.cluster else nullcontext()
    with (
        _grad_mode_kept(),
        as_rank,
        eager,
        in_place,
        shielded(call.ambient.again, guard, "autocast") if call.ambient else nullcontext(),
    ):
        if call.train:
            return _differentiated(function, call, weigh)
        with torch.no_grad():
            with shielded(interruptible, guard_here(), "stop"):
                return function(*call.args, **call.kwargs), None


@contextmanager
def _grad_mode_kept() -> Iterator[None]:
    """Restore grad mode after the block: torch's own way out of it calls what sees the GPU, where Ctrl-C may come between."""
    import torch

    before = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(before)


def _differentiated(function: Callable[..., Any], call: Call, weigh: Callable[[Any], Any]) -> tuple[Any, dict[str, Any]]:
    """Call the function and differentiate its outputs; InputError where nothing requires grad."""
    import torch

    sharded = differentiable(call) if call.hooked else {}  # FSDP2 puts other parameters in place while it computes
    with torch.enable_grad():
        with shielded(interruptible, guard_here(), "stop"):
            returned = function(*call.args, **call.kwargs)
        loss = _loss(returned, weigh)
        leaves = sharded or differentiable(call)
        if loss is None or not leaves:
            what = "no output" if loss is None else "no input or parameter"
            raise InputError(f"train=True, but {what} requires grad: give a tensor with requires_grad=True")
        # autograd saves what the call made without an input, such as `torch.zeros(())`: a real tensor beside fake ones
        with mixing(leaves.values()), shielded(interruptible, guard_here(), "stop"):
            if call.hooked:
                return returned, _gradients_by_hooks(loss, leaves)
            gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return returned, dict(zip(leaves, gradients, strict=True))


def _gradients_by_hooks(loss: Any, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Run the whole backward, since DDP and FSDP2 exchange gradients as they are accumulated; each `.grad` is put back."""
    before = {name: tensor.grad for name, tensor in leaves.items()}
    try:
        for tensor in leaves.values():
            tensor.grad = None
        loss.backward()
        return {name: tensor.grad for name, tensor in leaves.items()}
    finally:
        for name, tensor in leaves.items():
            tensor.grad = before[name]


def _loss(returned: Any, weigh: Callable[[Any], Any]) -> Any:
    """Sum the outputs that can be differentiated; None if there is none."""
    parts = [weigh(_wider(t)).sum() for _, t in named_tensors(returned) if t.requires_grad and has_fractions(t)]
    return sum(part.abs() if part.is_complex() else part for part in parts) if parts else None


def _wider(tensor: Any) -> Any:
    """A complex tensor of 16 bits in 32, which a CPU can add up and multiply; any other as it is."""
    import torch

    return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor


def weighted(output: Any) -> Any:
    """Multiply an output by fixed numbers of either sign: eighths from -1 to 1, which every floating type has.

    The gradient of a plain sum tells little: before a layer norm it is zero, and the computed gradient is noise.
    """
    import torch

    if output.layout == torch.jagged:
        return weighted(output.values())
    eighths = torch.randint(-8, 9, output.shape, generator=torch.Generator().manual_seed(0)) / 8
    return output * torch.empty_like(output).copy_(eighths)


def differentiable(call: Call) -> dict[str, Any]:
    """The tensors that require grad, by name: "args[0]", "kwargs['x']", then the parameters.

    These are the module's; of another function, such as a loss around a model, those of what it reaches, as `State` names them.
    """
    import torch

    named = [*named_tensors(call.args, "args"), *named_tensors(dict(call.kwargs), "kwargs")]
    if isinstance(call.function, torch.nn.Module):
        named += list(call.function.named_parameters())
    else:
        given = {id(tensor) for _, tensor in named}
        reached = State.of(call.function).tensors.items()
        named += [(name, tensor) for name, tensor in reached if tensor.is_leaf and id(tensor) not in given]
    return {name: tensor for name, tensor in named if tensor.requires_grad}


def tensors_of(outcome: tuple[Any, Mapping[str, Any] | None]) -> list[tuple[str, Any]]:
    """List the tensors of what `run_call` returned: outputs, then gradients."""
    returned, gradients = outcome
    named = list(named_tensors(returned, "output"))
    named += [(f"gradient of {n}", g) for n, g in (gradients or {}).items() if g is not None]
    return [part for name, tensor in named for part in dense_parts(name, tensor)]
