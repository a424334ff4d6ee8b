"""Run the GPU's ATen operators on the CPU: the same values, in the GPU's memory layout.

An operator that the CPU has runs there, and its result is put into the strides that the GPU's operator gives, as the code
asserts them. Attention's fused operators and a few others, which only a GPU has, are computed as they are defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.absent_gpu import pretending
from explorer.errors import InputError

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

Tensor = Any

#: Part of torch's error for a dtype without a kernel: "histogram_cpu" not implemented for 'Int'.
NO_KERNEL_OF_TYPE = "\" not implemented for '"


def on_the_cpu(device: str) -> Any:
    """Return a dispatch mode that runs every operator for the CPU or for `device` ("cuda", "xpu") on the CPU."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    def moved(value: Any) -> Any:
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == device else value

    class OnTheCpu(TorchDispatchMode):  # type: ignore[misc]
        """The GPU's operators on the CPU."""

        supports_higher_order_operators = True

        def inside(self, value: Any) -> Any:
            """A graph that an operator is given, such as a branch of a cond, which then runs on the CPU too."""
            if not isinstance(value, torch.fx.GraphModule):
                return value

            def call(*args: Any) -> Any:
                with self:
                    return value(*args)

            return call

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if isinstance(func, torch._ops.HigherOrderOperator):
                return func(*map(self.inside, args), **kwargs)
            if func.name().startswith("streams::synchronize"):
                return None  # on the CPU there is nothing to wait for
            instead = _BY_DEFINITION.get(func.name().removeprefix("aten::").partition(".")[0])
            if instead is not None:
                return instead(func, _arguments_with_defaults(func, args, kwargs), device)
            here, named = pytree.tree_map(moved, (args, kwargs))
            if named.get("pin_memory"):  # pinning memory needs the GPU's driver
                named["pin_memory"] = False
            made = _run(func, here, named)
            return _laid_out(made, func, args, kwargs, device) if _makes_tensors(func) else made

    return OnTheCpu()


def types_of_the_gpu(target: Target) -> Any:
    """A dispatch mode: inside it results on the CPU have the types that the operator's results have on the target.

    A batch norm of bfloat16 keeps its mean in float32 on a GPU and in bfloat16 on the CPU. Only operators with several results
    are checked: they return statistics beside their output.
    """
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

    def typed(made: Any, like: Any) -> Any:
        tensors = isinstance(made, torch.Tensor) and isinstance(like, torch.Tensor)
        return made.to(like.dtype) if tensors and made.is_floating_point() and like.is_floating_point() else made

    class TypesOfTheGpu(TorchDispatchMode):  # type: ignore[misc]
        """The CPU's operators with the GPU's types."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            made = func(*args, **kwargs)
            if len(func._schema.returns) < 2 or not all(r.alias_info is None for r in func._schema.returns):
                return made
            try:
                with _disable_current_modes(), pretending(target):
                    there = _described(func, args, kwargs, target.device)
            except (RuntimeError, TypeError, ValueError):  # it has no rule for fake tensors: its type stays, and is compared
                return made
            flat, spec = pytree.tree_flatten(made)
            return pytree.tree_unflatten(map(typed, flat, pytree.tree_leaves(there)), spec)

    return TypesOfTheGpu()


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator on the CPU, in float64 if the CPU has no kernel for the dtype."""
    import torch
    from torch.utils import _pytree as pytree

    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if NO_KERNEL_OF_TYPE not in str(error):
            if isinstance(error, NotImplementedError):
                raise InputError(f"{func} has no kernel for the CPU, and cannot be checked without the GPU") from error
            raise
        refused = error
    given = [t.dtype for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if func._schema.is_mutable or not given or any(dtype.is_complex for dtype in given):
        raise InputError(f"{func} has no kernel for the CPU in {given[:1]}, and cannot be checked without the GPU") from refused
    wide, named = pytree.tree_map_only(torch.Tensor, lambda t: t.double(), (args, kwargs))
    made = func(*wide, **named)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(given[0]) if t.dtype == torch.float64 else t, made)


