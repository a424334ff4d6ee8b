"""Make the varied call: other tensors and values among the arguments, and the state of the program around it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.capture.observe.recompiles import mark
from explorer.capture.observe.tensors import map_tensors, named_tensors
from explorer.errors import InputError, unknown_name
from explorer.lab.live.call import Call
from explorer.studies.varying.vary import MIN_DIMENSIONS, OF_COMPILE, OF_TENSORS, Change, Vary

_ROOT = re.compile(r"^(?P<root>\w+)(?P<rest>(?:\.\w+|\[[^\[\]]+\])*)$")
_STEP = re.compile(r"\.(\w+)|\[([^\[\]]+)\]")
#: A local or global variable as a guard writes it: L['x'] is x.
_VARIABLE = re.compile(r"^[LG]\[(['\"])(\w+)\1\]")
#: An entry of *args or **kwargs as a guard writes it, and the way into it.
_ENTRY = re.compile(r"^(?P<root>\w+)\[(?:(?P<position>\d+)|(['\"])(?P<key>\w+)\3)\](?P<rest>.*)$")
#: The variable with the module, in the function that torch compiles around a module of its own.
_WRAPPED_MODULE = re.compile(r"^fn(?=[.\[])")


@dataclass(frozen=True)
class VariedCall:
    """The arguments of a varied call, the settings of its torch.compile, and what holds while it runs."""

    call: Call
    settings: Mapping[str, Any] = field(default_factory=dict)
    around: tuple[Callable[[], AbstractContextManager[Any]], ...] = ()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Put the varied state of the program in force inside the block."""
        with ExitStack() as stack:
            for make in self.around:
                stack.enter_context(make())
            yield


def varied(call: Call, vary: Vary) -> VariedCall:
    """Make the call that `vary` describes of the first call. InputError where the call has no such argument or dimension."""
    around: list[Callable[[], AbstractContextManager[Any]]] = []
    changed = call
    for given in vary.changes:
        change = replace(given, where=known_name(call, given.where))
        if change.what in OF_TENSORS:
            changed = _with_tensor(changed, change)
        elif change.what == "value":
            changed = _with_value(changed, change, around)
        elif change.what not in OF_COMPILE:
            around.append(_of_program(change, call))
    settings = {change.what: change.value for change in vary.of(*OF_COMPILE)}
    return VariedCall(changed, settings, tuple(around))


def argument_names(call: Call) -> dict[str, Any]:
    """Name the arguments, defaults included, by their parameters: those of `*rest` are rest[0] …

    Those of a function without a signature are args[0] …
    """
    names: dict[str, Any] = {}
    bound = _bound(call)
    if bound is None:
        return {**dict(zip(_positions(call), call.args, strict=True)), **call.kwargs}
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names.update({f"{name}[{n}]": each for n, each in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            names.update(value)
        else:
            names[name] = value
    return names


def known_name(call: Call, name: str) -> str:
    """Return the name of an argument, attribute or global that is given as a guard names it; any other name stays.

    A guard says L['x'] for x, and args[0] or kwargs['x'] where torch wraps a module or function of its own.
    """
    plain, names = _VARIABLE.sub(r"\2", name), argument_names(call)
    if plain in names or plain in tensor_names(call):
        return plain
    entry, positions = _ENTRY.match(plain), _positions(call)
    if entry and entry["position"] and entry["root"] == "args" and int(entry["position"]) < len(positions):
        return positions[int(entry["position"])] + entry["rest"]
    if entry and entry["key"] and entry["root"] in ("kwargs", _parameter_of_keywords(call)) and entry["key"] in call.kwargs:
        return entry["key"] + entry["rest"]
    return _WRAPPED_MODULE.sub("self", plain) if _self(call) is not None and "fn" not in names else plain


def _bound(call: Call) -> inspect.BoundArguments | None:
    """Bind the arguments to the parameters; None if the function has no signature, or one that does not fit."""
    try:
        return _signature(call).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return None


def _positions(call: Call) -> list[str]:
    """Name the arguments that are given by position, in their order."""
    bound = _bound(call)
    if bound is None:
        return [f"args[{n}]" for n in range(len(call.args))]
    names: list[str] = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}[{n}]" for n in range(len(call.args) - len(names))]
        elif parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return names[: len(call.args)]


def _parameter_of_keywords(call: Call) -> str:
    """Return the name of the parameter `**kwargs`; "" without one."""
    bound = _bound(call)
    parameters = bound.signature.parameters.values() if bound is not None else ()
    return next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD), "")


def _signature(call: Call) -> inspect.Signature:
    """Return the signature of the function, or of a module's forward; for a decorator, of the function that it wraps."""
    import torch

    return inspect.signature(call.function.forward if isinstance(call.function, torch.nn.Module) else call.function)


