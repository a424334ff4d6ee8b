"""Keep torch's warnings off the terminal while explorer provokes them; what the user asked to see stays."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

#: An artifact's log, such as "torch._dynamo.guards.__recompiles", has records only where the user asked for the artifact.
ARTIFACT = ".__"
#: The log that has a level whether the user asked for one or not, and that level.
TOP, USUAL = "torch", logging.WARNING
#: The log with the stack of each operator that refuses its inputs. A trace has a Failure of the same compile.
REFUSED_OPERATORS = "torch._subclasses.fake_tensor"


@contextmanager
def torch_logs_kept_from_terminal(log: str = TOP) -> Iterator[None]:
    """Inside the block torch's own handlers print nothing of this thread but what TORCH_LOGS or `set_logs` asked for.

    With `log` only records of that log, and of those below it, are kept back. Handlers of the user's, torch's log files and its
    structured log get each record, as they did.
    """
    from torch._logging import _internal

    unasked = _Unasked(threading.get_ident(), log)
    with ExitStack() as stack:
        for handler in tuple(_internal.handlers):
            if type(handler) is logging.StreamHandler:
                handler.addFilter(unasked)
                stack.callback(handler.removeFilter, unasked)
        yield


class _Unasked(logging.Filter):
    """Let a thread's record of one log through only where the user asked for it."""

    def __init__(self, thread: int, log: str) -> None:
        super().__init__(log)  # `Filter.filter` tells whether a record is of this log
        self._thread = thread

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is of another thread or log, or was asked for."""
        of_another = record.thread != self._thread or not super().filter(record)
        return of_another or ARTIFACT in record.name or _is_asked_for(record.name)


def _is_asked_for(name: str) -> bool:
    """Whether the user gave a level to a log or to one that it is in."""
    from torch._logging._internal import log_state

    levels = dict(log_state.get_log_level_pairs())
    if levels.get(TOP, USUAL) in (USUAL, logging.getLevelName(USUAL)):
        levels.pop(TOP, None)
    return any(name == log or name.startswith(f"{log}.") for log in levels)


__all__ = ["REFUSED_OPERATORS", "torch_logs_kept_from_terminal"]
