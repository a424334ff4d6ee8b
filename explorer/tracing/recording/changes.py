"""Changes that a trace was asked to make to the compile: what its meta says of them, and which did not come true."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from explorer.analysis.questions.fusion import unfulfilled_requests
from explorer.capture.observe.requests import Changes, is_named
from explorer.errors import InputError, unknown_name
from explorer.model.values import Event, Fuse, KeepApart, Plain
from explorer.tracing.traced import Trace


def changes_in_meta(changes: Changes) -> dict[str, Plain]:
    """Return the entries of a trace's meta that state its changes; none where there are none."""
    entries = {
        "keep_apart": _pairs(changes.fusion, KeepApart),
        "fuse": _pairs(changes.fusion, Fuse),
        "without_pattern": changes.without_pattern,
        "without_pass": changes.without_pass,
    }
    return {name: value for name, value in entries.items() if value}


def _pairs(requests: Sequence[KeepApart | Fuse], kind: type) -> tuple[tuple[str, str], ...]:
    return tuple((request.first, request.second) for request in requests if isinstance(request, kind))


def with_unfulfilled(trace: Trace, events: Sequence[Event], changes: Changes) -> Trace:
    """Add a Failure for each fusion request that did not come true.

    InputError, with the trace as its attribute `explorer_trace`, for a pattern or pass that did not run in the compile.
    """
    if not changes.asked:
        return trace  # not replayed for this
    if any(failure.fatal for failure in trace.failures):
        return trace
    try:
        _check_names(changes)
        failures = unfulfilled_requests(trace, [e for e in events if e.kind == "fusion_wish"], changes.fusion)
    except InputError as error:
        error.explorer_trace = trace  # type: ignore[attr-defined]
        raise
    return replace(trace, failures=(*trace.failures, *failures)) if failures else trace


def _check_names(changes: Changes) -> None:
    """Raise InputError for a pattern or pass to leave out that did not run."""
    for names, that_ran, what in (
        (changes.without_pattern, changes.known_patterns, "pattern"),
        (changes.without_pass, changes.known_passes, "pass"),
    ):
        for name in names:
            if not any(is_named(each, (name,)) for each in that_ran):
                raise _did_not_run(what, name, that_ran)


def _did_not_run(what: str, name: str, that_ran: Collection[str]) -> InputError:
    """Build the error for a pattern or pass that did not run; it offers the nearest, where `name` is no wildcard."""
    if not that_ran:
        return InputError(f"{name!r} cannot be left out: no {what} ran in this compile, which made no graph for Inductor")
    if set("*?[") & set(name):
        first = ", ".join(sorted(that_ran)[:4])
        return InputError(f"no {what} is named like {name!r}: of {len(that_ran)} that ran the first are {first}")
    return unknown_name(what, name, that_ran)
