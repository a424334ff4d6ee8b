"""libdevice's functions on the interpreter's arrays: computed by numpy and torch, in the type of their arguments.

https://docs.nvidia.com/cuda/libdevice-users-guide lists them; the names are those of `triton.language.extra.libdevice`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = Any

#: Functions that numpy lacks: the name, and torch's function of the same meaning.
TORCH = {
    "lgamma": "lgamma",
    "erf": "special.erf",
    "erfc": "special.erfc",
    "erfinv": "special.erfinv",
    "erfcx": "special.erfcx",
    "normcdf": "special.ndtr",
    "normcdfinv": "special.ndtri",
    "j0": "special.bessel_j0",
    "j1": "special.bessel_j1",
    "y0": "special.bessel_y0",
    "y1": "special.bessel_y1",
    "cyl_bessel_i0": "special.i0",
    "cyl_bessel_i1": "special.i1",
}
#: numpy's functions under libdevice's names.
SAME: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "fast_sinf": np.sin,
    "fast_cosf": np.cos,
    "fast_tanf": np.tan,
    "fast_tanhf": np.tanh,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_log2f": np.log2,
    "fast_log10f": np.log10,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "nextafter": np.nextafter,
    "pow": np.power,
    "fast_powf": np.power,
    "fast_dividef": np.divide,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rsqrt_rn": lambda x: 1 / np.sqrt(x),
}


def _rounded_away(data: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    return np.copysign(np.floor(np.abs(data) + 0.5), data)


def _exponent(data: Array) -> Array:
    """The unbiased exponent of each number."""
    return np.frexp(data)[1] - 1


def _saturated(data: Array) -> Array:
    return np.nan_to_num(np.clip(data, 0, 1), nan=0.0)


def _bessel(whole: Callable[[Array], Array], first: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Make a Bessel function of integer order by recurrence, for libdevice's jn and yn."""

    def of_order(order: Array, data: Array) -> Array:
        low, high = whole(data), first(data)
        result: Array = np.where(order == 0, low, high)
        for n in range(1, int(np.max(order))):
            low, high = high, 2 * n / data * high - low
            result = np.where(order == n + 1, high, result)
        return result

    return of_order


#: Of floats, by numpy.
NUMPY: dict[str, Callable[..., Array]] = {
    "round": _rounded_away,
    "saturatef": _saturated,
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "exp10": lambda x: 10**x,
    "fast_exp10f": lambda x: 10**x,
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "logb": lambda x: _exponent(x).astype(x.dtype),
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(x <= y, 0, np.nan)),
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "rnorm3d": lambda x, y, z: 1 / np.sqrt(x * x + y * y + z * z),
    "norm4d": lambda x, y, z, w: np.sqrt(x * x + y * y + z * z + w * w),
    "rnorm4d": lambda x, y, z, w: 1 / np.sqrt(x * x + y * y + z * z + w * w),
    "fma": lambda x, y, z: x.astype(np.float64) * y + z,
    "rcp64h": lambda x: 1 / x,
    "tgamma": np.vectorize(lambda x: math.nan if x <= 0 and x == int(x) else _gamma(float(x)), otypes=[np.float64]),
}
#: Of a float, with an integer result of the named type.
TO_INTEGER: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "isnan": ("int32", np.isnan),
    "isinf": ("int32", np.isinf),
    "isfinited": ("int32", np.isfinite),
    "finitef": ("int32", np.isfinite),
    "signbit": ("int32", np.signbit),
    "ilogb": ("int32", _exponent),
    "llrint": ("int64", np.rint),
    "llround": ("int64", _rounded_away),
}
#: Of floats with the direction of rounding named: the default is what is computed.
ROUNDED: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
}
DIRECTED = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
CONVERTED = {
    "double": "float64",
    "float": "float32",
    "int": "int32",
    "uint": "uint32",
    "ll": "int64",
    "ull": "uint64",
}
#: Bits of one type read as another.
READ_AS = {
    "int_as_float": "float32",
    "float_as_int": "int32",
    "uint_as_float": "float32",
    "float_as_uint": "uint32",
    "longlong_as_double": "float64",
    "double_as_longlong": "int64",
}


