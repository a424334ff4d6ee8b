"""Outcome: everything that a call gives and changes, by name: outputs, gradients, and inputs and state afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from explorer.live.call import Call, run_call, weighted
from explorer.live.state import State
from explorer.observe.tensors import dense_parts, map_tensors, opened_leaves, same_bits, storage_of


@dataclass(frozen=True)
class Part:
    """One value of an outcome: a copy of a tensor, or another value as it is.

    `shares` are the inputs and the outputs before it of which it is a view; `strides` are those of the tensor itself.
    """

    value: Any
    shares: tuple[str, ...] = ()
    strides: tuple[int, ...] = ()
    why_not: str = ""  # why the value cannot be compared


@dataclass(frozen=True)
class Outcome:
    """The parts by name; `changed` are those of the state afterwards that are not what they were before."""

    returned: Mapping[str, Part]
    state: Mapping[str, Part]
    changed: frozenset[str] = frozenset()
    whole: bool = True


def outcome_of(
    function: Callable[..., Any],
    call: Call,
    *,
    seed: int = 0,
    within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    others: tuple[tuple[str, Any], ...] = (),
) -> Outcome:
    """Call a function as the call says, on copies, and put back whatever it changed; `within` holds during the call alone.

    The parts are copies: nothing of them is lost when the state is put back.
    """
    own = State.of(call.function, *others)
    given = call.copy(own.tensors.values())
    arguments = _arguments(given)
    with own.kept(seed) as before, arguments.kept(seed) as inputs:
        before = {**inputs, **before}
        with within():
            returned, gradients = run_call(function, given, weighted)
        parts = dict(_returned(returned, gradients, {path: tensor for path, (tensor, _) in before.items()}))
        after = {**_arguments(given).tensors, **State.of(call.function, *others).tensors}
        state, changed = _afterwards(before, after)
    return Outcome(parts, state, changed, own.whole and arguments.whole)


def other_types(one: Outcome, other: Outcome) -> bool:
    """Whether a tensor that both return has one type here and another there."""
    kinds = [{name: getattr(part.value, "dtype", None) for name, part in outcome.returned.items()} for outcome in (one, other)]
    return any(name in kinds[1] and kinds[1][name] != kind for name, kind in kinds[0].items())


@contextmanager
def on_copies(call: Call) -> Iterator[Call]:
    """The call with copies of its arguments; after the block what the function changed besides is as it was before."""
    own = State.of(call.function)
    copied = call.copy(own.tensors.values())
    with own.kept(), _arguments(copied).kept():
        yield copied


def detached_of_state(call: Call, returned: Any) -> Any:
    """What a call returned, with copies of the tensors that are the function's own, which are put back after it."""
    own = {storage_of(tensor) for tensor in State.of(call.function).tensors.values()} - {None}
    return map_tensors(lambda t: t.detach().clone() if storage_of(t) in own else t, returned)


def _arguments(call: Call) -> State:
    return State.of(lambda: None, ("args", call.args), ("kwargs", dict(call.kwargs)))


def _afterwards(before: Mapping[str, tuple[Any, Any]], after: Mapping[str, Any]) -> tuple[dict[str, Part], frozenset[str]]:
    """The state afterwards, and the paths of what changed: tensors that are others now, or hold others, or are gone."""
    state, changed = {}, set()
    for path, tensor in after.items():
        same = path in before and same_bits(before[path][1], tensor)
        if not same:
            changed.add(path)
        # what did not change is not copied: it is as it is when all is put back
        state[path] = _part(tensor if same else tensor.detach().clone())
    for path in before.keys() - after.keys():
        changed.add(path)
        state[path] = Part(None)
    return state, frozenset(changed)


def _part(tensor: Any, **more: Any) -> Part:
    import torch

    strides = tuple(tensor.stride()) if tensor.layout == torch.strided else ()
    return Part(tensor, strides=strides, **more)


def _returned(returned: Any, gradients: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Part]]:
    """Each leaf of what was returned, opened as far as it can be, then the gradients."""
    import torch

    places: dict[int, list[str]] = {}
    for path, tensor in inputs.items():
        if (key := storage_of(tensor)) is not None:
            places.setdefault(key, []).append(path)
    for path, leaf in opened_leaves(returned, "output"):
        if not isinstance(leaf, torch.Tensor):
            yield path, Part(leaf)
            continue
        key = storage_of(leaf)
        shares = tuple(places.get(key, ())) if key is not None else ()
        if key is not None:
            places.setdefault(key, []).append(path)
        for name, part in dense_parts(path, leaf):
            yield name, _copied(part, shares)
    for name, gradient in (gradients or {}).items():
        if gradient is None:
            yield f"gradient of {name}", Part(None)
            continue
        for path, part in dense_parts(f"gradient of {name}", gradient):
            yield path, _copied(part, ())


def _copied(tensor: Any, shares: tuple[str, ...]) -> Part:
    import torch

    if tensor.device.type == "meta":
        return Part(tensor, why_not="it is on the meta device, which has no data")
    strides = tuple(tensor.stride()) if tensor.layout == torch.strided else ()
    return Part(tensor.detach().clone(), shares, strides)
