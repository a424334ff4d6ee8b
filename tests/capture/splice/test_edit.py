"""What a variant says of itself."""

from __future__ import annotations

import pytest

from explorer.capture.splice.edit import Edit


@pytest.mark.parametrize(
    ("seconds", "original", "ratio"), [(1.0, 2.0, 0.5), (None, 2.0, None), (1.0, None, None), (1.0, 0.0, None)]
)
def test_the_ratio_is_of_two_times(seconds: float | None, original: float | None, ratio: float | None) -> None:
    """Below 1 the variant is faster; without both times there is none."""
    assert Edit(1, "kernel", "source", "", "", "in place", seconds=seconds, original_seconds=original).ratio == ratio
