"""Torch's settings are changed for a while, and are what they were after it."""

from __future__ import annotations

import pytest
import torch

from explorer.capture.compilers.settings import changed_settings
from explorer.errors import InputError
from tests.facts import says

PRECISION = "torch.backends.cuda.matmul.allow_tf32"
SCALARS = "torch._dynamo.config.capture_scalar_outputs"


def states() -> tuple[object, ...]:
    matmul = torch.backends.cuda.matmul
    return matmul.fp32_precision, torch.get_float32_matmul_precision(), torch._dynamo.config.capture_scalar_outputs


def test_settings_hold_inside_the_block_and_no_longer() -> None:
    """Also where the block fails; switches that torch derives from one are put back with it."""
    before = states()
    with pytest.raises(ZeroDivisionError), changed_settings({PRECISION: True, SCALARS: True}):
        assert states()[0] == "tf32" and states()[2] is True
        raise ZeroDivisionError
    assert states() == before


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"torch.backends.cuda.matmul.fp32_precision": "tf33"}, ("'tf33'", "torch.backends.cuda.matmul.fp32_precision")),
        ({SCALARS: True, "torch.backends.cuda.matmul.nope": 1}, ("torch.backends.cuda.matmul", "'nope'")),
        ({"torch.nope.at_all": 1}, ("'torch.nope.at_all'", "no torch.nope")),
        ({"os.sep": "/"}, ("module", PRECISION, "'os.sep'")),
        ({3: 1}, ("module", PRECISION, "3")),
        ({"torch.set_float32_matmul_precision": "high"}, ("torch.set_float32_matmul_precision", "function", "setting")),
        ({SCALARS: True, "torch.backends.cudnn": 1}, ("torch.backends.cudnn", "module", "setting")),
    ],
)
def test_what_is_no_setting_is_said_and_changes_nothing(settings: dict[str, object], facts: tuple[str, ...]) -> None:
    """The name of no setting, and a value that torch refuses, are the user's mistake."""
    before = states()
    with pytest.raises(InputError, match=says(*facts)), changed_settings(settings):
        raise AssertionError
    assert states() == before


def test_a_switch_that_torch_does_not_let_be_read_is_said() -> None:
    """Once the program has set the newer fp32_precision, torch raises for the older switch: the message has its words."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with pytest.raises(InputError, match=says(PRECISION, "fp32_precision", "read")), changed_settings({PRECISION: True}):
            raise AssertionError
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_a_function_that_is_the_value_of_a_setting_can_be_changed() -> None:
    """A hook of Inductor's config is a setting, also while the program has a function there."""
    hook = "torch._inductor.config.post_grad_custom_pre_pass"
    with changed_settings({hook: print}):
        with changed_settings({hook: None}):
            assert torch._inductor.config.post_grad_custom_pre_pass is None
        assert torch._inductor.config.post_grad_custom_pre_pass is print
