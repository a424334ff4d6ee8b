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

from explorer.capture.observe.patch import replaced
from explorer.capture.observe.tensors import has_fractions
from explorer.errors import InputError

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
#: Operators that change the type of a tensor.
_CASTS = re.compile(r"(_to_copy|to|type_as|convert_element_type)\.")
#: Products whose factors a GPU may round to TF32 first.
_PRODUCTS = re.compile(r"_?(mm|bmm|addmm|addbmm|baddbmm|mv|addmv|matmul|(cudnn_)?convolution|scaled_dot_product|flash|efficient)")
#: Attention on the CPU. A GPU's operators have no float64, so their results are taken as they are.
_ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"
#: Operators that may sum all elements if they name no dimensions.
_WHOLE = re.compile(r"_?(sum|mean|nansum|prod|var|std|norm|dot|vdot|dist)|linalg_vector_norm|.*(backward|loss)")
#: Operators that Inductor computes as `x - floor(x / y) * y` on the CPU: the error is a share of `x`.
_REMAINDER = re.compile(r"remainder_?\.")
#: The error function, and the units of 1.0 by which PyTorch's vectors of the CPU are off: Abramowitz and Stegun's 7.1.26
#: (`ATen/cpu/vec/vec512/vec512_float.h`) has an absolute error, however small the result is.
_ERF, ERF_UNITS = re.compile(r"erf_?\."), 4.0
#: The most numbers in a sum whose error does not grow visibly.
SHORT = 64


