"""Replace an attribute for a while, and put it back whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is `make(original)` inside the block and exactly what it was after it.

    AttributeError where `owner` has no such attribute: the torch at hand is not the one the hook knows.
    """
    own = vars(owner).get(name, _ABSENT)
    setattr(owner, name, make(getattr(owner, name)))
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def added(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` inside the block, whether or not there is one, and exactly what it was after it."""
    if hasattr(owner, name):
        with replaced(owner, name, lambda _: value):
            yield
        return
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name)
