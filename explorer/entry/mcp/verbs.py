"""What is asked of a trace that needs the process that compiled: to change something, to check, to edit, to find a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.entry.mcp.answer import Answer
from explorer.entry.mcp.questions import kernel_named
from explorer.errors import unknown_name
from explorer.tracing.traced.trace import Trace

#: What of a kernel can be edited.
FORMS = ("source", "ttir", "ttgir", "llir", "ptx")
#: The columns of a check that an answer has.
CHECKED = ("output", "equal", "compared", "max_abs", "max_rel", "bound", "random", "note", "interpreted")


def what_if(
    trace: Trace,
    fuse: Sequence[Sequence[str]] = (),
    keep_apart: Sequence[Sequence[str]] = (),
    without_pass: Sequence[str] = (),
    without_pattern: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Answer, Trace]:
    """Trace the same call with something changed; the answer, and the second trace."""
    changed = trace.what_if(
        keep_apart=keep_apart or None,
        fuse=fuse or None,
        without_pass=list(without_pass),
        without_pattern=list(without_pattern),
        options=options or {},
        settings=settings or {},
    )
    return Answer(repr(changed), changed.table, ("compare(traces) for each line",)), changed.after


def check(trace: Trace, limit: float | None = None) -> Answer:
    """Compare the compiled function with eager."""
    rows = trace.check(limit)
    verdicts = [row["equal"] for row in rows]
    words = {True: "equal", False: "not equal", None: "not compared"}
    counted = ", ".join(f"{verdicts.count(value)} {word}" for value, word in words.items() if value in verdicts)
    asking = ("bisect(trace) for the kernel that is off",) if False in verdicts else ()
    return Answer(f"{len(rows)} outputs, gradients and changed tensors: {counted}", rows, asking, columns=CHECKED)


def bisect(trace: Trace, limit: float | None = None) -> Answer:
    """Find the first kernel whose result is off, and what brings that about."""
    found = trace.bisect(limit)
    return Answer(repr(found), [row for row in found.table if row["equal"] is not True])


def edit(trace: Trace, kernel: str, source: str, form: str = "source", timeout: float = 120.0) -> Answer:
    """Put another text in a kernel's place, if it is right."""
    if form not in FORMS:
        raise unknown_name("form", form, FORMS)
    given: dict[str, Any] = {form: source}
    edit = kernel_named(trace, kernel).edit(**given, timeout=timeout)
    kept = "it is in place until reset(trace)" if edit.in_place else "what ran before stays"
    rows = [row for row in edit.check if row["equal"] is not True]
    return Answer(f"{edit!r}\n{kept}", rows, ("check(trace)", "reset(trace)"), columns=CHECKED)


def reset(trace: Trace) -> Answer:
    """Put the originals back."""
    return Answer("the originals are back" if trace.live.edits.reset() else "nothing was edited")


__all__ = ["bisect", "check", "edit", "reset", "what_if"]