def tensor_names(call: Call) -> dict[str, Any]:
    """The tensors among the arguments, by the name of the argument and the way into it."""
    return {path: tensor for name, value in argument_names(call).items() for path, tensor in named_tensors(value, name)}


# Tensors ---------------------------------------------------------------------------------------------------------------


def _with_tensor(call: Call, change: Change) -> Call:
    """The call with one of its tensors changed."""
    tensors = tensor_names(call)
    if change.where not in tensors:
        raise unknown_name("tensor", change.where, tensors)
    old = tensors[change.where]
    new = _changed(old, change)
    args, kwargs = map_tensors(lambda tensor: new if tensor is old else tensor, (call.args, dict(call.kwargs)))
    return call.with_arguments(args, kwargs)


def _changed(tensor: Any, change: Change) -> Any:
    """Return a changed tensor like this one, with its values as far as they reach."""
    import torch

    if change.what.startswith("mark_"):
        return _marked(tensor, change)
    if change.what == "requires_grad":
        made = tensor.detach()
    else:
        try:
            with torch.no_grad():
                made = _remade(tensor.detach(), change)
        except (RuntimeError, AssertionError) as error:  # AssertionError: a device that this torch is built without
            raise InputError(f"{change} cannot be made of a tensor of shape {tuple(tensor.shape)}: {error}") from error
    wanted = change.value if change.what == "requires_grad" else tensor.requires_grad
    if wanted and not (made.is_floating_point() or made.is_complex()):
        if change.what == "requires_grad":
            raise InputError(f"{change.where} is {made.dtype}, and only floating tensors can require a gradient")
        wanted = False
    made.requires_grad_(wanted)
    vars(made).update(vars(tensor))
    return made


def _remade(tensor: Any, change: Change) -> Any:
    if change.what == "dtype":
        return tensor.to(_dtype(change.value))
    if change.what == "device":
        return tensor.to(change.value)
    return _resized(tensor, change) if change.what == "size" else _laid_out(tensor, change)


def _dtype(given: Any) -> Any:
    """A dtype, given as such or by its name."""
    import torch

    found = getattr(torch, given, None) if isinstance(given, str) else given
    if not isinstance(found, torch.dtype):
        raise InputError(f"dtype is a dtype of torch, such as torch.bfloat16 or 'bfloat16', not {given!r}")
    return found


def _marked(tensor: Any, change: Change) -> Any:
    """A view of the tensor with the mark; the tensor itself is not marked."""
    made = tensor.detach().requires_grad_(tensor.requires_grad)
    vars(made).update({name: set(value) if isinstance(value, set) else value for name, value in vars(tensor).items()})
    _check_dimension(tensor, change.value, change.where)
    mark(made, change.what, change.value)
    return made


def _check_dimension(tensor: Any, dimension: int, where: str) -> None:
    if not -tensor.dim() <= dimension < tensor.dim():
        raise InputError(f"{where} has {tensor.dim()} dimensions, and no dimension {dimension}")


def _resized(tensor: Any, change: Change) -> Any:
    """The tensor with other sizes, its values repeated where it grows, its dimensions in the same order in memory."""
    import torch

    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim)) if tensor.layout == torch.strided else None
    if order is None:
        raise InputError(f"{change.where} has the layout {tensor.layout}: its sizes cannot be varied here")
    made = tensor
    for dim, size in change.value:
        _check_dimension(tensor, dim, change.where)
        old = made.size(dim)
        if old:
            made = made.index_select(dim, torch.arange(size, device=made.device) % old)
        else:
            made = made.new_zeros([size if n == dim % made.dim() else s for n, s in enumerate(made.shape)])
    inverse = [order.index(dim) for dim in range(len(order))]
    return made.permute(order).contiguous().permute(inverse)


def _laid_out(tensor: Any, change: Change) -> Any:
    """The same values in another layout in memory."""
    import torch

    least = MIN_DIMENSIONS.get(change.value, 0)
    if tensor.dim() < least:
        raise InputError(f"{change.where} has {tensor.dim()} dimensions, and {change.value!r} takes {least} or more")
    if change.value == "transposed":
        return tensor.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)
    if change.value == "expanded":
        return tensor.narrow(0, 0, 1).clone().expand(tensor.shape)
    if change.value == "channels_last":
        return tensor.clone(memory_format=torch.channels_last)
    if change.value == "offset":
        longer = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
        return longer[1:].view(tensor.shape).copy_(tensor)
    return tensor.clone(memory_format=torch.contiguous_format)


# Values ----------------------------------------------------------------------------------------------------------------


def _with_value(call: Call, change: Change, around: list[Callable[[], AbstractContextManager[Any]]]) -> Call:
    """Return the call with another value of an argument; an attribute or a global is set while the call runs."""
    names = argument_names(call)
    if change.where in names:
        return _with_argument(call, change.where, change.value)
    split = _ROOT.match(change.where)
    if split is None:
        raise InputError(
            f"{change.where!r} is not the name of an argument, an attribute or a global, such as 'n', 'self.eps' or 'scale'"
        )
    if not split["rest"]:
        around.append(_global(call, change))
        return call
    owner = _owner(call, names, split["root"], split["rest"], change.where)
    around.append(lambda: _attribute(*owner, change.value))
    return call


