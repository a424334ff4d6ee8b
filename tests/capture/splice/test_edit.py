"""What a variant says of itself."""

from __future__ import annotations

import pytest

from explorer.capture.splice.edit import Edit
from explorer.model.values import Table


@pytest.mark.parametrize(
    ("seconds", "original", "ratio"), [(1.0, 2.0, 0.5), (None, 2.0, None), (1.0, None, None), (1.0, 0.0, None)]
)
def test_the_ratio_is_of_two_times(seconds: float | None, original: float | None, ratio: float | None) -> None:
    """Below 1 the variant is faster; without both times there is none."""
    assert Edit(1, "kernel", "source", "", "", "in place", seconds=seconds, original_seconds=original).ratio == ratio


@pytest.mark.parametrize(
    ("status", "wrong_values", "is_advised"),
    [
        ("wrong result", 1, True),
        ("not compared", 0, True),
        ("wrong result", 0, False),
        ("in place", 0, False),
        ("crash", 0, False),
    ],
)
def test_what_can_be_put_in_place_all_the_same_says_how_in_python(status: str, wrong_values: int, is_advised: bool) -> None:
    """An edit that gives other values, or values that nothing compares, has the argument of Python beside what it says."""
    rows = Table({"output": "out_ptr0", "equal": False} for _ in range(wrong_values))
    edit = Edit(1, "kernel", "source", "", "", status, check=rows)
    assert ("check=False" in edit.advice, "check=False" in edit.described()) == (is_advised, is_advised)
    assert "check=False" not in edit.meaning + edit.message
