"""State: what a function can change besides what it returns, kept while it is called and put back afterwards.

That is what its module, its closure, the globals that it names and the object that it is a method of hold: tensors with
their gradients, generators of random numbers, and the dicts, lists and attributes in which Python values are.
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

from explorer.observe.tensors import plain_objects, put_back, same_bits, version_of

#: How deep, and through how many values, it is looked for tensors.
DEPTH, VALUES = 40, 100_000
_MISSING = object()


@dataclass
class State:
    """The tensors by path, and the containers on the way to them with what they hold."""

    tensors: dict[str, Any] = field(default_factory=dict)
    holders: list[tuple[Any, Any]] = field(default_factory=list)
    generators: list[Any] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    whole: bool = True  # False where there was more to look at than is looked at

    @staticmethod
    def of(function: Callable[..., Any], *others: tuple[str, Any]) -> State:
        """What a function reaches, and what values do that are given with their names."""
        found = State()
        found._function(function)
        for path, value in others:
            found._walk(value, path, 0)
        return found

    def _function(self, function: Any) -> None:
        """A function's own: a module's paths are those of `named_buffers`."""
        import torch

        self._walk(function, "" if isinstance(function, torch.nn.Module) else "function", 0)

    def _walk(self, value: Any, path: str, depth: int) -> None:
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
            self._tensor(value, path)
        elif isinstance(value, torch.Generator):
            self.generators.append(value)
        elif isinstance(value, types.FunctionType):
            self._code(value, path, depth)
        elif isinstance(value, types.MethodType):
            of_module = isinstance(value.__self__, torch.nn.Module) and path == "function"
            self._walk(value.__self__, "" if of_module else path, depth)
            self._walk(value.__func__, path, depth + 1)
        elif isinstance(value, functools.partial):
            for n, part in enumerate((value.func, value.args, value.keywords)):
                self._walk(part, f"{path}.{('func', 'args', 'keywords')[n]}", depth + 1)
        elif isinstance(value, dict):
            self._mapping(value, path, depth)
        elif isinstance(value, (list, tuple, set, frozenset)):
            if isinstance(value, (list, set)):
                self.holders.append((value, type(value)(value)))
            for n, part in enumerate(value):
                self._walk(part, f"{path}[{n}]", depth + 1)
        elif (own := plain_objects(value)) is not None:
            self._attributes(value, own, path, depth)

    def _tensor(self, tensor: Any, path: str) -> None:
        if tensor.device.type == "meta":
            return
        self.tensors[path] = tensor
        if tensor.is_leaf and tensor.grad is not None:
            self._walk(tensor.grad, f"{path}.grad", 0)

    def _mapping(self, value: MutableMapping[Any, Any], path: str, depth: int) -> None:
        self.holders.append((value, dict(value)))
        for key, part in list(value.items()):
            self._walk(part, f"{path}[{key!r}]" if isinstance(key, (str, int)) else f"{path}[…]", depth + 1)

    def _attributes(self, value: Any, own: dict[str, Any], path: str, depth: int) -> None:
        import torch

        self.holders.append((own, dict(own)))
        self.seen.add(id(own))
        dot = f"{path}." if path else ""
        for name, part in list(own.items()):
            if isinstance(value, torch.nn.Module) and name in ("_parameters", "_buffers", "_modules"):
                self.holders.append((part, dict(part)))
                for key, held in list(part.items()):
                    self._walk(held, f"{dot}{key}", depth + 1)
            elif not (isinstance(value, torch.nn.Module) and "_hooks" in name):
                self._walk(part, f"{dot}{name}", depth + 1)

    def _code(self, function: types.FunctionType, path: str, depth: int) -> None:
        """What a function of the program holds: closure, defaults, and the globals that its code names."""
        if str(function.__globals__.get("__name__")).partition(".")[0] in ("torch", "triton", "numpy", "explorer"):
            return
        names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in names:
            held = _content(cell)
            self.holders.append((cell, held))
            if held is not _MISSING:
                self._walk(held, name if path == "function" else f"{path}.{name}", depth + 1)
        self._walk(function.__defaults__, f"{path}.defaults", depth + 1)
        self._walk(function.__kwdefaults__, f"{path}.defaults", depth + 1)
        space = function.__globals__
        named = {name: space[name] for name in _names(function.__code__) if name in space}
        self.holders.append((space, _Named(named)))
        for name, held in named.items():
            self._walk(held, name, depth + 1)

    @contextmanager
    def kept(self, seed: int | None = None) -> Iterator[dict[str, tuple[Any, Any]]]:
        """After the block everything is as it was before; inside, random numbers start from a seed, where one is given.

        What is given are the tensors by path, each with a copy of what it was.
        """
        import torch

        saved = {path: (t, t.detach().clone(), version_of(t), t.grad if t.is_leaf else None) for path, t in self.tensors.items()}
        generators = [(g, g.get_state()) for g in self.generators]
        with _random_state(seed):
            try:
                for generator, _ in generators if seed is not None else ():
                    generator.manual_seed(seed)
                yield {path: (tensor, before) for path, (tensor, before, _, _) in saved.items()}
            finally:
                for holder, before in self.holders:
                    _hold_again(holder, before)
                for tensor, before, version, grad in saved.values():
                    if version_of(tensor) != version or not same_bits(tensor, before):
                        put_back(tensor, before, version)
                    if tensor.is_leaf and tensor.grad is not grad:
                        with torch.no_grad():
                            tensor.grad = grad
                for generator, state in generators:
                    generator.set_state(state)


class _Named(dict[str, Any]):
    """Some names of a dict, of which the others are nobody's business here."""


def _hold_again(holder: Any, before: Any) -> None:
    """Let a container hold what it held; one that still does is not touched, since Dynamo watches some of them."""
    if isinstance(holder, types.CellType):
        if _content(holder) is not before and before is not _MISSING:
            holder.cell_contents = before
    elif isinstance(holder, dict):
        if not isinstance(before, _Named):
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
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that a function and those written in it look up outside."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


@contextmanager
def _random_state(seed: int | None) -> Iterator[None]:
    """Random numbers of torch, of Python and of numpy, where that is in use, start from a seed, and go on as before after it."""
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
