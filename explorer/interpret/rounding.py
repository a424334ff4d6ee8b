"""Measure what rounding does to a function: run its operators in float64, or with varied rounding.

Both are dispatch modes, so they see what runs below autograd, a backward and tensors of closures included. Varying the
rounding of each operator and looking at how the results vary is known as Monte Carlo arithmetic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from explorer.errors import InputError
from explorer.observe.patch import replaced

if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode

#: Operators that choose, move or compare values, or compute them without rounding; "name" or "name.overload" begins so.
_EXACT = re.compile(
    r"_?(abs|adaptive_max_pool|alias|all|amax|amin|aminmax|any|arange|argmax|argmin|argsort|as_strided|bincount|bitwise|broadcast|"
    r"bucketize|cat|ceil|chunk|clamp|clone|conj|constant_pad|copy|copysign|cummax|cummin|detach|diag|embedding\.|empty|eq|"
    r"equal|expand|eye|fill|flip|floor\.|floor_\.|fmax|fmin|full|gather|ge|gt|hardtanh|histc|im2col|imag|index\.|index_copy|"
    r"index_fill|index_select|is[a-z]+|item|kthvalue|le|lift|local_scalar|logical|lt|masked|max\.|max_pool|maximum|"
    r"median|min\.|minimum|mode|movedim|nan_to_num|nanmedian|narrow|ne\.|neg|new|nonzero|ones|pad|permute|pixel|put|real|"
    r"reflection|relu|repeat|replication|reshape|resize|resolve|roll|rot90|round|scalar_tensor|scatter\.|searchsorted|select|"
    r"set|sgn|sign|slice|sort|split|squeeze|stack|t\.|t_\.|take|threshold|tile|to_dense|to_sparse|topk|transpose|tril|triu|"
    r"trunc|unbind|unfold|unique|unsafe_view|unsqueeze|values|indices|view|where|zero|max_unpool|channel_shuffle)"
)
#: Products whose factors a GPU may round to TF32 first.
_PRODUCTS = re.compile(r"_?(mm|bmm|addmm|addbmm|baddbmm|mv|addmv|matmul|(cudnn_)?convolution|scaled_dot_product|flash|efficient)")
#: Operators that may sum all elements if they name no dimensions.
_WHOLE = re.compile(r"_?(sum|mean|nansum|prod|var|std|norm|dot|vdot|dist)|linalg_vector_norm|.*(backward|loss)")
#: The most numbers in a sum whose error does not grow visibly.
SHORT = 64


@contextmanager
def not_compiled_in_modes() -> Iterator[None]:
    """Refuse torch.compile inside a dispatch mode, as flex_attention calls it in eager mode.

    Dynamo would skip it for good, outside of the mode too, and compile what it calls, which is the inside of an operator.
    """
    import torch

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **options: Any) -> Any:
            if torch._C._len_torch_dispatch_stack():
                raise InputError("operators cannot be varied in a function that compiles a part of itself")
            return original(*args, **options)

        return compile

    with replaced(torch, "compile", make):
        yield


def varied(seed: int | None, *, decomposed: bool = False) -> TorchDispatchMode:
    """A mode that moves the result of every rounding operator by up to a unit in its last place.

    What an operator adds up, in float32 and float64, is moved likewise, more for long sums. float16 and bfloat16, whose
    sums are made in float32, are rounded up or down. Random numbers come from `seed`, None moves nothing; those of torch
    are left alone. With `decomposed` operators are those that Inductor would decompose them into.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    generators: dict[Any, Any] = {}
    table = _decompositions() if decomposed else {}

    def noise(like: Any) -> Any:
        """Random numbers from -1 to 1 in the shape of a tensor, with 32 bits or more."""
        if like.device not in generators:
            generators[like.device] = torch.Generator(like.device).manual_seed(0 if seed is None else seed)
        dtype = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
        return 2 * torch.rand(like.shape, generator=generators[like.device], dtype=dtype, device=like.device) - 1

    def moved(tensor: Any, units: float) -> Any:
        """Move a tensor by up to `units` in the last place, except numbers with few digits, which are exact."""
        if tensor.is_complex():
            parts = torch.view_as_real(tensor.resolve_conj())
            size = tensor.abs().unsqueeze(-1)
            return torch.view_as_complex((parts + units * torch.finfo(parts.dtype).eps * size * noise(parts)).contiguous())
        if tensor.dtype.itemsize < 4:
            wide = tensor.float()
            _, exponent = torch.frexp(wide)
            unit = torch.ldexp(torch.full_like(wide, torch.finfo(tensor.dtype).eps), exponent - 1)
            return torch.where(_few_digits(tensor), tensor, (wide + 0.6 * units * unit * noise(tensor)).to(tensor.dtype))
        return torch.where(_few_digits(tensor), tensor, tensor * (1 + units * torch.finfo(tensor.dtype).eps * noise(tensor)))

    def summands(function: Any, args: Any, kwargs: Any, written: set[int]) -> tuple[Any, Any]:
        """Move the arguments that the operator sums."""
        from torch.utils import _pytree as pytree

        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and _rounds(t)]
        units = _growth(function, args, kwargs, tensors)
        name = function._schema.name.partition("::")[2]
        if _PRODUCTS.match(name):
            units = max(units, _product_units(name, tensors))

        def one(value: Any) -> Any:
            fits = isinstance(value, torch.Tensor) and _rounds(value) and id(value) not in written
            return moved(value, units) if fits and value.dtype.itemsize >= 4 else value

        made: tuple[Any, Any] = pytree.tree_map(one, (args, kwargs))
        return made

    class Varied(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not hasattr(function, "_schema") or _is_random(function):
                return function(*args, **kwargs)
            mutable = function._schema.is_mutable
            if function in table and not mutable:
                with self:
                    made = table[function](*args, **kwargs)
                if made is not NotImplemented:
                    return made
            name = f"{function._schema.name.partition('::')[2]}.{function._overloadname}"
            narrowed = name.startswith("_to_copy") and kwargs.get("dtype") in (torch.float16, torch.bfloat16, torch.float32)
            if seed is None or (_EXACT.match(name) and not narrowed):
                return function(*args, **kwargs)
            places = _written(function, args, kwargs)
            if torch.Tag.pointwise not in function.tags and not narrowed:
                args, kwargs = summands(function, args, kwargs, {id(t) for t in places})
            given = function(*args, **kwargs)
            return _with_results(function, given, places, lambda t: moved(t, 1.0))

    return Varied()


def _with_results(function: Any, given: Any, places: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    """Change an operator's new results, and in place the tensors it wrote to."""
    import torch
    from torch.utils import _pytree as pytree

    for tensor in places:
        if _rounds(tensor):
            tensor.copy_(change(tensor))
    if any(r.alias_info is not None for r in function._schema.returns):
        return given
    return pytree.tree_map(lambda v: change(v) if isinstance(v, torch.Tensor) and _rounds(v) else v, given)


def _rounds(tensor: Any) -> bool:
    import torch

    return tensor.layout == torch.strided and (
        tensor.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
    )


def _few_digits(tensor: Any) -> Any:
    """Where the lower half of the digits is zero, as in small integers, which sums give exactly."""
    import torch

    whole, mask = {
        torch.float64: (torch.int64, 0x3FFFFFF),
        torch.float32: (torch.int32, 0xFFF),
        torch.bfloat16: (torch.int16, 0x7),
        torch.float16: (torch.int16, 0x1F),
    }[tensor.dtype]
    return (tensor.contiguous().view(whole) & mask) == 0


def _growth(function: Any, args: Any, kwargs: Any, tensors: Sequence[Any]) -> float:
    """The units that a sum may lose beside its last rounding: the root of its number of terms.

    What says its dimensions adds these up, a convolution a filter, other sums and backwards at most everything; the rest,
    as a softmax or a matrix product, at most its longest dimension.
    """
    if not tensors:
        return 1.0
    name = function._schema.name.partition("::")[2]
    named = {**dict(zip((a.name for a in function._schema.arguments), args, strict=False)), **kwargs}
    largest = max(tensors, key=lambda t: t.numel())
    dims = named.get("dim")
    if isinstance(dims, (list, tuple)) and dims and all(isinstance(d, int) and -largest.dim() <= d < largest.dim() for d in dims):
        count = math.prod(largest.shape[d] for d in dims)
    elif name == "convolution":
        count = math.prod(named["weight"].shape[1:])
    elif _WHOLE.match(name) and not isinstance(dims, int):
        count = largest.numel()
    else:
        count = max(max(t.shape, default=1) for t in tensors)
    return max(1.0, math.sqrt(count / SHORT))


def _product_units(name: str, tensors: Sequence[Any]) -> float:
    """The units of float32 that a factor may lose: if allowed, a GPU rounds to TF32, the CPU to bfloat16."""
    import torch

    setting = torch.get_float32_matmul_precision()
    if not any(t.is_cuda for t in tensors):
        return 2.0**15 if setting == "medium" else 1.0
    allowed = torch.backends.cudnn.allow_tf32 if "convolution" in name else setting != "highest"
    return 2.0**12 if allowed else 1.0


def _is_random(function: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in function.tags


def _written(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors among the arguments that an operator writes to."""
    import torch

    named = {**dict(zip((a.name for a in function._schema.arguments), args, strict=False)), **kwargs}
    writes = [named.get(a.name) for a in function._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [t for w in writes for t in (w if isinstance(w, (list, tuple)) else [w]) if isinstance(t, torch.Tensor)]


def _decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Inductor's table of decompositions."""
    from torch._inductor.decomposition import select_decomp_table

    table: Mapping[Any, Callable[..., Any]] = select_decomp_table()
    return table


# In float64 -----------------------------------------------------------------------------------------------------------


@contextmanager
def random_numbers(results: list[Any]) -> Iterator[None]:
    """Append the results of operators that draw random numbers to a list inside the block."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    class Listened(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = function(*args, **(kwargs or {}))
            if hasattr(function, "_schema") and _is_random(function):
                kept = pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, given)
                results.append((str(function), kept))
            return given

    with Listened():
        yield


def widened(drawn: Sequence[Any]) -> TorchDispatchMode:
    """A mode that creates floats and computes with them in float64; complex numbers likewise.

    `drawn` are the random numbers that the same function drew as it is, which are given out again. What is asked for in
    another floating type is made in float64; what is written in place stays what it is. RuntimeError where the function
    draws others.
    """
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    wide = {
        torch.float16: torch.float64,
        torch.bfloat16: torch.float64,
        torch.float32: torch.float64,
        torch.complex32: torch.complex128,
        torch.complex64: torch.complex128,
    }
    left = list(drawn)

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in wide:
            return value.to(wide[value.dtype])
        return wide.get(value, value) if isinstance(value, torch.dtype) else value

    def replayed(function: Any, args: Any) -> Any:
        name, given = left.pop(0) if left else ("", None)
        if name != str(function):
            raise RuntimeError(f"in float64 {function} draws other random numbers")
        if function._schema.is_mutable:
            return args[0].copy_(given)
        return pytree.tree_map(one, given)

    class Widened(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not hasattr(function, "_schema"):
                return function(*args, **kwargs)
            if _is_random(function):
                return replayed(function, args)
            shares = any(r.alias_info is not None for r in function._schema.returns)
            if shares and not function._schema.is_mutable:
                return function(*args, **kwargs)
            written = {id(t) for t in _written(function, args, kwargs)}
            if written:
                kept = pytree.tree_map(lambda v: v if id(v) in written or isinstance(v, torch.dtype) else one(v), (args, kwargs))
                return function(*kept[0], **kept[1])
            args, kwargs = pytree.tree_map(one, (args, kwargs))
            return pytree.tree_map(one, function(*args, **kwargs))

    return Widened()


__all__ = ["random_numbers", "varied", "widened"]