@contextmanager
def not_compiled_in_modes() -> Iterator[None]:
    """Refuse torch.compile inside a dispatch mode, as flex_attention calls it in eager mode.

    Dynamo would skip the compiled function for good, outside of the mode too. It would compile the functions called there,
    which are the inside of an operator.
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
    """Return a mode that moves the result of every rounding operator by up to a unit in its last place.

    The summands of float32 and float64 sums are moved likewise, more for long sums, in the type in which the operator adds.
    float16 and bfloat16, whose sums are made in float32, are rounded up or down. A cast to a wider type rounds nothing. A
    convolution in 16 bits adds its bias to the rounded result. The moves are random numbers from `seed`; with None nothing
    moves. torch's own generators are left alone. With `decomposed`, the mode runs the operators that Inductor would decompose
    each operator into.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    rounding = _VariedRounding(seed)
    table = _decompositions() if decomposed else {}

    class Varied(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not hasattr(function, "_schema") or is_random(function, args, kwargs):
                return function(*args, **kwargs)
            if function in table and not function._schema.is_mutable:
                with self:
                    result = table[function](*args, **kwargs)
                if result is not NotImplemented:
                    return result
            if (apart := _bias_apart(function, args, kwargs)) is not None:
                without, bias = apart
                return rounding.call(torch.ops.aten.add.Tensor, (rounding.call(function, (), without), bias), {})
            return rounding.call(function, args, kwargs)

    return Varied()


class _VariedRounding:
    """Moves the numbers in tensors by units in their last place, at random, as one seed decides; None moves nothing."""

    def __init__(self, seed: int | None) -> None:
        self._seed = seed
        self._generators: dict[Any, Any] = {}

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator with its summands and its results moved, unless it computes without rounding."""
        import torch

        name = f"{function._schema.name.partition('::')[2]}.{function._overloadname}"
        if self._seed is None or _EXACT.match(name):
            return function(*args, **kwargs)
        if _CASTS.match(name):
            result = function(*args, **kwargs)
            return self._move(result, 1.0) if _rounds(result) and not _holds(result.dtype, args[0]) else result
        written = tensors_written(function, args, kwargs)
        if torch.Tag.pointwise not in function.tags or _REMAINDER.match(name):
            args, kwargs = self._move_summands(function, args, kwargs, {id(tensor) for tensor in written})

        def change(tensor: Any) -> Any:
            moved = self._move(tensor, 1.0)
            if _ERF.match(name) and tensor.device.type == "cpu" and tensor.dtype == torch.float32:
                return moved + ERF_UNITS * torch.finfo(tensor.dtype).eps * self._noise(tensor)
            return moved

        return _with_results(function, function(*args, **kwargs), written, change)

    def _move_summands(self, function: Any, args: Any, kwargs: Any, written: set[int]) -> tuple[Any, Any]:
        """Move the arguments that the operator sums, by more units for more of them."""
        import torch
        from torch.utils import _pytree as pytree

        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and _rounds(t)]
        units = _growth(function, args, kwargs, tensors)
        name = function._schema.name.partition("::")[2]
        if _PRODUCTS.match(name):
            units = max(units, _product_units(name, tensors))
        dtype = _given_arguments(function, args, kwargs).get("dtype")

        def move(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not _rounds(value) or id(value) in written:
                return value
            if _holds(dtype, value):
                value = value.to(dtype)  # as the operator does before it adds
            return self._move(value, units) if value.dtype.itemsize >= 4 else value

        moved: tuple[Any, Any] = pytree.tree_map(move, (args, kwargs))
        return moved

    def _move(self, tensor: Any, units: float) -> Any:
        """Move a tensor by up to `units` in the last place, except numbers with few digits, which are exact."""
        import torch

        if tensor.is_complex():
            parts = torch.view_as_real(tensor.resolve_conj())
            size = tensor.abs().unsqueeze(-1)
            moved = parts + units * torch.finfo(parts.dtype).eps * size * self._noise(parts)
            return torch.view_as_complex(moved.contiguous())
        if tensor.dtype.itemsize < 4:
            wide = tensor.float()
            _, exponent = torch.frexp(wide)
            unit = torch.ldexp(torch.full_like(wide, torch.finfo(tensor.dtype).eps), exponent - 1)
            moved = (wide + 0.6 * units * unit * self._noise(tensor)).to(tensor.dtype)
        else:
            moved = tensor * (1 + units * torch.finfo(tensor.dtype).eps * self._noise(tensor))
        return torch.where(_few_digits(tensor), tensor, moved)

    def _noise(self, like: Any) -> Any:
        """Random numbers from -1 to 1 in the shape of a tensor, with 32 bits or more."""
        import torch

        if like.device not in self._generators:
            self._generators[like.device] = torch.Generator(like.device).manual_seed(0 if self._seed is None else self._seed)
        dtype = torch.float64 if like.dtype in (torch.float64, torch.complex128) else torch.float32
        return 2 * torch.rand(like.shape, generator=self._generators[like.device], dtype=dtype, device=like.device) - 1


def _bias_apart(function: Any, args: Any, kwargs: Any) -> tuple[dict[str, Any], Any] | None:
    """Return the arguments of a 16-bit convolution without its bias, and the bias in the shape to add to the result.

    A GPU's library or Inductor adds the bias to the rounded result. Returns None for any other call.
    """
    import torch

    if function is not torch.ops.aten.convolution.default:
        return None
    named = _given_arguments(function, args, kwargs)
    bias = named["bias"]
    if bias is None or bias.dtype not in (torch.float16, torch.bfloat16):
        return None
    return {**named, "bias": None}, bias.view(-1, *[1] * (named["weight"].dim() - 2))


#: What a normalisation writes in training, the arguments that say it is in training, and the operator that always writes.
_STATISTICS = ("running_mean", "running_var")
_IN_TRAINING = ("training", "train", "use_input_stats")
_UPDATES = re.compile(r"aten::batch_norm_update_stats")


def _with_results(function: Any, result: Any, written: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    """Change an operator's new results, and in place the tensors it wrote to."""
    import torch
    from torch.utils import _pytree as pytree

    for tensor in written:
        if _rounds(tensor):
            tensor.copy_(change(tensor))
    if any(r.alias_info is not None for r in function._schema.returns):
        return result
    return pytree.tree_map(lambda v: change(v) if isinstance(v, torch.Tensor) and _rounds(v) else v, result)


def _rounds(tensor: Any) -> bool:
    import torch

    return tensor.layout == torch.strided and (
        tensor.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
    )


def _holds(dtype: Any, tensor: Any) -> bool:
    """Whether a type, or None, holds the floats or complex numbers of a tensor without rounding."""
    import torch

    if dtype is None or not (dtype.is_floating_point or dtype.is_complex) or not has_fractions(tensor):
        return False
    wide, narrow = torch.finfo(dtype), torch.finfo(tensor.dtype)
    return wide.eps <= narrow.eps and wide.max >= narrow.max and (dtype.is_complex or not tensor.is_complex())


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
    named = _given_arguments(function, args, kwargs)
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


def is_random(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator draws random numbers; attention on the CPU that drops nothing draws none, though it has the tag."""
    import torch

    if torch.Tag.nondeterministic_seeded not in function.tags:
        return False
    return function._schema.name != _ATTENTION or bool(_given_arguments(function, args, kwargs).get("dropout_p", 0.0))


def _given_arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of an operator's call by name, without those left at their defaults."""
    return {**dict(zip((a.name for a in function._schema.arguments), args, strict=False)), **kwargs}


def tensors_written(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors among the arguments that an operator writes to.

    The schemas of normalisations such as `native_batch_norm` do not mark the running statistics that they write in training.
    """
    import torch

    named = _given_arguments(function, args, kwargs)
    marked = [a.name for a in function._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    unmarked = _STATISTICS if any(named.get(name) for name in _IN_TRAINING) or _UPDATES.match(function._schema.name) else ()
    writes = [named.get(name) for name in dict.fromkeys((*marked, *unmarked))]
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
            result = function(*args, **(kwargs or {}))
            if hasattr(function, "_schema") and is_random(function, args, kwargs or {}):
                kept = pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, result)
                results.append((str(function), kept))
            return result

    with Listened():
        yield


def widened(drawn: Sequence[Any]) -> TorchDispatchMode:
    """Return a mode that creates floats and computes with them in float64, and complex numbers in complex128.

    `drawn` are the random numbers that the same function drew in its own types; the mode gives them out again. A result
    requested in a narrower floating type is made in float64. A tensor written in place keeps its type. The mode raises
    RuntimeError if the function draws different random numbers.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    widening = _Widening(drawn)

    class Widened(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return widening.call(function, args, kwargs or {})

    return Widened()


class _Widening:
    """Calls operators in float64, and gives out the random numbers that were drawn before."""

    def __init__(self, drawn: Sequence[Any]) -> None:
        import torch

        self._remaining = list(drawn)
        self._wide = {
            torch.float16: torch.float64,
            torch.bfloat16: torch.float64,
            torch.float32: torch.float64,
            torch.complex32: torch.complex128,
            torch.complex64: torch.complex128,
        }

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator with wide arguments, and widen its results. Views and tensors written in place keep their types."""
        import torch
        from torch.utils import _pytree as pytree

        if not hasattr(function, "_schema"):
            return function(*args, **kwargs)
        if is_random(function, args, kwargs):
            return self._draw_again(function, args)
        shares = any(r.alias_info is not None for r in function._schema.returns)
        if shares and not function._schema.is_mutable:
            return function(*args, **kwargs)
        written = {id(tensor) for tensor in tensors_written(function, args, kwargs)}
        if written:
            kept = pytree.tree_map(
                lambda value: value if id(value) in written or isinstance(value, torch.dtype) else self._widen(value),
                (args, kwargs),
            )
            return function(*kept[0], **kept[1])
        args, kwargs = pytree.tree_map(self._widen, (args, kwargs))
        return pytree.tree_map(self._widen, function(*args, **kwargs))

    def _widen(self, value: Any) -> Any:
        """A tensor or dtype in its wide type; anything else as it is."""
        import torch

        if isinstance(value, torch.Tensor) and value.dtype in self._wide:
            return value.to(self._wide[value.dtype])
        return self._wide.get(value, value) if isinstance(value, torch.dtype) else value

    def _draw_again(self, function: Any, args: Any) -> Any:
        """The numbers that this operator drew before, also in place."""
        from torch.utils import _pytree as pytree

        name, numbers = self._remaining.pop(0) if self._remaining else ("", None)
        if name != str(function):
            raise RuntimeError(f"in float64 {function} draws other random numbers")
        if function._schema.is_mutable:
            return args[0].copy_(numbers)
        return pytree.tree_map(self._widen, numbers)


__all__ = ["is_random", "random_numbers", "tensors_written", "varied", "widened"]
