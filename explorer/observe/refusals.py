"""Where in torch a fusion is refused without a word: the function that says no, as a profiler sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from explorer.model.values import Call
from explorer.observe.places import in_package


def refused_at(ask: Callable[[], object]) -> Call:
    """The file, line and function that say no when `ask` is called, ("", 0, "") where another profiler is at work.

    Of the functions about fusing whose answer is false, the innermost whose caller asked nothing more and said no too.
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
