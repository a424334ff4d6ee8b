"""State: what a function can change besides its result, kept during a call and put back after it.

It is held by the function's module, its closure, the globals that it names, and the object of a bound method. It consists of
tensors with their gradients, generators of random numbers, and the dicts, lists and attributes that hold Python values.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.observe.tensors import plain_objects, put_back, same_bits, version_of
from explorer.capture.observe.without_data import lacks_data

#: How deep, and through how many values, tensors are looked for.
DEPTH, VALUES = 40, 100_000
_MISSING = object()
#: Types of Python values that are put back for a verb.
PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass
class State:
    """The tensors by path, and the containers on the way to them with their content.

    `whole` is False where there was more to look at than `DEPTH` and `VALUES` allow.
    """

    tensors: dict[str, Any] = field(default_factory=dict)
    holders: list[tuple[Any, Any]] = field(default_factory=list)
    generators: list[Any] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    whole: bool = True

    @staticmethod
    def of(function: Callable[..., Any], *others: tuple[str, Any]) -> State:
        """Collect what a function reaches, and what other values reach, which are given with their names."""
        state = State()
        state._add_function(function)
        for path, value in others:
            state._add(value, path, 0)
        return state

    def _add_function(self, function: Any) -> None:
        """Add the tensors and generators that a function reaches. A module's paths are those of `named_buffers`."""
        import torch

        self._add(function, "" if isinstance(function, torch.nn.Module) else "function", 0)

    def _add(self, value: Any, path: str, depth: int) -> None:
        """Add a value if it is a tensor or a generator, and then the values that it holds."""
        import torch

        if isinstance(value, (str, bytes, int, float, complex, type(None), type, types.ModuleType, torch.dtype, torch.device)):
            return
        if id(value) in self.seen:
            return
        if depth > DEPTH or len(self.seen) > VALUES:
            self.whole = False
            return
        self.seen.add(id(value))
        if isinstance(value, torch.Tensor):
            self._add_tensor(value, path)
        elif isinstance(value, torch.Generator):
            self.generators.append(value)
        elif isinstance(value, types.FunctionType):
            self._add_code(value, path, depth)
        elif isinstance(value, types.MethodType):
            of_module = isinstance(value.__self__, torch.nn.Module) and path == "function"
            self._add(value.__self__, "" if of_module else path, depth)
            self._add(value.__func__, path, depth + 1)
        elif isinstance(value, functools.partial):
            for n, part in enumerate((value.func, value.args, value.keywords)):
                self._add(part, f"{path}.{('func', 'args', 'keywords')[n]}", depth + 1)
        elif isinstance(value, dict):
            self._add_mapping(value, path, depth)
        elif isinstance(value, (list, tuple, set, frozenset)):
            if isinstance(value, (list, set)):
                self.holders.append((value, type(value)(value)))
            for n, part in enumerate(value):
                self._add(part, f"{path}[{n}]", depth + 1)
        elif (attributes := plain_objects(value)) is not None:
            self._add_attributes(value, attributes, path, depth)

    def _add_tensor(self, tensor: Any, path: str) -> None:
        """Add a tensor with data, and its gradient."""
        if tensor.device.type == "meta":
            return
        self.tensors[path] = tensor
        if tensor.is_leaf and tensor.grad is not None:
            self._add(tensor.grad, f"{path}.grad", 0)

    def _add_mapping(self, value: MutableMapping[Any, Any], path: str, depth: int) -> None:
        """Add a dict and its values."""
        self.holders.append((value, dict(value)))
        for key, part in list(value.items()):
            self._add(part, f"{path}[{key!r}]" if isinstance(key, (str, int)) else f"{path}[…]", depth + 1)

    def _add_attributes(self, value: Any, attributes: dict[str, Any], path: str, depth: int) -> None:
        """Add the attributes of an object, for a module also its parameters, buffers and modules, but not its hooks."""
        import torch

        self.holders.append((attributes, dict(attributes)))
        self.seen.add(id(attributes))
        dot = f"{path}." if path else ""
        for name, part in list(attributes.items()):
            if isinstance(value, torch.nn.Module) and name in ("_parameters", "_buffers", "_modules"):
                self.holders.append((part, dict(part)))
                for key, content in list(part.items()):
                    self._add(content, f"{dot}{key}", depth + 1)
            elif not (isinstance(value, torch.nn.Module) and "_hooks" in name):
                self._add(part, f"{dot}{name}", depth + 1)

    def _add_code(self, function: types.FunctionType, path: str, depth: int) -> None:
        """Add what a function of the program holds: closure, defaults, and the globals that its code names."""
        if str(function.__globals__.get("__name__")).partition(".")[0] in ("torch", "triton", "numpy", "explorer"):
            return
        names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in names:
            content = _content(cell)
            self.holders.append((cell, content))
            if content is not _MISSING:
                self._add(content, name if path == "function" else f"{path}.{name}", depth + 1)
        self._add(function.__defaults__, f"{path}.defaults", depth + 1)
        self._add(function.__kwdefaults__, f"{path}.defaults", depth + 1)
        every_global = function.__globals__
        named = {name: every_global[name] for name in _names(function.__code__) if name in every_global}
        self.holders.append((every_global, _SomeItems(named)))
        for name, content in named.items():
            self._add(content, name, depth + 1)

    @contextmanager
    def kept(self, seed: int | None = None) -> Iterator[dict[str, tuple[Any, Any]]]:
        """Put everything back after the block. Inside it random numbers start from a seed, if one is given.

        The block gets the tensors by path, each with a copy of its value before the block.
        """
        saved = {path: (t, t.detach().clone(), version_of(t), t.grad if t.is_leaf else None) for path, t in self.tensors.items()}
        generators = [(g, g.get_state()) for g in self.generators]
        with _random_state(seed):
            try:
                for generator, _ in generators if seed is not None else ():
                    generator.manual_seed(seed)
                yield {path: (tensor, before) for path, (tensor, before, _, _) in saved.items()}
            finally:
                for holder, before in self.holders:
                    _restore_content(holder, before)
                for tensor, before, version, grad in saved.values():
                    _restore_tensor(tensor, before, version, grad)
                for generator, state in generators:
                    generator.set_state(state)


