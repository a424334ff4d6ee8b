"""Call a compiled function though another thread may be tracing with torch.fx, when torch refuses every such call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from explorer.errors import BusyError

T = TypeVar("T")

#: torch's message for such a call. Its flag is one for the whole process, so threads that trace nothing are refused too.
REFUSED = "Detected that you are using FX to symbolically trace"
#: The most seconds to wait for the other thread, and the seconds between two calls.
SECONDS, PAUSE = 60.0, 0.02


def once_nothing_traces(call: Callable[[], T], seconds: float = SECONDS) -> T:
    """Return what `call` returns; repeat it while torch refuses it because of another thread. BusyError after `seconds`.

    torch refuses before the compiled function begins to run. `call` must undo its own changes from before that point.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except RuntimeError as error:
            if REFUSED not in str(error):
                raise
            if time.monotonic() >= end:
                raise BusyError(
                    f"torch.fx has been tracing for {seconds:g} s, in this thread or in another, and torch calls no compiled "
                    "function meanwhile: call this again when that is done"
                ) from error
        time.sleep(PAUSE)
