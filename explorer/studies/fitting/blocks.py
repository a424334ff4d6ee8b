"""The repeated blocks of a model, found by one call without data: which they are, what they are called with, which are alike.

Blocks are alike where they have the same text, the same parameters, the same arguments, and call the same operators in eager on
tensors of the same shapes. They then compile to the same code, so one of them stands for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from explorer.capture.observe.without_data import mixing
from explorer.studies.fitting.models import is_split
from explorer.studies.fitting.self_contained import Operator, Storages, is_self_contained

#: Calls a model with its inputs: what is differentiated, or returned.
CallModel = Callable[..., Any]


@dataclass(frozen=True)
class Hole:
    """Stands in a block's arguments for a tensor: the number of it, -1 for the hidden states."""

    number: int


@dataclass(frozen=True)
class Capture:
    """A model's blocks and how it calls them.

    `templates` are each block's (args, kwargs) with holes for tensors; `extras` are the tensors that holes are numbers of.
    `alike` has the number of the first block that is like each. `returns` is the length of the tuple that each gives, 0 for a
    tensor, `place` the argument that is the hidden states, and `hidden` these. `split_before` and `split_behind` name the
    modules that ranks split and that are called before the blocks, and behind them.
    """

    path: str
    blocks: tuple[Any, ...]
    templates: tuple[Any, ...]
    extras: tuple[Any, ...]
    alike: tuple[int, ...]
    returns: tuple[int, ...]
    place: str | int
    hidden: Any
    split_before: tuple[str, ...]
    split_behind: tuple[str, ...]

    def of(self, model: Any) -> Capture:
        """The same of another copy of the model, such as one with data."""
        return replace(self, blocks=tuple(model.get_submodule(self.path).children()))


@dataclass
class _Called:
    """A call of a candidate: its arguments, what it gave, and the operators that it called; `span` are their numbers."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    span: range
    output: Any = None
    operators: list[str] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)


def capture(model: Any, call: CallModel, inputs: Sequence[Any]) -> Capture | None:
    """Call a model of fake tensors once, and find its blocks.

    None if the model has no blocks, if one takes more from another than the hidden states, or if the code outside takes more
    from them than the last one's result.
    """
    import torch

    lists = [(path, list(m.children())) for path, m in model.named_modules() if _is_list(m)]
    calls: dict[int, list[_Called]] = {}
    watched = [*(block for _, blocks in lists for block in blocks), *(m for m in model.modules() if is_split(m))]
    storages, operators = Storages(), list[Operator]()
    with torch.no_grad(), mixing(inputs), _watching(list(dict.fromkeys(watched)), calls, storages, operators):
        result = call(model, *inputs)
    found = [(path, blocks, hidden) for path, blocks in lists if (hidden := _chained(blocks, calls)) is not None]
    if not found:
        return None
    path, blocks, place = max(found, key=lambda one: sum(p.numel() for block in one[1] for p in block.parameters()))
    made = [calls[id(block)][0] for block in blocks]
    captured = _captured(path, blocks, made, place, _split_outside(model, blocks, calls))
    inside = {id(tensor) for one in made for tensor in one.made}
    if any(id(tensor) in inside for tensor in captured.extras):
        return None
    spans, output = [one.span for one in made], _first_tensor(made[-1].output)
    return captured if is_self_contained(model, inputs, storages, operators, spans, output, result) else None


def _split_outside(model: Any, blocks: Sequence[Any], calls: Mapping[int, Sequence[_Called]]) -> tuple[tuple[str, ...], ...]:
    """The names of the modules outside of the blocks that ranks split: those called before the blocks, and those behind."""
    own = {id(module) for block in blocks for module in block.modules()}
    order = list(calls)  # by the first call of each
    last = order.index(id(blocks[-1]))
    named = [
        (name, order.index(id(m))) for name, m in model.named_modules() if id(m) not in own and is_split(m) and id(m) in calls
    ]
    return tuple(name for name, place in named if place < last), tuple(name for name, place in named if place > last)


def _is_list(module: Any) -> bool:
    import torch

    return isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(module) > 0


def _watching(blocks: Sequence[Any], calls: dict[int, list[_Called]], storages: Storages, operators: list[Operator]) -> Any:
    """Note the calls of some modules inside the block, with the operators in each, and all operators."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):  # type: ignore[misc]
        """Notes each operator for every module that is being called."""

        def __init__(self) -> None:
            super().__init__()
            self.open: list[_Called] = []
            self.handles: list[Any] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            given = _leaves((args, kwargs or {}))
            operators.append(Operator(storages.of(given), storages.of(_leaves(result))))
            if self.open:
                leaves = [_described(leaf) for leaf in given]
                for one in self.open:
                    one.operators.append(f"{func}({', '.join(leaves)})")
                    one.made += _leaves(result)
            return result

        def __enter__(self) -> Any:
            for block in blocks:
                self.handles.append(block.register_forward_pre_hook(self.begun, with_kwargs=True))
                self.handles.append(block.register_forward_hook(self.ended))
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            for handle in self.handles:
                handle.remove()
            super().__exit__(*error)

        def begun(self, module: Any, args: Any, kwargs: Any) -> None:
            self.open.append(_Called(args, dict(kwargs), range(len(operators), len(operators))))
            calls.setdefault(id(module), []).append(self.open[-1])

        def ended(self, module: Any, args: Any, output: Any) -> None:
            ended = self.open.pop()
            ended.output, ended.span = output, range(ended.span.start, len(operators))

    return Watching()


