"""Outcome: what a call returns and changes, by name: outputs, gradients, and the inputs and state after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from explorer.capture.observe.tensors import dense_parts, map_tensors, memory_of, opened_leaves, same_bits, storage_of
from explorer.lab.live.call import Call, run_call, weighted
from explorer.lab.live.state import State


@dataclass(frozen=True)
class Part:
    """One value of an outcome: a copy of a tensor, or another value as it is.

    `shares` names the inputs and the earlier outputs that the value shares memory with. `strides` are the strides of the
    tensor itself, not of the copy. `why_not` says why the value cannot be compared.
    """

    value: Any
    shares: tuple[str, ...] = ()
    strides: tuple[int, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class Outcome:
    """The parts by name. `changed` names the tensors of the state that the call changed.

    `whole` is False where the function holds more than is looked at for changes.
    """

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
    """Call a function on copies of the call's arguments, and put back whatever it changed.

    `within` holds during the call alone. The parts are copies, so putting the state back does not change them.
    """
    state = State.of(call.function, *others)
    copied = call.copy(state.tensors.values())
    arguments = _arguments(copied)
    with state.kept(seed) as state_before, arguments.kept(seed) as inputs:
        before = {**inputs, **state_before}
        call.held.put_back()
        with within():
            returned, gradients = run_call(function, copied, weighted)
        parts = dict(_returned(returned, gradients, {path: tensor for path, (tensor, _) in before.items()}))
        after = {**_arguments(copied).tensors, **State.of(call.function, *others).tensors}
        state_after, changed = _afterwards(before, after)
    return Outcome(parts, state_after, changed, state.whole and arguments.whole)


def bytes_of(outcome: Outcome) -> int:
    """The bytes of an outcome's tensors."""
    values = (part.value for parts in (outcome.returned, outcome.state) for part in parts.values())
    return sum(getattr(value, "nbytes", 0) for value in values)


def same_outcome(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes have the same values, tensors to the bit; False where another value cannot be told to be the same."""
    import torch

    if (one.changed, one.whole) != (other.changed, other.whole):
        return False
    for first, second in ((one.returned, other.returned), (one.state, other.state)):
        if first.keys() != second.keys():
            return False
        for name, part in first.items():
            a, b = part.value, second[name].value
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                same = same_bits(a, b)
            else:
                same = a is b or (type(a) is type(b) and isinstance(a, (bool, int, float, str)) and a == b)
            if not same:
                return False
    return True


def other_types(one: Outcome, other: Outcome) -> bool:
    """Tell whether a tensor that both return has different types."""
    first, second = (
        {name: getattr(part.value, "dtype", None) for name, part in outcome.returned.items()} for outcome in (one, other)
    )
    return any(name in second and second[name] != dtype for name, dtype in first.items())


@contextmanager
def on_copies(call: Call, seed: int | None = None) -> Iterator[Call]:
    """Give the call with copies of its arguments, and put back after the block what else the function changed.

    Inside the block the function holds the Python values with which the traced call began, and random numbers start from the
    seed, if one is given.
    """
    state = State.of(call.function)
    copied = call.copy(state.tensors.values())
    with state.kept(seed), _arguments(copied).kept():
        call.held.put_back()
        yield copied


def detached_of_state(call: Call, returned: Any) -> Any:
    """Copy returned tensors that share memory with the function's state or arguments: these are restored after the call."""
    tensors = {**State.of(call.function).tensors, **_arguments(call).tensors}
    of_state = {storage_of(tensor) for tensor in tensors.values()} - {None}
    return map_tensors(lambda t: t.detach().clone() if storage_of(t) in of_state else t, returned)


def _arguments(call: Call) -> State:
    """The tensors of a call's arguments."""
    return State.of(lambda: None, ("args", call.args), ("kwargs", dict(call.kwargs)))


def _afterwards(before: Mapping[str, tuple[Any, Any]], after: Mapping[str, Any]) -> tuple[dict[str, Part], frozenset[str]]:
    """The state after a call, and the paths of what changed: tensors with other values, new ones, and those gone."""
    state, changed = {}, set()
    for path, tensor in after.items():
        same = path in before and same_bits(before[path][1], tensor)
        if not same:
            changed.add(path)
        # a tensor that did not change is the same when the state is put back: it needs no copy
        state[path] = _part(tensor if same else tensor.detach().clone())
    for path in before.keys() - after.keys():
        changed.add(path)
        state[path] = Part(None)
    return state, frozenset(changed)


def _part(tensor: Any) -> Part:
    """A part that is not copied."""
    import torch

    strides = tuple(tensor.stride()) if tensor.layout == torch.strided else ()
    return Part(tensor, strides=strides)


def _returned(returned: Any, gradients: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Part]]:
    """Yield each leaf of the returned value, with objects opened where possible, then the gradients."""
    import torch

    places = [(path, memory) for path, tensor in inputs.items() if (memory := memory_of(tensor)) is not None]
    for path, leaf in opened_leaves(returned, "output"):
        if not isinstance(leaf, torch.Tensor):
            yield path, Part(leaf)
            continue
        shares: tuple[str, ...] = ()
        if (memory := memory_of(leaf)) is not None:
            start, end = memory
            shares = tuple(place for place, (first, last) in places if first < end and start < last)
            places.append((path, memory))
        for name, part in dense_parts(path, leaf):
            yield name, _copied(part, shares)
    for name, gradient in (gradients or {}).items():
        if gradient is None:
            yield f"gradient of {name}", Part(None)
            continue
        for path, part in dense_parts(f"gradient of {name}", gradient):
            yield path, _copied(part, ())


def _copied(tensor: Any, shares: tuple[str, ...]) -> Part:
    """A part with a copy of a tensor."""
    import torch

    if tensor.device.type == "meta":
        return Part(tensor, why_not="it is on the meta device, which has no data")
    strides = tuple(tensor.stride()) if tensor.layout == torch.strided else ()
    return Part(tensor.detach().clone(), shares, strides)
