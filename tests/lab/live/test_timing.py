"""The median and the spread of calls that are made in turn."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.lab.live import timing
from explorer.lab.live.timing import Seconds, median_seconds


def test_the_spread_is_between_the_quartiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is numpy's distance of the 25th and 75th percentile; a single call has none."""
    given = [0.5, 0.1, 0.4, 0.2, 9.0, 0.3]
    times = iter(given)
    monkeypatch.setattr(timing, "_seconds", lambda call: Seconds(next(times), 1.0))
    (measured,) = median_seconds([lambda: None], len(given))
    low, high = np.percentile(given, [25, 75])
    assert measured.clock == pytest.approx(np.median(given)) and measured.spread == pytest.approx(high - low)
    times = iter(given)
    assert median_seconds([lambda: None], 1)[0].spread == 0.0


def test_calls_take_turns_in_being_first() -> None:
    """What runs before a call leaves threads awake and caches filled: each call is first as often as the other."""
    made: list[str] = []
    median_seconds([lambda: made.append("a"), lambda: made.append("b")], 4)
    assert "".join(made) == "abbaabba"
