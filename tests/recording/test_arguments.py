"""Arguments that trace cannot take are refused, with what to write instead."""

from __future__ import annotations

import pytest
import torch

import explorer


def sin_cos(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


def test_what_is_not_callable_is_refused() -> None:
    """A tensor in the place of the function is an InputError that says what to write."""
    with pytest.raises(explorer.InputError, match="trace takes a function or module"):
        explorer.trace(torch.randn(4))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "cpuu"}, "unknown target 'cpuu': did you mean 'cpu'"),
        ({"mode": "max-autotun"}, "unknown mode 'max-autotun': did you mean 'max-autotune'"),
        ({"options": {"max_autotun": True}}, "unknown option 'max_autotun'.*max_autotune"),
        ({"backend": "inductr"}, "unknown backend 'inductr'.*inductor"),
        ({"backend": 3}, "backend is a name or a callable"),
        ({"mode": "default", "options": {"max_autotune": True}}, "mode or options, not both"),
    ],
)
def test_unknown_names_offer_the_nearest(arguments: dict[str, object], message: str) -> None:
    """An unknown target, mode, option or backend is an InputError that offers the nearest valid names."""
    with pytest.raises(explorer.InputError, match=message):
        explorer.trace(sin_cos, torch.randn(4), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (sin_cos, {"x": 1}, r"no argument 'x': Keyword arguments of the function go into kwargs=\{'x': …\}"),
        (sin_cos, {"trian": True}, r"no argument 'trian': did you mean 'train'\?"),
        (sin_cos, {"kwargs": [1]}, r"kwargs is a mapping .*kwargs=\{'x': x\}, not list"),
        (sin_cos, {"stages": ("dynamo",)}, r"stages is a sequence of explorer.Stage.*, not 'dynamo'"),
        (sin_cos, {"stages": "dynamo"}, r"stages is a sequence of explorer.Stage.*, not 'dynamo'"),
        (sin_cos, {"stages": explorer.STAGES[0]}, r"stages is a sequence of explorer.Stage.*, not Stage"),
        (sin_cos, {"stages": 3}, r"stages is a sequence of explorer.Stage.*, not 3"),
        (torch.nn.ReLU, {}, r"ReLU is a class: make one first, trace\(ReLU\(…\), x\)"),
        (torch.nn.Linear(4, 4, device="meta"), {}, r"on the meta device.*module.to_empty\(device='cpu'\)"),
    ],
)
def test_what_trace_cannot_take_says_what_to_write(function: object, arguments: dict[str, object], message: str) -> None:
    """Misplaced arguments, a class in place of a module, and tensors without data are InputErrors that say what to do."""
    with pytest.raises(explorer.InputError, match=message):
        explorer.trace(function, torch.randn(4), **arguments)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_target_that_is_not_here_says_why() -> None:
    """target="cuda" without a GPU says what is missing."""
    with pytest.raises(explorer.InputError, match=r"target 'cuda' is not here: torch .* (built for the CPU only|sees no GPU)"):
        explorer.trace(sin_cos, torch.randn(4), target="cuda")


@pytest.mark.compile
def test_train_without_anything_to_differentiate_says_what_to_give() -> None:
    """train=True where no input requires grad is an InputError that says so."""
    with pytest.raises(explorer.InputError, match="requires_grad=True"):
        explorer.trace(sin_cos, torch.randn(4), train=True, backend="aot_eager")