def _with_argument(call: Call, name: str, value: Any) -> Call:
    """The call with another value of one argument."""
    positions = _positions(call)
    if name in positions:
        at = positions.index(name)
        return call.with_arguments((*call.args[:at], value, *call.args[at + 1 :]), call.kwargs)
    bound = _signature(call).bind(*call.args, **call.kwargs)
    if name in bound.signature.parameters:
        bound.arguments[name] = value
        return call.with_arguments(bound.args, bound.kwargs)
    return call.with_arguments(call.args, {**call.kwargs, name: value})


def _owner(call: Call, names: Mapping[str, Any], root: str, rest: str, where: str) -> tuple[Any, Any]:
    """The object that has the attribute or item at the end of a path, and the name or key of that."""
    held = {**_globals(call), **names}
    if (of := _self(call)) is not None:
        held["self"] = of
    if root not in held:
        raise unknown_name("argument, attribute or global", where, (*argument_names(call), *_read_globals(call), "self.…"))
    value, steps = held[root], [(name, key) for name, key in _STEP.findall(rest)]
    for number, (name, key) in enumerate(steps, 1):
        try:
            found = getattr(value, name) if name else value[_key(key)]
        except (AttributeError, LookupError, TypeError):
            what = f"attribute {name!r}" if name else f"item [{key}]"
            raise InputError(f"{where!r} cannot be varied: {type(value).__name__} has no {what}") from None
        if number < len(steps):
            value = found
    return value, (name if name else (_key(key),))


def _key(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else text.strip("'\"")


def _self(call: Call) -> Any:
    """The module that is called, or the object of a bound method."""
    import torch

    if isinstance(call.function, torch.nn.Module):
        return call.function
    return getattr(call.function, "__self__", None)


@contextmanager
def _attribute(owner: Any, name: Any, value: Any) -> Iterator[None]:
    """Set an attribute, or an item whose key is in a tuple, inside the block; `training` of a module for all modules in it."""
    import torch

    if isinstance(name, tuple):
        old, owner[name[0]] = owner[name[0]], value
    elif name == "training" and isinstance(owner, torch.nn.Module):
        modes = [(module, module.training) for module in owner.modules()]
        owner.train(value)
    else:
        old = getattr(owner, name)
        setattr(owner, name, value)
    try:
        yield
    finally:
        if isinstance(name, tuple):
            owner[name[0]] = old
        elif name == "training" and isinstance(owner, torch.nn.Module):
            for module, mode in modes:
                module.training = mode
        else:
            setattr(owner, name, old)


def _code_owner(call: Call) -> Any:
    """The function whose globals and closure the call reads."""
    function = getattr(call.function, "forward", call.function)
    return getattr(function, "__func__", function)


def _globals(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = getattr(_code_owner(call), "__globals__", {})
    return found


def _read_globals(call: Call) -> list[str]:
    """The names of the globals that the function's own code reads, and of what it closes over."""
    code = getattr(_code_owner(call), "__code__", None)
    return (
        [name for name in (*code.co_names, *code.co_freevars) if name in _globals(call) or name in code.co_freevars]
        if code
        else []
    )


def global_values(call: Call) -> dict[str, Any]:
    """The globals that the function's own code reads, by name."""
    values = _globals(call)
    return {name: values[name] for name in _read_globals(call) if name in values}


def _global(call: Call, change: Change) -> Callable[[], AbstractContextManager[Any]]:
    """What sets a global, or a variable of the closure, inside its block."""
    function, name = _code_owner(call), change.where
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)) if _read_globals(call) else {}
    if name in cells:
        return lambda: _attribute(cells[name], "cell_contents", change.value)
    if name not in _read_globals(call):
        raise unknown_name("argument or global", name, (*argument_names(call), *_read_globals(call)))
    return lambda: _attribute(function.__globals__, (name,), change.value)


# The program around the call ---------------------------------------------------------------------------------------------


def _of_program(change: Change, call: Call) -> Callable[[], AbstractContextManager[Any]]:
    """What puts a state of the program in force inside its block."""
    import torch

    if change.what == "grad":
        return lambda: torch.set_grad_enabled(bool(change.value))
    if change.what == "stance":
        return lambda: torch.compiler.set_stance(change.value)
    if call.absent is not None:
        raise InputError(
            "autocast cannot be varied for a GPU you don't have: call explorer.vary inside `with torch.autocast(…)` instead"
        )
    dtype = _dtype(change.value)
    devices = {tensor.device.type for tensor in tensor_names(call).values()} - {"meta"}
    return lambda: torch.autocast(next(iter(devices), "cpu"), dtype=dtype)