def _arguments_with_defaults(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """An operator's arguments by name, with its defaults."""
    schema = func._schema.arguments
    defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
    return {**defaults, **dict(zip((a.name for a in schema), args, strict=False)), **kwargs}


def _makes_tensors(func: Any) -> bool:
    """Whether an operator returns new tensors whose layout follows from its arguments."""
    import torch

    unknown = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
    fresh = all(r.alias_info is None for r in func._schema.returns) and not func._schema.is_mutable
    return fresh and bool(func._schema.returns) and not unknown & set(func.tags)


def _described(func: Any, args: Any, kwargs: Any, device: str) -> Any:
    """The results of the GPU's operator, as fake tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _pytree as pytree

    def there(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)

    with FakeTensorMode(allow_non_fake_inputs=True):
        moved, named = pytree.tree_map(there, (args, kwargs))
        return func(*moved, **named)


def _laid_out(made: Any, func: Any, args: Any, kwargs: Any, device: str) -> Any:
    """Give a result the strides that the GPU's operator gives."""
    import torch
    from torch.utils import _pytree as pytree

    flat, spec = pytree.tree_flatten(made)
    said = pytree.tree_leaves(_described(func, args, kwargs, device)) if any(isinstance(t, torch.Tensor) for t in flat) else flat
    if len(said) != len(flat):
        return made
    return pytree.tree_unflatten([_strided(t, like) for t, like in zip(flat, said, strict=True)], spec)


def _strided(tensor: Any, like: Any) -> Any:
    import torch

    if not isinstance(tensor, torch.Tensor) or not isinstance(like, torch.Tensor) or tensor.shape != like.shape:
        return tensor
    if tensor.stride() == like.stride():
        return tensor
    return torch.empty_strided(like.shape, like.stride(), dtype=tensor.dtype).copy_(tensor)


# Attention -----------------------------------------------------------------------------------------------------------


def _forward(func: Any, given: dict[str, Any], device: str) -> tuple[Any, ...]:
    """Compute attention by its definition; outputs that only the backward uses are zeros."""
    import torch

    seed = torch.randint(2**31, ()) if given.get("dropout_p") else torch.zeros((), dtype=torch.int64)
    weights, lse, _, _ = _weights(given)
    kept, value = _dropped(weights, given, int(seed)), _repeated(given["value"], given["query"])
    values = {"output": kept @ value.float(), "logsumexp": lse, "log_sumexp": lse}
    # the seed travels to the backward in whichever tensor the operator has for it
    said = _described(func, _positional(func, given), _keywords(func, given), device)
    names = [r.name for r in func._schema.returns]
    seeds = [n for n in names if n in ("philox_seed", "rng_state")][:1]
    return tuple(_filled(like, values.get(n), seed if n in seeds else None) for n, like in zip(names, said, strict=True))


def _filled(like: Any, values: Any, seed: Any) -> Any:
    """A tensor of the GPU's shape, type and layout with the values; padding is zero."""
    import torch

    if not isinstance(like, torch.Tensor):
        return like
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).zero_()
    if values is not None and made.numel():
        values = values.reshape(*values.shape, *(1,) * (made.ndim - values.ndim))  # cuDNN's sums have one more axis
        made[tuple(slice(0, n) for n in values.shape)] = values.to(made.dtype)
    if seed is not None and made.numel():
        made.view(-1)[0] = seed
    return made


