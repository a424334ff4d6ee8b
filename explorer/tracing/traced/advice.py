"""Prove advice: run the `what_if` of each verdict, and ask again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.analysis.advice.advise import advise
from explorer.analysis.advice.compiling import KINDS
from explorer.analysis.advice.dynamo import BRANCHING
from explorer.analysis.advice.verdicts import Advice, Proof, Verdict, duration
from explorer.analysis.questions.compile_seconds import seconds_by_part
from explorer.analysis.questions.data_dependent import CHECK
from explorer.capture.compilers.settings import changed_settings
from explorer.errors import ExplorerError, InputError
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.inserted import inserted
from explorer.lab.live.protocol import Changes, needs_live
from explorer.lab.live.regions import compiled_once
from explorer.model.wording import quantity
from explorer.tracing.traced import what_if
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
    if verdict.kind in KINDS and (verdict.regions or verdict.what_if):
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
    """Compile as the verdict says, and as before, in turn; both find the same caches: none of graphs, those of binaries."""
    trace_again = needs_live(trace, "advise(prove=True)").trace_again
    before: list[Trace] = []
    after: list[Trace] = []
    try:
        for _ in range(COMPILES):
            before.append(trace_again())
            with _as_advised(trace, verdict) as changes:
                after.append(trace_again(**changes))
                result = _result(after[-1], limit) if len(after) == COMPILES else ""
            if fatal := next((failure for failure in after[-1].failures if failure.fatal), None):
                return replace(verdict, proof=Proof(note=f"not proved: the compile fails: {fatal.message}"))
    except ExplorerError as error:
        return replace(verdict, proof=Proof(note=f"not proved: {error}"))
    first, second = ([sum(seconds_by_part(one).values()) for one in traces] for traces in (before, after))
    apart = max(max(first) - min(first), max(second) - min(second))
    counts = " before and ".join(quantity(len(traces[-1].kernels), "kernel") for traces in (before, after))
    chance = ", which is more than the change" if abs(min(first) - min(second)) <= apart else ""
    note = f"the shorter of {COMPILES} each, up to {duration(apart)} apart{chance}; {counts} after; result: {result}"
    gone = all(other.kind != verdict.kind for other in advise(after[-1]))
    return replace(verdict, proof=Proof("compile_seconds", min(first), min(second), gone, note))


@contextmanager
def _as_advised(trace: Trace, verdict: Verdict) -> Iterator[Changes]:
    """Let what is compiled inside the block be as a verdict on the compile says; gives what to change of the trace."""
    live = needs_live(trace, "advise(prove=True)")
    options = verdict.what_if.get("options")
    with ExitStack() as stack:
        stack.enter_context(changed_settings(verdict.what_if.get("settings", {})))
        if verdict.regions:
            stack.enter_context(compiled_once(live.call.function if isinstance(live, LiveFunction) else None, verdict.regions))
        yield what_if.with_options(trace, options) if options else {}


def _result(trace: Trace, limit: float) -> str:
    """Say whether a trace computes what eager does."""
    try:
        return what_if.judgement(trace.check(limit), "beside eager")[1]
    except (ExplorerError, NotImplementedError, RuntimeError) as error:
        return f"not checked: {error}"


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
