"""Prove advice: run the `what_if` of each verdict, and ask again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.analysis.advice.advise import advise
from explorer.analysis.advice.compiling import KINDS
from explorer.analysis.advice.dynamo import BRANCHING, RECOMPILES
from explorer.analysis.advice.verdicts import Advice, Proof, Verdict, duration
from explorer.analysis.questions.data_dependent import CHECK
from explorer.errors import ExplorerError, InputError
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.inserted import inserted
from explorer.lab.live.protocol import needs_live, with_options
from explorer.model.wording import quantity
from explorer.process.under_way import step
from explorer.tracing.traced import cold_compile, what_if
from explorer.tracing.traced.what_if import WhatIf

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: What a check says that does not hold: of a graph, and of Python.
DOES_NOT_HOLD = ("Runtime assertion failed", "Expected cond to be True")
#: The most seconds that checking the result of a proof may take for a GPU you don't have.
LIMIT = 20.0
#: How often a compile is timed before and after a change, in turn.
COMPILES = 2


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
    if verdict.kind in {*KINDS, RECOMPILES} and (verdict.regions or verdict.what_if):
        return _compiled_so(trace, verdict, limit)
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


def _compiled_so(trace: Trace, verdict: Verdict, limit: float) -> Verdict:
    """Compile as before and as the verdict says, in turn, each time from nothing in a process of its own."""
    live = needs_live(trace, "advise(prove=True)")
    if not isinstance(live, LiveFunction):
        return replace(verdict, proof=Proof(note="not proved: torch.compile did not compile it"))
    settings, options = verdict.what_if.get("settings", {}), verdict.what_if.get("options")
    arguments = with_options(trace, options) if options else {}
    jobs = (
        cold_compile.job_of(live, arguments={}, settings={}),
        cold_compile.job_of(live, arguments=arguments, settings=settings, regions=verdict.regions, limit=limit),
    )
    answers: list[cold_compile.Answer] = []
    for number in range(2 * COMPILES):
        step(f"compiling it {('as before', 'as advised')[number % 2]} in a process of its own", number, 2 * COMPILES)
        answers.append(cold_compile.compiled_cold(jobs[number % 2]))
        if answers[-1].error:
            return replace(verdict, proof=Proof(note=f"not proved: {answers[-1].error}"))
    return replace(verdict, proof=proof_of_compiles(verdict, answers[::2], answers[1::2]))


def proof_of_compiles(verdict: Verdict, before: Sequence[cold_compile.Answer], after: Sequence[cold_compile.Answer]) -> Proof:
    """Compare the shortest of several compiles before and after."""
    first, second = ([answer.seconds for answer in answers] for answers in (before, after))
    apart = max(max(first) - min(first), max(second) - min(second))
    chance = ", which is more than the change" if abs(min(first) - min(second)) <= apart else ""
    counts = " before and ".join(
        f"{quantity(each.compiles, 'compile')} of {quantity(each.kernels, 'kernel')}" for each in (before[-1], after[-1])
    )
    how = f"the shorter of {COMPILES} each, from nothing in processes of their own, up to {duration(apart)} apart{chance}"
    gone = verdict.kind not in after[-1].kinds
    return Proof("compile_seconds", min(first), min(second), gone, f"{how}; {counts} after; result: {after[-1].result}")


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
