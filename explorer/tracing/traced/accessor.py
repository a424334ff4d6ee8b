"""The accessors of a trace that are about one part of the compiler, and how a wrong guess at a name is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.model.accessor import Accessor

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace


class NamesGuessed:
    """What does not have a name says where it is; `_guess` finds the words."""

    def _guess(self, name: str) -> str:
        raise NotImplementedError

    if not TYPE_CHECKING:  # to mypy a class with it would have every name

        def __getattr__(self, name: str) -> Any:
            """Say where a name is that this does not have."""
            if hasattr(type(self), name):  # a property that raised AttributeError itself
                return object.__getattribute__(self, name)
            raise AttributeError(self._guess(name), name=name, obj=self)


class TraceAccessor(NamesGuessed, Accessor):
    """The base of the accessors that ask a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def _guess(self, name: str) -> str:
        return self._trace._guess(name, self.path)
