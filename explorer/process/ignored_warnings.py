"""Ignore the warnings of code that explorer calls, in this thread alone.

`warnings.catch_warnings` replaces the filters of every thread, and forgets which warnings were given once already.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any


class _OfThread:
    """Stand in for the pattern of a warnings filter: it matches every message of one thread, and no other."""

    def __init__(self) -> None:
        self.thread: int | None = get_ident()

    def match(self, message: str) -> bool:
        """Whether a warning is of this thread, while the block is entered."""
        return get_ident() == self.thread


@contextmanager
def warnings_ignored_here() -> Iterator[None]:
    """Ignore every warning of this thread inside the block, whatever filters the program has set."""
    pattern = _OfThread()
    own: Any = ("ignore", pattern, Warning, None, 0)
    filters: Any = warnings.filters
    filters.insert(0, own)
    try:
        yield
    finally:
        pattern.thread = None  # so that it matches nothing more, also in copies of the filters that another thread took
        filters_now: Any = warnings.filters  # another thread may have put a copy in the list's place
        for each in (filters, filters_now):
            if own in each:
                each.remove(own)
