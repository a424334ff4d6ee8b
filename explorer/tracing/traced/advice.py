"""Prove advice: run the `what_if` of each verdict, and ask again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.analysis.advice.advise import advise
from explorer.analysis.advice.dynamo import BRANCHING
from explorer.analysis.advice.verdicts import Advice, Proof, Verdict
from explorer.analysis.questions.data_dependent import CHECK
from explorer.errors import ExplorerError, InputError
from explorer.lab.live.inserted import inserted
from explorer.lab.live.protocol import needs_live
from explorer.tracing.traced import what_if
from explorer.tracing.traced.what_if import WhatIf

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: What a check says that does not hold: of a graph, and of Python.
DOES_NOT_HOLD = ("Runtime assertion failed", "Expected cond to be True")
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
    if verdict.checks:
        return _with_check(trace, verdict)
    if not verdict.what_if:
        return verdict
    try:
        changed = what_if.what_if(trace, **{**_UNCHANGED, **verdict.what_if}, limit=limit)
    except ExplorerError as error:
        return replace(verdict, proof=Proof(note=f"not proved: {error}"))
    return replace(verdict, proof=_proof(advice, verdict, changed))


def _with_check(trace: Trace, verdict: Verdict) -> Verdict:
    """Trace again with each check before the verdict's line, and recommend the first that lets it through."""
    line = verdict.lines[0]
    refused: list[str] = []
    for check in verdict.checks:
        try:
            with inserted(line.file, line.number, check):
                after = needs_live(trace, "advise(prove=True)").trace_again()
        except ExplorerError as error:
            return replace(verdict, proof=Proof(note=f"not tried: {error}"))
        except (RuntimeError, NameError) as error:  # of the program; where the check does not hold it is the check's
            holds = not any(words in str(error) for words in DOES_NOT_HOLD)
            said = f"{type(error).__name__}: {error}".partition("\n")[0]
            refused.append(f"with {check} the call raises {said}" if holds else f"{check} does not hold for this call")
            continue
        if why := _still_stopped(trace, after, verdict):
            refused.append(f"{check} does not help: {why}")
            continue
        remedy = f"insert {check} before line {line.number}. A call for which that does not hold then raises an error"
        return replace(verdict, remedy=remedy, proof=Proof(note="tried: with it the line is compiled, and this call runs"))
    tried = "; ".join(refused)
    return replace(verdict, remedy=f"no {CHECK} lets it through: {BRANCHING}", proof=Proof(note=f"tried: {tried}"))


def _still_stopped(before: Trace, after: Trace, verdict: Verdict) -> str:
    """Say why a trace with a check is no better: a compile fails, or the graph breaks as often; "" where it is."""
    if fatal := next((failure for failure in after.failures if failure.fatal), None):
        return f"the compile ends with {fatal.step}"
    if verdict.kind == "graph break" and len(after.dynamo.graph_breaks) >= len(before.dynamo.graph_breaks):
        return "the graph still breaks"
    return ""


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
