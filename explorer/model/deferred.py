"""Fields of a frozen value that are made when one of them is first read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

#: Where a value keeps what makes its fields, by their names, until they are made.
_PENDING = "_pending_fields"


class _Pending:
    """What makes some fields of one value, once, whichever thread reads one of them first."""

    __slots__ = ("_lock", "_names", "make")

    def __init__(self, make: Callable[[], Mapping[str, Any]], names: Iterable[str], lock: threading.RLock) -> None:
        self.make = make
        self._names = tuple(names)
        self._lock = lock

    def fill(self, value: object) -> None:
        """Make the fields; another thread that reads one meanwhile waits for them."""
        with self._lock:
            fields = vars(value)
            if self in fields.get(_PENDING, {}).values():
                made = self.make()
                fields.update({name: made[name] for name in self._names})
                left = {name: pending for name, pending in fields[_PENDING].items() if pending is not self}
                if left:  # last: until then who reads a field comes here, and waits
                    fields[_PENDING] = left
                else:
                    del fields[_PENDING]


class _Field:
    """What stands on a class in a field's place: it is asked where a value has no such field of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, value: object | None, owner: type | None = None) -> Any:
        if value is None:
            return self
        fields = vars(value)
        pending = fields.get(_PENDING, {}).get(self._name)
        if isinstance(pending, _Pending):
            pending.fill(value)
        if self._name not in fields:
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {self._name!r}")
        return fields[self._name]


def deferrable(*names: str) -> Callable[[type[T]], type[T]]:
    """A decorator of a dataclass: its values may leave these fields out until they are read, see `defer`.

    A field with a default on the class loses it there, which is read by nobody: the constructor gives each value its own.
    """

    def mark(kind: type[T]) -> type[T]:
        for name in names:
            setattr(kind, name, _Field(name))
        return kind

    return mark


def deferrable_fields(kind: type) -> tuple[str, ...]:
    """The fields of a class that its values may leave out until they are read."""
    return tuple(name for name in dir(kind) if isinstance(getattr(kind, name, None), _Field))


def defer(
    value: object,
    make: Callable[[], Mapping[str, Any]],
    names: Iterable[str] | None = None,
    lock: threading.RLock | None = None,
) -> None:
    """Let `make` give fields of a value that nobody has read yet, all of them when one is first read.

    Without `names` it gives all fields that may be left out. Whatever reads them has them: equality, `dataclasses.replace`,
    saving. Until then the value holds what `make` holds. Values that are read from one file may share a `lock`.
    """
    fields = vars(value)
    left_out = tuple(deferrable_fields(type(value)) if names is None else names)
    for name in left_out:
        fields.pop(name, None)
    pending = _Pending(make, left_out, lock or threading.RLock())
    fields[_PENDING] = {**fields.get(_PENDING, {}), **dict.fromkeys(left_out, pending)}


def maker_of(value: object, name: str) -> Callable[[], Mapping[str, Any]] | None:
    """Return the function that will make a field of a value; None for one that is made."""
    pending = vars(value).get(_PENDING, {}).get(name)
    return pending.make if isinstance(pending, _Pending) else None


def is_deferred(value: object, name: str) -> bool:
    """Whether a field of a value is still to be made."""
    return name in vars(value).get(_PENDING, {})
