"""Compute a float64 value beside each value of an eager run, and measure how far the two are apart.

Each storage of the program has a shadow storage in float64. An operator runs on the program's tensors and on their shadows.
Views and writes in place need no code of their own. A branch on a tensor goes where eager goes.
"""

from __future__ import annotations

import functools
import linecache
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from explorer.capture.interpret.rounding import is_random, tensors_written
from explorer.capture.interpret.unwritten import EMPTY
from explorer.capture.observe.fx import target_name
from explorer.capture.observe.tensors import storage_of, wide_type

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What an operator raises that has no float64.
NOT_IN_FLOAT64 = (RuntimeError, TypeError, ValueError, NotImplementedError)
#: Operators whose result does not depend on the order of the numbers that they add, but for rounding.
SUMS = ("sum", "mean", "var", "std", "nansum", "linalg_vector_norm", "var_mean", "std_mean")
#: A float64 value with a larger relative error than this is taken for zero.
UNTRUSTED = 0.01
#: Where explorer's own frames are, between an operator and the program's line.
_OWN = tuple(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), room, "") for room in ("capture", "lab"))


@dataclass(frozen=True)
class Place:
    """The line of the program that calls an operator, and the nn.Module that it is called in.

    `backward` says that autograd called the operator, for an operator of that line.
    """

    file: str = ""
    line: int = 0
    code: str = ""
    module: str = ""
    backward: bool = False


#: The place of an operator that no line of the program calls.
NOWHERE = Place()


@dataclass(frozen=True)
class OperatorError:
    """How far one operator's value is from float64, relative to the norm of the float64 value.

    `number` counts the operators of the run. `operand_error` is the largest error of its operands. `narrowed` says that the
    operator casts to a smaller type. `note` says why there is no float64 value, which is then that of the operator itself.
    """

    number: int
    operator: str
    place: Place
    dtype: str
    error: float
    operand_error: float
    narrowed: bool = False
    note: str = ""

    @property
    def added(self) -> float:
        """What the operator adds to the error of its operands."""
        return max(self.error - self.operand_error, 0.0) if self.operand_error != float("inf") else 0.0


@dataclass(frozen=True)
class LocalError:
    """The error of one operator whose operands are right but for their own rounding.

    `itself` is the error beside float64 with the same operands, and `from_operands` what float64 makes of the rounded operands.
    `rounded_once` is computed in float64 and then rounded, `reordered` is added in the reverse order.
    """

    itself: float
    from_operands: float
    rounded_once: float
    reordered: float | None = None


@dataclass
class Shadowed:
    """What a run with shadows gave. `value` of a tensor is its float64 value.

    `errors` has the operators in order, `local` the local errors of those that alone were rounded. `drawn` says that the
    program draws random numbers.
    """

    value: Callable[[Any], Any]
    errors: list[OperatorError] = field(default_factory=list)
    local: dict[int, LocalError] = field(default_factory=dict)
    drawn: bool = False


@contextmanager
def shadowed(
    outermost: str, module_names: Mapping[int, str], rounded: Collection[int] = (), hear: Callable[..., None] | None = None
) -> Iterator[Shadowed]:
    """Shadow the operators of the block.

    `outermost` is the file that calls the program: frames beyond it are not the program's. `module_names` has names by the ids of
    modules. The operators of the numbers in `rounded` compute the shadows in the program's own types. `hear` is told each
    operator's name, place and result; then no float64 value is computed.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    shadowing = _Shadowing(outermost, module_names, frozenset(rounded), hear)

    class Shadow(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return shadowing.call(function, args, kwargs or {})

    with Shadow():
        yield shadowing.run


class _Storages:
    """The shadow of each storage, and the storage, which is kept so that its address stays its own."""

    def __init__(self) -> None:
        self._flat: dict[tuple[int, Any], tuple[Any, Any]] = {}

    def of(self, tensor: Any) -> Any:
        """Return the shadow of a tensor; at first it has the tensor's own values."""
        if not _has_storage(tensor):
            return tensor.detach().to(wide_type(tensor.dtype))
        storage = tensor.untyped_storage()
        key, count = (int(storage._cdata), tensor.dtype), storage.nbytes() // tensor.dtype.itemsize
        if key not in self._flat or self._flat[key][1].numel() != count:
            self._flat[key] = storage, _flat(tensor, count).to(wide_type(tensor.dtype), copy=True)
        shadow = self._flat[key][1].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return shadow.conj() if tensor.is_conj() else shadow

    def forget(self, tensor: Any) -> None:
        """Let the shadow of a tensor begin anew from its own values."""
        if _has_storage(tensor):
            self._flat.pop((int(tensor.untyped_storage()._cdata), tensor.dtype), None)

    def put(self, tensor: Any, value: Any) -> None:
        """Set the shadow of a new tensor."""
        if _has_storage(tensor):
            self.forget(tensor)
            with suppress(RuntimeError):  # memory that several elements share cannot be written at once
                self.of(tensor).copy_(value)


