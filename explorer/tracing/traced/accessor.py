"""The base of the accessors of a trace that are about one part of the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.model.accessor import Accessor

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace


class TraceAccessor(Accessor):
    """The base of the accessors that ask a Trace."""

    _trace: Trace

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
