"""Fields of a frozen value that are made when one of them is first read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

#: Where a value keeps what makes its fields, until they are made.
_PENDING = "_pending_fields"


class _Pending:
    """What makes some fields of one value, once, whichever thread reads one of them first."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make
        self._lock = threading.RLock()

    def fill(self, value: object) -> None:
        """Make the fields; another thread that reads one meanwhile waits for them."""
        with self._lock:
            fields = vars(value)
            if _PENDING in fields:
                fields.update(self._make())
                del fields[_PENDING]  # last: until then who reads a field comes here, and waits


class _Field:
    """What stands on a class in a field's place: it is asked where a value has no such field of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, value: object | None, owner: type | None = None) -> Any:
        if value is None:
            return self
        fields = vars(value)
        pending = fields.get(_PENDING)
        if isinstance(pending, _Pending):
            pending.fill(value)
        if self._name not in fields:
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {self._name!r}")
        return fields[self._name]


def deferrable(*names: str) -> Callable[[type[T]], type[T]]:
    """A decorator of a dataclass: its values may leave these fields out until they are read, see `defer`.

    The fields have no defaults on the class: a default is a factory.
    """

    def mark(kind: type[T]) -> type[T]:
        for name in names:
            setattr(kind, name, _Field(name))
        return kind

    return mark


def defer(value: object, make: Callable[[], Mapping[str, Any]]) -> None:
    """Let `make` give fields of a value that nobody has read yet, all of them when one is first read.

    Whatever reads them has them: equality, `dataclasses.replace`, saving. Until then the value holds what `make` holds.
    """
    fields = vars(value)
    for name in [name for name in fields if isinstance(getattr(type(value), name, None), _Field)]:
        del fields[name]
    fields[_PENDING] = _Pending(make)