def _positional(func: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(given[a.name] for a in func._schema.arguments if not a.kwarg_only)


def _keywords(func: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    return {a.name: given[a.name] for a in func._schema.arguments if a.kwarg_only}


def _backward(func: Any, given: dict[str, Any], device: str) -> tuple[Any, ...]:
    """Compute the gradients of attention by its definition."""
    gradient = (given["grad_out"] if "grad_out" in given else given["grad_out_"]).float()
    seed = next((given[n] for n in ("philox_seed", "rng_state") if given.get(n) is not None and given[n].numel()), None)
    query, key = given["query"], given["key"]
    weights, _, scale, bias = _weights(given)
    chosen = int(seed.reshape(-1)[0]) if seed is not None else 0
    kept, value = _dropped(weights, given, chosen), _repeated(given["value"], query).float()
    of_kept = gradient @ value.transpose(-2, -1)
    of_weights = _dropped(of_kept, given, chosen)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    found = {
        "query": of_scores @ _repeated(key, query).float() * scale,
        "key": _gathered(of_scores.transpose(-2, -1) @ query.float() * scale, key),
        "value": _gathered(kept.transpose(-2, -1) @ gradient, given["value"]),
        "attn_bias": _summed(of_scores, bias) if bias is not None else None,
    }
    said = _described(func, _positional(func, given), _keywords(func, given), device)
    names = ("query", "key", "value", "attn_bias")[: len(said)]
    return tuple(_filled(like, found[n], None) for n, like in zip(names, said, strict=True))


def _weights(given: Mapping[str, Any]) -> tuple[Tensor, Tensor, float, Tensor | None]:
    """The softmax of the scores in float32, the log-sum-exp, the scale, and the bias."""
    import torch

    query, key = given["query"].float(), _repeated(given["key"], given["query"]).float()
    scale = given.get("scale") or 1 / math.sqrt(query.shape[-1])
    scores = query @ key.transpose(-2, -1) * scale
    bias = given.get("attn_bias")
    scores = scores + bias.float() if bias is not None else scores
    if given.get("is_causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    lse = scores.logsumexp(-1)
    return torch.where(lse.isinf().unsqueeze(-1), 0, (scores - lse.unsqueeze(-1)).exp()), lse, scale, bias


def _dropped(weights: Tensor, given: Mapping[str, Any], seed: int) -> Tensor:
    """Apply dropout: the same elements for the same seed, but not those that a GPU drops."""
    import torch

    share = given.get("dropout_p") or 0.0
    if not share:
        return weights
    kept = torch.rand(weights.shape, generator=torch.Generator().manual_seed(seed)) >= share
    return weights * kept / (1 - share)


def _repeated(part: Tensor, query: Tensor) -> Tensor:
    """Repeat keys or values with fewer heads for each head of the query."""
    heads = query.shape[1] // part.shape[1]
    return part.repeat_interleave(heads, 1) if heads > 1 else part


def _gathered(gradient: Tensor, part: Tensor) -> Tensor:
    """The inverse of `_repeated` for gradients."""
    heads = gradient.shape[1] // part.shape[1]
    return gradient.unflatten(1, (part.shape[1], heads)).sum(2) if heads > 1 else gradient


def _summed(gradient: Tensor, like: Tensor) -> Tensor:
    return gradient.sum_to_size(like.shape)


def _attention_of_mps(func: Any, given: dict[str, Any], device: str) -> tuple[Any, ...]:
    """Compute MPS's attention for inference by the operator that it stands for."""
    import torch

    tensors = (given[name] for name in ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "dropout_mask"))
    made: tuple[Any, ...] = torch.ops.aten._scaled_dot_product_attention_math(
        *tensors, scale=given.get("scale"), enable_gqa=bool(given.get("enable_gqa"))
    )
    said = _described(func, _positional(func, given), _keywords(func, given), device)
    return tuple(_strided(tensor, like) for tensor, like in zip(made, said, strict=True))


def _linear_backward(func: Any, given: dict[str, Any], device: str) -> tuple[Tensor | None, ...]:
    """Compute the gradients of a linear layer that `output_mask` asks for; MPS has one operator for them."""
    x, gradient, weight = (given[name] for name in ("self", "grad_output", "weight"))
    rows = gradient.reshape(-1, gradient.shape[-1])
    of_input, of_weight, of_bias = given["output_mask"]
    return (
        gradient @ weight if of_input else None,
        rows.t() @ x.reshape(-1, x.shape[-1]) if of_weight else None,
        rows.sum(0) if of_bias else None,
    )


_FORWARDS = ("flash", "efficient", "cudnn")
#: Operators that only a GPU has, without their namespace, and what computes them on the CPU as they are defined.
_BY_DEFINITION: Mapping[str, Callable[[Any, dict[str, Any], str], tuple[Any, ...]]] = {
    **{f"_scaled_dot_product_{kind}_attention": _forward for kind in _FORWARDS},
    "_scaled_dot_product_fused_attention_overrideable": _forward,  # oneDNN's, of an Intel GPU, for inference
    **{f"_scaled_dot_product_{kind}_attention_backward": _backward for kind in _FORWARDS},
    "_scaled_dot_product_attention_math_for_mps": _attention_of_mps,
    "linear_backward": _linear_backward,
}
