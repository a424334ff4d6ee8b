"""The accessors of a trace that are about one part of the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.model.accessor import Accessor

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace


class TraceAccessor(Accessor):
    """The base of the accessors that ask a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    if not TYPE_CHECKING:  # to mypy a class with it would have every name

        def __getattr__(self, name: str) -> Any:
            """Say where a name is that this accessor does not have."""
            if hasattr(type(self), name):  # a property that raised AttributeError itself
                return object.__getattribute__(self, name)
            raise AttributeError(self._trace._guess(self.path, name), name=name, obj=self)
