"""tl.reduce and tl.associative_scan on whole blocks; the combine function is applied to halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.capture.interpret.blocks import Array, Handle, fitted

#: Combine functions of triton and Inductor with an equivalent in numpy; others are called.
KNOWN: dict[tuple[str, str], Any] = {
    ("triton.language.standard", "_sum_combine"): np.add,
    ("triton.language.standard", "_prod_combine"): np.multiply,
    ("triton.language.standard", "_elementwise_max"): np.fmax,
    ("triton.language.standard", "_elementwise_min"): np.fmin,
    ("triton.language.standard", "_xor_combine"): np.bitwise_xor,
    ("triton.language.standard", "_or_combine"): np.bitwise_or,
    ("torch._inductor.runtime.triton_helpers", "_prod_accumulate"): np.multiply,
    ("torch._inductor.runtime.triton_helpers", "minimum"): np.minimum,
    ("torch._inductor.runtime.triton_helpers", "maximum"): np.maximum,
    ("torch._inductor.runtime.triton_helpers", "_any_combine"): np.bitwise_or,
}


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **rest: Any) -> Any:
    """Reduce blocks along an axis, as tl.reduce does."""
    several = _is_several(input)
    tensors = list(input) if several else [input]
    arrays = [t.handle.data for t in tensors]
    rank, axis, keep = arrays[0].ndim - 1, _plain(axis), bool(_plain(keep_dims))
    if axis is None:
        arrays, place = [a.reshape(len(a), -1) for a in arrays], 1
    else:
        place = (axis % rank) + 1
    reduced = _reduced(arrays, [t.dtype for t in tensors], place, combine_fn)
    if keep:
        reduced = [m.reshape((len(m),) + (1,) * rank) if axis is None else np.expand_dims(m, place) for m in reduced]
    results = [_tensor(m, t.dtype) for m, t in zip(reduced, tensors, strict=True)]
    return tuple(results) if several else results[0]


def scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **rest: Any) -> Any:
    """Scan blocks along an axis, as tl.associative_scan does."""
    several = _is_several(input)
    tensors = list(input) if several else [input]
    arrays = [t.handle.data for t in tensors]
    place = (_plain(axis) % (arrays[0].ndim - 1)) + 1
    back = bool(_plain(reverse))
    ordered = [np.flip(a, place) for a in arrays] if back else arrays
    ordered = _scanned(ordered, [t.dtype for t in tensors], place, combine_fn)
    results = [_tensor(np.flip(m, place) if back else m, t.dtype) for m, t in zip(ordered, tensors, strict=True)]
    return tuple(results) if several else results[0]


def _reduced(arrays: Sequence[Array], dtypes: Sequence[Any], axis: int, combine: Any) -> list[Array]:
    numpy_function = KNOWN.get(_name(combine))
    if numpy_function is not None and len(arrays) == 1:
        data = arrays[0]
        kind = data.dtype if data.dtype.kind in "iub" else np.float64 if data.dtype == np.float64 else np.float32
        return [fitted(numpy_function.reduce(data.astype(kind, copy=False), axis=axis), dtypes[0])]
    return [np.take(a, 0, axis) for a in _halved(list(arrays), dtypes, axis, combine)]


def _halved(arrays: list[Array], dtypes: Sequence[Any], axis: int, combine: Any) -> list[Array]:
    """Combine neighbours until one element is left, which keeps their order."""
    while arrays[0].shape[axis] > 1:
        even, odd = ([_part(a, axis, slice(first, None, 2)) for a in arrays] for first in (0, 1))
        arrays = _combined(combine, even, odd, dtypes)
    return arrays


def _scanned(arrays: list[Array], dtypes: Sequence[Any], axis: int, combine: Any) -> list[Array]:
    """Combine each element with those 1, 2, 4, … before it; lengths are powers of two."""
    length, step = arrays[0].shape[axis], 1
    while step < length:
        combined = _combined(combine, [np.roll(a, step, axis) for a in arrays], arrays, dtypes)
        has = (np.arange(length) >= step).reshape([-1 if a == axis else 1 for a in range(arrays[0].ndim)])
        arrays = [np.where(has, m, a) for m, a in zip(combined, arrays, strict=True)]
        step *= 2
    return arrays


def _combined(combine: Any, left: Sequence[Array], right: Sequence[Array], dtypes: Sequence[Any]) -> list[Array]:
    """Apply the combine function to two blocks."""
    numpy_function = KNOWN.get(_name(combine))
    if numpy_function is not None and len(left) == 1:
        return [fitted(numpy_function(left[0], right[0]), dtypes[0])]
    arguments = [_tensor(a, d) for a, d in zip((*left, *right), (*dtypes, *dtypes), strict=True)]
    returned = combine(*arguments)
    parts = list(returned) if _is_several(returned) else [returned]
    shape = np.broadcast_shapes(*(a.shape for a in (*left, *right)))
    return [fitted(np.broadcast_to(p.handle.data, shape), d) for p, d in zip(parts, dtypes, strict=True)]


def _part(data: Array, axis: int, which: slice) -> Array:
    return data[(slice(None),) * axis + (which,)]


def _tensor(data: Array, dtype: Any) -> Any:
    import triton.language as tl

    scalar = dtype.scalar
    kind = tl.block_type(scalar, list(data.shape[1:])) if data.ndim > 1 else scalar
    return tl.tensor(Handle(data, scalar), kind)


def _is_several(value: Any) -> bool:
    return isinstance(value, (tuple, list)) or (type(value).__name__ == "tuple" and not hasattr(value, "handle"))


def _name(combine: Callable[..., Any]) -> tuple[str, str]:
    inner = getattr(combine, "fn", combine)
    return getattr(inner, "__module__", "") or "", getattr(inner, "__name__", "")


def _plain(value: Any) -> Any:
    return value.value if type(value).__name__ == "constexpr" else value