@dataclass(frozen=True)
class PlainValues:
    """Python values that a function held at one time, such as a module's count of its calls; not its tensors.

    Dynamo guards them, and a call may change them. A verb that calls what was compiled puts back what it was compiled for.
    What only the program changed since is left alone: its next call compiles anew, and so does the verb's.
    """

    places: tuple[tuple[Any, Any, Any], ...] = ()

    @staticmethod
    def of(state: State) -> PlainValues:
        """The values now: of attributes, dicts and globals by key, and of the cells of a closure."""
        places: list[tuple[Any, Any, Any]] = []
        for holder, content in state.holders:
            if isinstance(content, dict):
                places += [(holder, key, value) for key, value in content.items() if type(value) in PLAIN]
            elif isinstance(holder, types.CellType) and type(content) in PLAIN:
                places.append((holder, None, content))
        return PlainValues(tuple(places))

    def changed(self) -> PlainValues:
        """Those whose place has another plain value now."""
        return PlainValues(tuple(place for place in self.places if _has_another(*place)))

    def put_back(self) -> None:
        """Put the values where they were; what holds another value of a plain type only."""
        for holder, key, value in self.places:
            if not _has_another(holder, key, value):
                continue
            if isinstance(holder, types.CellType):
                holder.cell_contents = value
            else:
                holder[key] = value


#: What a function holds in whose traced call nothing changed.
NOTHING_HELD = PlainValues()


def _has_another(holder: Any, key: Any, value: Any) -> bool:
    """Whether a cell, or a dict at a key, has another plain value than this one."""
    now = _content(holder) if isinstance(holder, types.CellType) else holder.get(key, _MISSING)
    return type(now) in PLAIN and (type(now) is not type(value) or now != value)


class _SomeItems(dict[str, Any]):
    """Some items of a dict; its others are not put back."""


def _restore_tensor(tensor: Any, before: Any, version: Any, grad: Any) -> None:
    """Give a tensor its value and its gradient of before the call; one that did not change is not written to."""
    import torch

    # a tensor without data has no value to put back, and no values that could be compared
    if not lacks_data(before) and (version_of(tensor) != version or not same_bits(tensor, before)):
        put_back(tensor, before, version)
    if tensor.is_leaf and tensor.grad is not grad:
        with torch.no_grad():
            tensor.grad = grad


def _restore_content(holder: Any, before: Any) -> None:
    """Give a container its content of before the call; if it has it still, Dynamo, which watches some, sees no change."""
    if isinstance(holder, types.CellType):
        if _content(holder) is not before and before is not _MISSING:
            holder.cell_contents = before
    elif isinstance(holder, dict):
        if not isinstance(before, _SomeItems):
            for key in [k for k in holder if k not in before]:
                del holder[key]
        for key, value in before.items():
            if holder.get(key, _MISSING) is not value:
                holder[key] = value
    elif isinstance(holder, list):
        if len(holder) != len(before) or any(a is not b for a, b in zip(holder, before, strict=True)):
            holder[:] = before
    elif holder != before:
        holder.clear()
        holder.update(before)


def _content(cell: types.CellType) -> Any:
    """The content of a closure's cell; `_MISSING` where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _names(code: types.CodeType) -> Iterator[str]:
    """List the names that a function, and the functions written in it, look up outside."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


@contextmanager
def _random_state(seed: int | None) -> Iterator[None]:
    """Start the random numbers of torch, Python and numpy from a seed, and go on as before after the block."""
    import torch

    devices = [torch.cuda.current_device()] if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    numpy = sys.modules.get("numpy")
    of_python, of_numpy = random.getstate(), numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=devices):
        try:
            if seed is not None:
                torch.manual_seed(seed)
                random.seed(seed)
                if numpy:
                    numpy.random.seed(seed)
            yield
        finally:
            random.setstate(of_python)
            if numpy:
                numpy.random.set_state(of_numpy)
