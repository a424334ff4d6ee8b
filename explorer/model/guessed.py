"""NamesGuessed: a wrong guess at a name is answered with the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class NamesGuessed:
    """What does not have a name says where it is; `_guess` finds the words."""

    def _guess(self, name: str) -> str:
        raise NotImplementedError

    if not TYPE_CHECKING:  # to mypy a class with it would have every name

        def __getattr__(self, name: str) -> Any:
            """Say where a name is that this does not have."""
            if hasattr(type(self), name):  # a property that raised AttributeError itself
                return object.__getattribute__(self, name)
            # nobody guesses at a private name, and `_guess` may need one that copying or unpickling has not set yet
            said = guess(type(self).__name__, name) if name.startswith("_") else self._guess(name)
            raise AttributeError(said, name=name, obj=self)


def guess(kind: str, name: str, right: str = "") -> str:
    """Say that a kind of object has no such name, and what is the right one where that is known."""
    return f"{kind} has no {name!r}" + (f": {right}" if right else "")
