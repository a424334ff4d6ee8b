"""Where in torch a refusal without a reason comes from."""

from __future__ import annotations

import sys

from explorer.capture.observe.refusals import refused_at


def test_the_place_of_a_refusal_is_the_innermost_function_about_fusing() -> None:
    """Nothing outside torch is a place, and a profiler that is at work stays in place."""
    assert refused_at(lambda: False) == ("", 0, "")
    seen: list[str] = []
    sys.setprofile(lambda frame, event, value: seen.append(event))
    try:
        assert refused_at(lambda: False) == ("", 0, "")
    finally:
        sys.setprofile(None)
    assert seen
