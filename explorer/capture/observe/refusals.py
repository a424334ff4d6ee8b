"""Find the function of torch that refuses a fusion without a reason, by Python's profiler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from explorer.capture.observe.places import in_package
from explorer.model.values import Call


def refused_at(ask: Callable[[], object]) -> Call:
    """Return the file, line and function that refuse when `ask` is called; ("", 0, "") where another profiler is at work.

    Only functions with "fus" in their names count. Where one refuses after the last of them that it called refused, the called
    one is taken, down to the innermost.
    """
    if sys.getprofile() is not None:
        return "", 0, ""
    last: dict[int, list[Call]] = {}
    depth = 0

    def profile(frame: FrameType, event: str, value: Any) -> None:
        nonlocal depth
        if event == "call":
            depth += 1
            last.pop(depth + 1, None)
        elif event == "return":
            code = frame.f_code
            if "fus" in code.co_name and (file := in_package(code.co_filename)):
                place = file, frame.f_lineno, code.co_qualname
                last[depth] = [] if value else [place, *last.get(depth + 1, [])]
            depth -= 1

    sys.setprofile(profile)
    try:
        ask()
    finally:
        sys.setprofile(None)
    chains = [chain for _, chain in sorted(last.items()) if chain]
    return chains[0][-1] if chains else ("", 0, "")