class _Shadowing:
    """Calls each operator on tensors and on their shadows."""

    def __init__(
        self, outermost: str, module_names: Mapping[int, str], rounded: frozenset[int], hear: Callable[..., None] | None
    ) -> None:
        self._storages, self._rounded, self._hear, self._count = _Storages(), rounded, hear, 0
        self._outermost, self._module_names = outermost, module_names
        self._forward: dict[int, Place] = {}
        self.run = Shadowed(self._storages.of)

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator; a view of a tensor has the view of its shadow."""
        if not hasattr(function, "_schema"):
            return function(*args, **kwargs)
        if any(r.alias_info is not None for r in function._schema.returns) and not function._schema.is_mutable:
            return function(*args, **kwargs)
        place, number = self._place(sys._getframe(2)), self._count
        self._count += 1
        written = [tensor for tensor in tensors_written(function, args, kwargs) if has_error(tensor)]
        random, unwritten = is_random(function, args, kwargs), function._schema.name in EMPTY
        if self._hear is None and not random and not unwritten:
            return self._both(number, place, function, args, kwargs, written)
        result = function(*args, **kwargs)
        self.run.drawn |= random and bool(place.file)
        for tensor in written:
            self._storages.forget(tensor)
        if self._hear is not None and not unwritten:
            self._hear(target_name(function), place, result)
        return result

    def _both(self, number: int, place: Place, function: Any, args: Any, kwargs: Any, written: list[Any]) -> Any:
        """Call an operator and its shadow, and note how far they are apart."""
        import torch
        from torch.utils import _pytree as pytree

        operands = [t for t in pytree.tree_leaves((args, kwargs)) if has_error(t)]
        operand_error = max((relative_error(t, self._storages.of(t)) for t in operands), default=0.0)
        narrowest = min((torch.finfo(t.dtype).bits for t in operands), default=0)
        note = ""
        try:
            exact = self._exact(number, function, args, kwargs)
        except NOT_IN_FLOAT64 as refused:
            exact, note = None, f"{type(refused).__name__}: {refused}".partition("\n")[0]
        result = function(*args, **kwargs)
        if note:
            for tensor in written:
                self._storages.forget(tensor)
        writes = {storage_of(tensor) for tensor in written}
        results = [t for t in pytree.tree_leaves(result) if has_error(t)]
        if not note:
            for tensor, value in zip(pytree.tree_leaves(result), pytree.tree_leaves(exact), strict=False):
                if has_error(tensor) and storage_of(tensor) not in writes and has_error(value) and value.shape == tensor.shape:
                    self._storages.put(tensor, value)
        values = list({id(t): t for t in (*results, *written)}.values())
        if values:
            error = max(relative_error(t, self._storages.of(t)) for t in values)
            narrowed = bool(operands) and not function._schema.is_mutable and torch.finfo(values[0].dtype).bits < narrowest
            dtype = str(values[0].dtype).removeprefix("torch.")
            self.run.errors.append(
                OperatorError(number, target_name(function), place, dtype, error, operand_error, narrowed, note)
            )
        return result

    def _exact(self, number: int, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator on the shadows, which it may write; one that alone is rounded writes rounded values."""
        import torch
        from torch.utils import _pytree as pytree

        def shadow(value: Any) -> Any:
            return self._storages.of(value) if has_error(value) else wide_type(value) if isinstance(value, torch.dtype) else value

        given, named = pytree.tree_map(shadow, (args, kwargs))
        if number not in self._rounded:
            return function(*given, **named)

        def rounded(value: Any) -> Any:
            return self._storages.of(value).to(value.dtype, copy=True) if has_error(value) else value

        own = pytree.tree_map(rounded, (args, kwargs))
        same = pytree.tree_map(lambda v: v.to(wide_type(v.dtype), copy=True) if has_error(v) else v, own)
        same = pytree.tree_map(lambda v: wide_type(v) if isinstance(v, torch.dtype) else v, same)
        reordered = _reordered(function, *own)
        (result, own_values), (_, same_values) = (_values(function, *each) for each in (own, same))
        exact, exact_values = _values(function, given, named)
        self.run.local[number] = _local_error(own_values, same_values, exact_values, reordered)
        if function._schema.is_mutable:
            for tensor, value in zip(exact_values, own_values, strict=True):
                tensor.copy_(value)
            return exact
        return pytree.tree_map(lambda v: v.to(wide_type(v.dtype)) if has_error(v) else v, result)

    def _place(self, frame: FrameType | None) -> Place:
        """Find the program's line by the frames, in a backward by the number of the forward's operator."""
        import torch

        if (node := torch._C._current_autograd_node()) is not None:
            forward = self._forward.get(node._sequence_nr())
            return replace(forward, backward=True) if forward is not None else Place(backward=True)
        place, module, nearest = NOWHERE, None, 2
        while frame is not None and frame.f_code.co_filename != self._outermost:
            file = frame.f_code.co_filename
            if module is None and frame.f_code.co_name == "_call_impl":
                owner = frame.f_locals.get("self")
                module = self._module_names.get(id(owner), type(owner).__name__)
            if (distance := distance_of(file)) < nearest:
                place, nearest = Place(file, frame.f_lineno, linecache.getline(file, frame.f_lineno).strip()), distance
            frame = frame.f_back
        place = replace(place, module=module or "") if place.file else NOWHERE
        if place.file:
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, place)
        return place


