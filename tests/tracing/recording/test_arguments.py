"""Arguments that trace cannot take are refused, with what to write instead."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import says


def sin_cos(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


def test_what_is_not_callable_is_refused() -> None:
    """A tensor in the place of the function is an InputError that says what to write."""
    with pytest.raises(explorer.errors.InputError, match=says("trace(f, torch.randn(4))", "function", "module", "Tensor")):
        explorer.trace(torch.randn(4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"target": "cpuu"}, ("target", "'cpuu'", "'cpu'")),
        ({"mode": "max-autotun"}, ("mode", "'max-autotun'", "'max-autotune'")),
        ({"options": {"max_autotun": True}}, ("option", "'max_autotun'", "'max_autotune'")),
        ({"backend": "inductr"}, ("backend", "'inductr'", "'inductor'")),
        ({"backend": 3}, ("backend", "callable", "int")),
        ({"mode": "default", "options": {"max_autotune": True}}, ("torch.compile", "mode", "options")),
    ],
)
def test_unknown_names_offer_the_nearest(arguments: dict[str, object], facts: tuple[str, ...]) -> None:
    """An unknown target, mode, option or backend is an InputError that offers the nearest valid names."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.trace(sin_cos, torch.randn(4), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "arguments", "facts"),
    [
        (sin_cos, {"x": 1}, ("'x'", "kwargs={'x': …}")),
        (sin_cos, {"device": "h100"}, ("'device'", "'target'")),
        (sin_cos, {"fusion": ()}, ("'fusion'", "'keep_apart'")),
        (sin_cos, {"trian": True}, ("'trian'", "'train'")),
        (sin_cos, {"kwargs": [1]}, ("mapping", "kwargs={'x': x}", "list")),
        (sin_cos, {"stages": ("dynamo",)}, ("stages", "sequence", "explorer.types.Stage", "'dynamo'")),
        (sin_cos, {"stages": "dynamo"}, ("stages", "sequence", "explorer.types.Stage", "'dynamo'")),
        (sin_cos, {"stages": explorer.types.STAGES[0]}, ("stages", "sequence", "explorer.types.Stage", "not Stage")),
        (sin_cos, {"stages": 3}, ("stages", "sequence", "explorer.types.Stage", "3")),
        (torch.nn.ReLU, {}, ("ReLU", "class", "trace(ReLU(…), x)")),
        (torch.nn.Linear(4, 4, device="meta"), {}, ("meta device", "target='h100'", "module.to_empty(device='cpu')")),
    ],
)
def test_what_trace_cannot_take_says_what_to_write(
    function: object, arguments: dict[str, object], facts: tuple[str, ...]
) -> None:
    """Misplaced arguments, a class in place of a module, and tensors without data are InputErrors that say what to do."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.trace(function, torch.randn(4), **arguments)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_target_that_is_not_here_says_why() -> None:
    """target="cuda" without a GPU says what is missing."""
    lacking = "GPU" if torch.version.cuda or torch.version.hip else "CPU"
    with pytest.raises(explorer.errors.InputError, match=says("'cuda'", "torch", lacking)):
        explorer.trace(sin_cos, torch.randn(4), target="cuda")


@pytest.mark.compile
def test_train_without_anything_to_differentiate_says_what_to_give() -> None:
    """train=True where no input requires grad is an InputError that says so."""
    with pytest.raises(explorer.errors.InputError, match="requires_grad=True"):
        explorer.trace(sin_cos, torch.randn(4), train=True, backend="aot_eager")
