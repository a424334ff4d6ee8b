"""Prove advice: run the `what_if` of each verdict, and ask again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.analysis.advice.advise import advise
from explorer.analysis.advice.verdicts import Advice, Proof, Verdict
from explorer.errors import ExplorerError, InputError
from explorer.lab.live.protocol import needs_live
from explorer.tracing.traced import what_if
from explorer.tracing.traced.what_if import WhatIf

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: The most seconds that checking the result of a proof may take for a GPU you don't have.
LIMIT = 20.0


def advised(trace: Trace, *, prove: bool, limit: float | None) -> Advice:
    """List the verdicts on a trace, with `prove` each with what came of its `what_if`: see `Trace.advise`."""
    if not isinstance(prove, bool):
        raise InputError(f"prove is True or False, not {prove!r}")
    advice = advise(trace)
    if not prove:
        return advice
    with needs_live(trace, "advise(prove=True)").watchers.verb("advise(prove=True)"):
        seconds = LIMIT if limit is None else limit
        return replace(advice, verdicts=tuple(_proved(trace, advice, verdict, seconds) for verdict in advice))


def _proved(trace: Trace, advice: Advice, verdict: Verdict, limit: float) -> Verdict:
    """Run the `what_if` of a verdict; one without stays as it is."""
    if not verdict.what_if:
        return verdict
    try:
        changed = what_if.what_if(trace, **{**_UNCHANGED, **verdict.what_if}, limit=limit)
    except ExplorerError as error:
        return replace(verdict, proof=Proof(note=f"not proved: {error}"))
    return replace(verdict, proof=_proof(advice, verdict, changed))


#: The arguments of `what_if` that a verdict does not give.
_UNCHANGED: Mapping[str, Any] = {
    "keep_apart": None,
    "fuse": None,
    "without_pass": (),
    "without_pattern": (),
    "options": {},
    "settings": {},
}


def _proof(advice: Advice, verdict: Verdict, changed: WhatIf) -> Proof:
    """Compare a call before and after: as it was measured where that could be, else as it is estimated."""
    again = advise(changed.after)
    gone = all(other.kind != verdict.kind for other in again)
    note = f"result: {changed.note}"
    if changed.same_code:
        note = f"{what_if.SAME_CODE}; {note}"
    for row in changed.table:
        if row["figure"] == "measured_seconds":
            chance = "; the calls vary by more than the change" if what_if.may_be_chance(row) else ""
            return Proof("measured_seconds", row["before"], row["after"], gone, note + chance)
    return Proof("estimated_seconds", advice.seconds, again.seconds, gone, note)