@functools.cache
def distance_of(file: str) -> int:
    """Return 0 for a file of the program, 1 for one of torch.nn's modules, 2 for any other of torch's and explorer's own."""
    import torch

    folder = os.path.dirname(torch.__file__)
    if file.startswith(os.path.join(folder, "nn", "modules", "")) and os.path.basename(file) != "module.py":
        return 1
    return 2 if file.startswith((os.path.join(folder, ""), *_OWN)) else 0


def _values(function: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """Call an operator: its result, and the floats that it returns or writes."""
    from torch.utils import _pytree as pytree

    result = function(*args, **kwargs)
    values = tensors_written(function, args, kwargs) if function._schema.is_mutable else pytree.tree_leaves(result)
    return result, [value for value in values if has_error(value)]


def _local_error(own: list[Any], same: list[Any], exact: list[Any], reordered: list[Any] | None) -> LocalError:
    """Compare an operator's values with those in float64 from the same and from exact operands."""

    def error(values: list[Any], right: list[Any]) -> float:
        return max((relative_error(a, b) for a, b in zip(values, right, strict=False) if a.shape == b.shape), default=0.0)

    once = [right.to(value.dtype) for value, right in zip(own, exact, strict=False)]
    other = error(reordered, same) if reordered is not None else None
    return LocalError(error(own, same), error(same, exact), error(once, exact), other)


def _reordered(function: Any, args: Any, kwargs: Any) -> list[Any] | None:
    """The values of a sum whose numbers come in the reverse order; None for another operator."""
    if function._schema.name.partition("::")[2] not in SUMS:
        return None
    dims = kwargs.get("dim", args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else None)
    flipped = args[0].flip(list(dims) if dims else list(range(args[0].dim())))
    return _values(function, (flipped, *args[1:]), kwargs)[1]


def relative_error(value: Any, exact: Any) -> float:
    """The norm of the distance by the norm of the float64 value; infinite where float64 is finite and the value is not.

    It is 0 for a value that is zero in float64 but for the roundings of float64, as a bias before a batch norm has a gradient.
    """
    import torch

    own, right = value.detach().to(exact.dtype), exact.detach()
    if not bool(torch.isfinite(right).all()):
        kept = torch.isfinite(right)
        own, right = own[kept], right[kept]
    if not own.numel():
        return 0.0
    distance = float(torch.linalg.vector_norm(own - right))
    if distance == 0:
        return 0.0
    if not math.isfinite(distance):
        return math.inf
    size = float(torch.linalg.vector_norm(right))
    rounding = max(torch.finfo(value.dtype).eps, torch.finfo(torch.float32).eps)  # a float64 value here was rounded before
    most = UNTRUSTED * rounding / torch.finfo(right.dtype).eps
    return distance / size if distance < most * size else 0.0


def has_error(value: Any) -> bool:
    """Tell whether a value is a plain tensor of floats or complex numbers, with data."""
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.device.type == "meta":
        return False
    return bool(value.is_floating_point() or value.is_complex())


def _has_storage(tensor: Any) -> bool:
    return not tensor.is_neg() and bool(tensor.untyped_storage().nbytes())


def _flat(tensor: Any, count: int) -> Any:
    """All numbers of a tensor's storage."""
    import torch

    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage(), 0, (count,), (1,))


__all__ = [
    "NOWHERE",
    "LocalError",
    "OperatorError",
    "Place",
    "Shadowed",
    "distance_of",
    "has_error",
    "relative_error",
    "shadowed",
]
