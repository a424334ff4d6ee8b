"""The GPU's autocast rules on the CPU: the dispatcher's AutocastCPU casts as AutocastCUDA does.

The two have different lists. On CUDA softmax, layer_norm, exp, sum and others run in float32, on the CPU in whatever they
are given; on the CPU cat and stack promote, on CUDA they do not. What is on CUDA's lists is asked of the dispatcher at
hand; what a list does is aten/src/ATen/autocast_mode.h's and .cpp's, and the lists themselves are the header's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

#: AT_FORALL_FP32_SET_OPT_DTYPE: the sum is made in float32 where no dtype is asked for.
FLOAT32_BY_DTYPE = frozenset(
    (
        "prod",
        "prod.dim_int",
        "softmax.int",
        "log_softmax.int",
        "cumprod",
        "cumsum",
        "linalg_vector_norm",
        "linalg_matrix_norm",
        "linalg_matrix_norm.str_ord",
        "sum",
        "sum.dim_IntList",
        "prod.dim_Dimname",
        "softmax.Dimname",
        "log_softmax.Dimname",
        "cumprod.dimname",
        "cumsum.dimname",
        "sum.dim_DimnameList",  # the overloads with names of dimensions ended with torch 2.11
    )
)
#: AT_FORALL_PROMOTE: every argument becomes the widest of their types.
WIDEST = frozenset(
    ("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot", "scatter_add")
)
#: AT_FORALL_LOWER_PRECISION_FP, and cuDNN's own in autocast_mode.cpp: every argument becomes autocast's type.
LOWER = frozenset(
    (
        "_convolution",
        "_convolution.deprecated",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_tbc",
        "conv_transpose1d",
        "conv_transpose2d.input",
        "conv_transpose3d.input",
        "convolution",
        "prelu",
        "addmm",
        "addmv",
        "addr",
        "matmul",
        "einsum",
        "mm",
        "mv",
        "linalg_vecdot",
        "linear",
        "addbmm",
        "baddbmm",
        "bmm",
        "chain_matmul",
        "linalg_multi_dot",
        "_thnn_fused_lstm_cell",
        "_thnn_fused_gru_cell",
        "lstm_cell",
        "gru_cell",
        "rnn_tanh_cell",
        "rnn_relu_cell",
        "_scaled_dot_product_flash_attention",
        "scaled_dot_product_attention",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "_cudnn_rnn",
    )
)
#: What the CPU has for cuDNN's recurrent layers, which both cast to autocast's type.
LIKE_CUDNN = "mkldnn_rnn_layer"
#: What CUDA refuses, with its words.
REFUSED = "binary_cross_entropy"
REFUSAL = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)

Cast = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Ambient:
    """The autocast state by device type: whether it is enabled, and its dtype."""

    states: tuple[tuple[str, bool, Any], ...]

    @staticmethod
    def now(absent: str = "") -> Ambient:
        """Return the current state. The CPU gets the state of an absent GPU of type `absent`, whose tensors are on the CPU."""
        import torch

        devices = ("cpu", "cuda", "xpu", "mps")
        states = {name: (torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in devices}
        if absent:
            states["cpu"] = states[absent]
        return Ambient(tuple((name, enabled, dtype) for name, (enabled, dtype) in states.items()))

    @contextmanager
    def again(self) -> Iterator[None]:
        """Set this state again inside the block, as `torch.autocast` does, with weights cast once."""
        before = Ambient.now()
        self._set()
        _autocast_nesting(1)
        try:
            yield
        finally:
            _autocast_nesting(-1)
            before._set()

    def _set(self) -> None:
        import torch

        for name, enabled, dtype in self.states:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)


def _autocast_nesting(by: int) -> None:
    """Enter or leave a level of autocast; leaving the last one drops the cached weights."""
    import torch

    if by > 0:
        torch.autocast_increment_nesting()
    elif torch.autocast_decrement_nesting() == 0:
        torch.clear_autocast_cache()


@contextmanager
def lists_of_the_gpu(device: str = "cuda") -> Iterator[None]:
    """Make autocast for the CPU cast as autocast for a GPU does inside the block: by CUDA's lists, or by those of MPS."""
    import torch

    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
            for name, kernel in _kernels("AutocastMPS" if device == "mps" else "AutocastCUDA"):
                library.impl(name, kernel, "AutocastCPU", allow_override=True)
        yield
    finally:
        library._destroy()