def _gamma(value: float) -> float:
    try:
        return math.gamma(value)
    except OverflowError:
        return math.inf


def _bit_count(data: Array) -> Array:
    spread = np.unpackbits(np.ascontiguousarray(data).view(np.uint8).reshape(*data.shape, data.itemsize), axis=-1)
    return spread.sum(-1).astype(np.int32)


def _leading_zeros(data: Array) -> Array:
    bits = 8 * data.itemsize
    left: Array = data.view(f"uint{bits}").copy()
    count: Array = np.full(data.shape, bits, np.int32)
    while left.any():
        count, left = np.where(left != 0, count - 1, count), left >> left.dtype.type(1)
    return count.astype(np.int32)


def _first_set(data: Array) -> Array:
    lowest = data & -data
    return np.where(data == 0, 0, 8 * data.itemsize - _leading_zeros(lowest)).astype(np.int32)


def _reversed_bits(data: Array) -> Array:
    raw = np.unpackbits(np.ascontiguousarray(data).view(np.uint8).reshape(*data.shape, data.itemsize)[..., ::-1], axis=-1)
    return np.ascontiguousarray(np.packbits(raw[..., ::-1], axis=-1)[..., ::-1]).view(data.dtype).reshape(data.shape)


def _selected_bytes(one: Array, other: Array, selector: Array) -> Array:
    """Select four of eight bytes by the nibbles of a selector."""
    pool = (other.astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF)) << np.uint64(32)
    pool = pool | (one.astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF))
    result = np.zeros(pool.shape, np.uint64)
    for place in range(4):
        which = (selector.astype(np.int64).astype(np.uint64) >> np.uint64(4 * place)) & np.uint64(7)
        result = result | (((pool >> (np.uint64(8) * which)) & np.uint64(0xFF)) << np.uint64(8 * place))
    return result.astype(np.uint32).view(np.int32)


def _product_of_24_bits(one: Array, other: Array) -> Array:
    return ((one << 8) >> 8) * ((other << 8) >> 8)


def _high(one: Array, other: Array) -> Array:
    if one.itemsize == 4:
        wide = np.int64 if one.dtype.kind == "i" else np.uint64
        return ((one.astype(wide) * other.astype(wide)) >> wide(32)).astype(one.dtype)
    exact = one.astype(object) * other.astype(object)
    return (exact >> 64).astype(one.dtype)


#: Of integers; the result has the first argument's type, or int32 for counts.
INTEGER: dict[str, Callable[..., Array]] = {
    "clz": _leading_zeros,
    "popc": _bit_count,
    "ffs": _first_set,
    "brev": _reversed_bits,
    "byte_perm": _selected_bytes,
    "mulhi": _high,
    "mul24": _product_of_24_bits,
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y).astype(z.dtype) + z,
    "hadd": lambda x, y: ((x.astype(np.int64) + y) >> 1).astype(x.dtype),
    "rhadd": lambda x, y: ((x.astype(np.int64) + y + 1) >> 1).astype(x.dtype),
    "hiloint2double": lambda high, low: ((high.astype(np.int64) << 32) | (low.astype(np.int64) & 0xFFFFFFFF)).view(np.float64),
    "double2loint": lambda x: (x.view(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32),
    "double2hiint": lambda x: (x.view(np.int64) >> 32).astype(np.int32),
}


