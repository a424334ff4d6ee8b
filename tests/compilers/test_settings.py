"""Torch's settings are changed for a while, and are what they were after it."""

from __future__ import annotations

import pytest
import torch

from explorer.compilers.settings import changed_settings
from explorer.errors import InputError

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
    ("settings", "message"),
    [
        ({"torch.backends.cuda.matmul.fp32_precision": "tf33"}, "does not take 'tf33'"),
        ({SCALARS: True, "torch.backends.cuda.matmul.nope": 1}, "has no 'nope'"),
        ({"torch.nope.at_all": 1}, "there is no torch.nope"),
        ({"os.sep": "/"}, "are named with their module"),
        ({3: 1}, "are named with their module"),
    ],
)
def test_what_is_no_setting_is_said_and_changes_nothing(settings: dict[str, object], message: str) -> None:
    """The name of no setting, and a value that torch refuses, are the user's mistake."""
    before = states()
    with pytest.raises(InputError, match=message), changed_settings(settings):
        raise AssertionError
    assert states() == before