def _kernels(lists: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The operators that autocast treats differently on the CPU, each with the GPU's kernel."""
    import torch

    gpu, cpu = (_listed(key) for key in (lists, "AutocastCPU"))
    for name in gpu:
        if name not in LOWER:
            yield name, _kernel(_operator(name), _policy(name))
        elif name not in cpu:
            yield name, _kernel(_operator(name), _lowered)
    for name in cpu:
        if name not in gpu and name != LIKE_CUDNN:
            composite = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd")
            # autocast holds for the operators that a composite one consists of
            yield name, torch.library.fallthrough_kernel if composite else _kernel(_operator(name), _as_given)


def _listed(key: str) -> list[str]:
    """The operators of ATen that have a kernel for a dispatch key, without "aten::"."""
    import torch

    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::"))


def _operator(name: str) -> Any:
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _policy(name: str) -> Cast:
    """CUDA's cast policy for an operator; float32, the header's longest list, if it is on no other."""
    if name in FLOAT32_BY_DTYPE:
        return _float32_by_dtype
    if name in WIDEST:
        return _widest
    if name == REFUSED:
        return _refused
    return _float32_norm if name.startswith("norm.") else _float32


def _kernel(operator: Any, policy: Cast) -> Callable[..., Any]:
    """A kernel for AutocastCPU: casts, then calls the operator with autocast excluded."""
    import torch

    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(autocast):
            return policy(operator, args, kwargs)

    return kernel


# What the lists do: autocast_mode.h's WrapFunction_, one for each CastPolicy ------------------------------------------


def _eligible(value: Any) -> bool:
    """is_eligible: a floating tensor, but not of float64."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _cast(value: Any, dtype: Any) -> Any:
    """cached_cast without its cache, of a tensor or each in a list."""
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(part, dtype) for part in value)
    return value.to(dtype) if _eligible(value) and value.dtype != dtype else value


def _called(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: Any) -> Any:
    return operator(*(_cast(a, dtype) for a in args), **{k: _cast(v, dtype) for k, v in kwargs.items()})


def _lowered(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    import torch

    return _called(operator, args, kwargs, torch.get_autocast_dtype("cpu"))


def _float32(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    import torch

    return _called(operator, args, kwargs, torch.float32)


def _float32_by_dtype(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Add dtype=float32 to a call, unless it names a dtype, which softmax also takes by position."""
    import torch

    place = next(n for n, a in enumerate(operator._schema.arguments) if a.name == "dtype")
    given = kwargs.get("dtype") if place >= len(args) else args[place]
    if given is not None or not _eligible(args[0]):
        return operator(*args, **kwargs)
    return operator(*args[:place], *args[place + 1 :], **{**kwargs, "dtype": torch.float32})


def _float32_norm(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """fp32_append_dtype: the overload that takes the type of the result."""
    import torch

    if not _eligible(args[0]):
        return operator(*args, **kwargs)
    named = {**dict(zip((a.name for a in operator._schema.arguments), args, strict=False)), **kwargs}
    tensor, power = named.pop("self"), named.pop("p", 2)
    if operator._overloadname == "Scalar":
        return torch.ops.aten.norm.ScalarOpt_dtype(tensor, power, dtype=torch.float32)
    return torch.ops.aten.norm.ScalarOpt_dim_dtype(tensor, power, named["dim"], named.get("keepdim", False), dtype=torch.float32)


def _widest(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """promote: float32 where any argument is, autocast's type otherwise."""
    import torch

    flat = [v for a in (*args, *kwargs.values()) for v in (a if isinstance(a, (list, tuple)) else [a])]
    wide = any(_eligible(v) and v.dtype == torch.float32 for v in flat)
    return _called(operator, args, kwargs, torch.float32 if wide else torch.get_autocast_dtype("cpu"))


def _as_given(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Cast nothing: on no list of CUDA's. If the CPU lacks CUDA's kernel, compute in float32 and cast back."""
    import torch
    from torch.utils import _pytree as pytree

    try:
        return operator(*args, **kwargs)
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
    given = next((v.dtype for v in pytree.tree_leaves((args, kwargs)) if _eligible(v)), torch.float32)
    return pytree.tree_map(lambda made: _cast(made, given), _called(operator, args, kwargs, torch.float32))


def _refused(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    raise RuntimeError(REFUSAL)
