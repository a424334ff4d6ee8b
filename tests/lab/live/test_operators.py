"""A sample of PyTorch's operator database: what a check of right programs must not call wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "check_operators.py"
#: Operators whose rounding, strides, views or order of sums compiled code has otherwise than eager.
SAMPLE = (("nn.functional.layer_norm", "bfloat16"), ("var", "float32"), ("log_softmax", "float32"))


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), SAMPLE)
def test_an_operator_is_not_called_wrong(name: str, dtype: str, module_at: Callable[[Path], ModuleType]) -> None:
    """The database's first sample of it, compiled for a GPU you don't have, is equal to eager."""
    answer = module_at(FILE).checked(name, dtype, "h100", "inductor")
    assert answer == {"kind": "equal"}
