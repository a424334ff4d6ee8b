"""Call a compiled function while another thread traces with torch.fx, during which torch refuses every such call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from explorer.errors import BusyError

T = TypeVar("T")

#: What torch says of such a call. It keeps one flag for the whole process, so it says so in threads that trace nothing too.
REFUSED = "Detected that you are using FX to symbolically trace"
#: Seconds that are waited for the other thread, and between two calls.
SECONDS, PAUSE = 60.0, 0.02


def once_nothing_traces(call: Callable[[], T], seconds: float = SECONDS) -> T:
    """What `call` returns, made anew as long as torch refuses it because of another thread; BusyError after `seconds`.

    torch refuses before anything of the compiled function runs. `call` must put back what it did before that.
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