def functions() -> Mapping[str, Callable[..., Any]]:
    """The functions of libdevice that can be computed here, by name; others keep failing as they do."""
    by_name: dict[str, Callable[..., Any]] = {name: _language(_torch(path)) for name, path in TORCH.items()}
    by_name |= {name: _language(_as_first(function)) for name, function in (SAME | NUMPY).items()}
    by_name |= {name: _language(_as_type(function, kind)) for name, (kind, function) in TO_INTEGER.items()}
    by_name |= {name: _language(function) for name, function in INTEGER.items()}
    by_name |= {name: _language(lambda data, kind=kind: data.view(kind)) for name, kind in READ_AS.items()}
    by_name |= {f"{name}_{way}": _language(_as_first(f)) for name, f in ROUNDED.items() for way in DIRECTED}
    by_name |= {f"fma_{way}": by_name["fma"] for way in DIRECTED}
    for source in CONVERTED:
        for target, kind in CONVERTED.items():
            for way, rounding in DIRECTED.items():
                by_name[f"{source}2{target}_{way}"] = _language(_conversion(rounding, kind))
    by_name |= {"ldexp": _language(_scaled), "scalbn": _language(_scaled)}
    by_name["erfcinv"] = _language(lambda data: _torch("special.erfinv")(1 - data))
    bessel = {kind: (_torch(f"special.bessel_{kind}0"), _torch(f"special.bessel_{kind}1")) for kind in "jy"}
    by_name |= {f"{kind}n": _language(_as_second(_bessel(*pair))) for kind, pair in bessel.items()}
    return by_name


def _scaled(data: Array, exponent: Array) -> Array:
    return np.ldexp(data, exponent.astype(np.int32)).astype(data.dtype)


def _torch(path: str) -> Callable[..., Array]:
    """torch's function of that name on arrays; half types are computed as float32."""

    def compute(*arrays: Array) -> Array:
        import torch

        from explorer.capture.interpret.blocks import torch_of

        function = functools.reduce(getattr, path.split("."), torch)
        kind = arrays[0].dtype
        wide = arrays if kind.itemsize > 2 else [a.astype(np.float32) for a in arrays]
        return np.asarray(function(*(torch_of(a) for a in np.broadcast_arrays(*wide))).numpy()).astype(kind, copy=False)

    return compute


def _as_first(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arrays: np.asarray(function(*arrays)).astype(arrays[0].dtype, copy=False)


def _as_second(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arrays: np.asarray(function(*arrays)).astype(arrays[1].dtype, copy=False)


def _as_type(function: Callable[[Array], Array], kind: str) -> Callable[[Array], Array]:
    return lambda data: np.asarray(function(data)).astype(kind)


def _conversion(rounding: Callable[[Array], Array], kind: str) -> Callable[[Array], Array]:
    """Convert numbers to another type, rounded as the name says for an integer type."""
    to_integer = "int" in kind
    return lambda data: (rounding(data) if to_integer and data.dtype.kind == "f" else data).astype(kind)


def _language(function: Callable[..., Array]) -> Callable[..., Any]:
    """Wrap a function of arrays as one of triton's values."""

    def call(*args: Any, **rest: Any) -> Any:
        import triton.language as tl

        from explorer.capture.interpret.blocks import Handle

        tensors = _alike(args)
        data = function(*(t.handle.data for t in tensors))
        dtype = tensors[-1].dtype if data.dtype == tensors[-1].handle.data.dtype else _type_of(data.dtype)
        kind = tl.block_type(dtype, list(data.shape[1:])) if data.ndim > 1 else dtype
        return tl.tensor(Handle(data, dtype), kind)

    return call


def _alike(args: tuple[Any, ...]) -> list[Any]:
    """Broadcast the arguments to one shape; Python's numbers take the first tensor's type."""
    import triton.language as tl

    first = next((a for a in args if isinstance(a, tl.tensor)), None)
    dtype = first.dtype if first is not None else tl.float32
    tensors = [a if isinstance(a, tl.tensor) else tl.full([], getattr(a, "value", a), dtype) for a in args]
    whole = tensors[0]
    for other in tensors[1:]:
        whole, _ = tl.broadcast(whole, other)
    return [tl.broadcast(t, whole)[0] for t in tensors] if len(tensors) > 1 else tensors


def _type_of(kind: Any) -> Any:
    """The triton type of a numpy type."""
    import triton.language as tl

    names = {"float16": "float16", "float32": "float32", "float64": "float64", "bool": "int1"}
    return getattr(tl, names.get(str(kind), str(kind)))
