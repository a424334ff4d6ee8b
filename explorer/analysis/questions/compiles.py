"""A trace of some of its compiles alone, and which of a large trace are opened at first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from explorer.errors import unknown_name
from explorer.model.deferred import defer
from explorer.model.trace_data import TraceData
from explorer.model.values import Failure

#: The most lines of text that a view opens at first, if they are of more than one compile.
MAX_LINES = 1_000_000
#: What a view names in place of a stage where it does not show all compiles.
COMPILES = "compiles"


def only(trace: TraceData, frames: Iterable[str]) -> TraceData:
    """The trace of some compiles, and of what belongs to none; InputError for a compile that it does not have."""
    wanted = frozenset(frames)
    for frame in sorted(wanted - set(trace.compile_ids)):
        raise unknown_name("compile", frame, trace.compile_ids)
    return _part(trace, wanted, trace.failures)


def _part(trace: TraceData, frames: Container[str], failures: tuple[Failure, ...]) -> TraceData:
    artifacts = tuple(a for a in trace.artifacts if not a.frame or a.frame in frames)
    ids = {a.id for a in artifacts}
    part = TraceData(trace.meta, artifacts, (), failures, _stages=trace._stages)
    # a large file's links are read when they are asked for
    defer(part, lambda: {"links": tuple(link for link in trace.links if {link.source, link.target} <= ids)}, ("links",))
    return part


def opened(trace: TraceData) -> TraceData:
    """What a view opens: the trace, or of one with more than `MAX_LINES` the first compiles, with a failure that says so."""
    lines: Counter[str] = Counter()
    for artifact in trace.artifacts:
        lines[artifact.frame] += artifact.line_count
    if lines.total() <= MAX_LINES:
        return trace
    total, shown = lines[""], list[str]()
    for frame in trace.compile_ids:
        total += lines[frame]
        if shown and total > MAX_LINES:
            break
        shown.append(frame)
    if len(shown) == len(trace.compile_ids):
        return trace
    left = trace.compile_ids[len(shown)]
    message = (
        f"the view opens the first {len(shown)} of {len(trace.compile_ids)} compiles, {shown[0]} to {shown[-1]}. "
        f"t.only({left!r}) is the trace of the next one alone, t.only(*t.compile_ids[{len(shown)}:]) that of all others"
    )
    said = Failure(COMPILES, f"{len(shown)} of {len(trace.compile_ids)} shown", message)
    return _part(trace, shown, (*trace.failures, said))


__all__ = ["COMPILES", "MAX_LINES", "only", "opened"]