def _leaves(value: Any) -> list[Any]:
    """What is in a nest of tuples, lists and dicts."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, (tuple, list)) else [value]


def _described(value: Any) -> str:
    """A tensor by its shape and dtype, a number or a name by itself, anything else by its type."""
    import torch

    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}{value.stride()}{getattr(value, 'placements', '')}"
    plain = isinstance(value, (bool, int, float, str, torch.dtype, torch.device, type(None)))
    return repr(value) if plain else type(value).__name__


def _first_tensor(output: Any) -> Any:
    import torch

    first = output[0] if isinstance(output, tuple) and output else output
    return first if isinstance(first, torch.Tensor) and first.is_floating_point() else None


def _chained(blocks: Sequence[Any], calls: Mapping[int, Sequence[_Called]]) -> str | int | None:
    """Return the argument that passes each block the previous one's result, all in one form; None for other blocks."""
    if any(len(calls.get(id(block), ())) != 1 for block in blocks):
        return None
    made = [calls[id(block)][0] for block in blocks]
    given = (*enumerate(made[0].args), *made[0].kwargs.items())
    first = _first_tensor(made[0].output)
    if first is None:
        return None
    places: list[Any] = [place for place, value in given if _described(value) == _described(first)]
    for before, after in pairwise(made):
        output = _first_tensor(before.output)
        places = [place for place in places if output is not None and _argument(after, place) is output]
    same = {_described(_first_tensor(one.output)) for one in made}
    return places[0] if places and len(same) == 1 else None


def _argument(called: _Called, place: str | int) -> Any:
    if isinstance(place, str):
        return called.kwargs.get(place)
    return called.args[place] if place < len(called.args) else None


def _captured(
    path: str, blocks: Sequence[Any], made: Sequence[_Called], place: str | int, outside: Sequence[tuple[str, ...]]
) -> Capture:
    """Put holes in place of tensors, and compare the blocks."""
    extras: list[Any] = []
    templates = [_holed((one.args, dict(one.kwargs)), _argument(one, place), extras) for one in made]
    forms: dict[object, int] = {}
    alike = []
    for number, (block, one, template) in enumerate(zip(blocks, made, templates, strict=True)):
        parameters = tuple(f"{name}{_described(p)}" for name, p in block.named_parameters())
        form = (repr(block), parameters, tuple(one.operators), repr(template))
        alike.append(forms.setdefault(form, number))
    returns = tuple(len(one.output) if isinstance(one.output, tuple) else 0 for one in made)
    hidden = _argument(made[0], place)
    return Capture(path, tuple(blocks), tuple(templates), tuple(extras), tuple(alike), returns, place, hidden, *outside)


def _holed(value: Any, hidden: Any, extras: list[Any]) -> Any:
    """A nest of arguments with a hole for each tensor."""
    import torch

    if isinstance(value, torch.Tensor):
        if value is hidden:
            return Hole(-1)
        number = next((n for n, tensor in enumerate(extras) if tensor is value), len(extras))
        if number == len(extras):
            extras.append(value)
        return Hole(number)
    if isinstance(value, (tuple, list)):
        return type(value)(_holed(part, hidden, extras) for part in value)
    if isinstance(value, dict):
        return {key: _holed(part, hidden, extras) for key, part in value.items()}
    return value


def filled(template: Any, hidden: Any, extras: Sequence[Any]) -> Any:
    """A nest of arguments with tensors in its holes."""
    if isinstance(template, Hole):
        return hidden if template.number < 0 else extras[template.number]
    if isinstance(template, tuple):
        return tuple([filled(part, hidden, extras) for part in template])
    if isinstance(template, list):
        return [filled(part, hidden, extras) for part in template]
    if isinstance(template, dict):
        return {key: filled(part, hidden, extras) for key, part in template.items()}
    return template


def holes_of(template: Any) -> Iterator[int]:
    """The numbers of the extras in a nest of arguments, in its order."""
    if isinstance(template, Hole):
        yield from () if template.number < 0 else (template.number,)
    elif isinstance(template, dict):
        yield from (number for part in template.values() for number in holes_of(part))
    elif isinstance(template, (tuple, list)):
        yield from (number for part in template for number in holes_of(part))


__all__ = ["CallModel", "Capture", "Hole", "capture", "filled", "holes_of"]
