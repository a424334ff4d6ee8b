"""Advise: every verdict on a trace that weighs, the costliest first. Pure.

A verdict weighs if it costs at least `MIN_SHARE` of a call and `MIN_SECONDS`. Recompiles are paid once; they are listed
wherever one function was compiled again more than once. Graph breaks are always listed, because their cost is mostly what
they keep from being fused. Verdicts may overlap: what two of them cost is not what both cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from explorer.analysis.advice import (
    accesses,
    compiling,
    copies,
    counted,
    dtypes,
    dynamo,
    hooks,
    launches,
    measured_call,
    movement,
    operators,
    resources,
)
from explorer.analysis.advice.call_cost import LAUNCH, MIN_SECONDS, MIN_SHARE, TracedCall
from explorer.analysis.advice.verdicts import Advice, Check, Verdict
from explorer.analysis.questions.cells import cells_of
from explorer.analysis.questions.user_lines import user_lines_at
from explorer.model.trace_data import TraceData
from explorer.process import plugins

#: What is asked, in the order in which verdicts of the same cost are listed.
CHECKS: tuple[Callable[[TracedCall], Iterator[Verdict]], ...] = (
    dynamo.stopped,
    dynamo.breaks,
    dynamo.recompiles,
    dynamo.each_call,
    measured_call.dominant,
    launches.cuda_graphs,
    launches.recorded_again,
    launches.launch_bound,
    hooks.exposed,
    dtypes.float64,
    movement.scores,
    copies.layouts,
    copies.casts,
    movement.fusions,
    movement.realized,
    accesses.uncoalesced,
    accesses.random_reads,
    accesses.strided_scans,
    counted.counted,
    resources.spills,
    resources.idle,
    resources.scalar,
    operators.fallbacks,
    operators.precision,
    operators.unaligned,
    operators.hints,
    compiling.repeated_blocks,
    compiling.slow_autotuning,
    compiling.caches_off,
    compiling.one_thread,
    compiling.slow_kernel,
)

#: Kinds that are listed whatever they cost.
LISTED = frozenset({"graph break", "compile failed"})

#: Kinds that cost launches, or the program's own time; all others cost work of the GPU.
LAUNCHED = frozenset(
    {"graph break", "recompiles", "CUDA graphs skipped", launches.AGAIN, "launch bound", hooks.KIND, *measured_call.KINDS}
)


def advise(trace: TraceData) -> Advice:
    """List the verdicts on a trace: see `Trace.advise`."""
    return advise_on(TracedCall(trace))


def advise_on(traced: TracedCall) -> Advice:
    """List the verdicts on a call whose launches may have been read already."""
    trace = traced.trace
    plugged = plugins.brought(plugins.CHECKS, Check)
    answers = [_asked(check, traced) for check in CHECKS]
    answers += [_asked(partial(_of_plugin, check), traced, check.name) for check in plugged.values]
    answers += [([], f"{failure.message}.") for failure in plugged.failures]
    found = [verdict for verdicts, _ in answers for verdict in verdicts]
    weighty = list(filter(_weighs, _shared(found, traced)))
    cells = cells_of(trace)
    ranked = sorted(
        (_in_cells(verdict, cells) for verdict in _shared(weighty, traced)),
        key=lambda verdict: (-verdict.saved, -verdict.cost.seconds),  # what is hidden saves nothing alone
    )
    if traced.unread and not traced.launches:
        ranked = [replace(verdict, share=0.0) for verdict in ranked]
    beyond = _beyond(ranked)
    failures = "".join(f" {failure}" for _, failure in answers if failure)
    told = traced.about(beyond) if traced.launches or not traced.unread else ""
    about = " ".join(part for part in (traced.unread, told) if part)
    name, is_whole = str(trace.meta.get("name", "")), traced.measured is not None
    return Advice(tuple(ranked), traced.seconds + beyond, f"{about}{failures}", name, traced.unread, is_whole)


def _asked(check: Callable[[TracedCall], Iterator[Verdict]], traced: TracedCall, name: str = "") -> tuple[list[Verdict], str]:
    """Ask for verdicts of one kind; if the check fails there are none, and a sentence says so."""
    try:
        return list(check(traced)), ""
    except Exception as error:  # noqa: BLE001 a trace that one check cannot read still has the others, and its view
        return [], f"Not asked about {name or check.__name__}: {type(error).__name__}: {error}."


def _of_plugin(check: Check, traced: TracedCall) -> Iterator[Verdict]:
    """The verdicts of a plug-in's check, each with the user lines of its places."""
    for verdict in check.ask(traced.trace):
        if not isinstance(verdict, Verdict):
            raise TypeError(f"a check yields Verdicts, not {type(verdict).__name__}")
        lines = [line for place in verdict.places for line in user_lines_at(traced.trace, *place)]
        yield replace(verdict, lines=verdict.lines or tuple(dict.fromkeys(lines)))


def _in_cells(verdict: Verdict, cells: Mapping[str, str]) -> Verdict:
    """Name the cells of a notebook in place of the temporary files that stand for them."""
    return replace(verdict, lines=tuple(replace(line, file=cells.get(line.file, line.file)) for line in verdict.lines))


def _beyond(verdicts: Iterable[Verdict]) -> float:
    """Sum the seconds that verdicts add to the estimate of a call."""
    return sum(verdict.cost.seconds for verdict in verdicts if verdict.cost.beyond)


def _shared(verdicts: Sequence[Verdict], traced: TracedCall) -> list[Verdict]:
    """Return verdicts with what they save, and their shares of a call that takes longer by what they add to it."""
    beyond, shared = _beyond(verdicts), []
    for verdict in verdicts:
        each = replace(verdict, saves=_saves(verdict, traced, beyond))
        whole = (traced.device if each.is_hidden else traced.seconds) + beyond
        shared.append(replace(each, share=_share(each, each.cost.seconds if each.is_hidden else each.saved, whole)))
    return shared


def _saves(verdict: Verdict, traced: TracedCall, beyond: float) -> float | None:
    """Return how much shorter a call gets without a verdict's work; None where it gets shorter by all of it.

    A call takes the longer of its work and its launches, so it gets no shorter than its launches.
    """
    cost = verdict.cost
    if verdict.kind in LAUNCHED or cost.once is not None or not traced.host:
        return None
    saved = max(0.0, traced.device + beyond - traced.host) + LAUNCH * cost.launches
    if saved >= cost.seconds or (saved and traced.measured is not None):  # the launches of a measured call are not assumed
        return None
    return saved


def _share(verdict: Verdict, seconds: float, whole: float) -> float:
    """Return the part that seconds of a verdict are of the whole; none for what is paid once, which no call takes."""
    if not whole or verdict.cost.once is not None:
        return 0.0
    return min(seconds / whole, 1.0)


def _weighs(verdict: Verdict) -> bool:
    if verdict.cost.once is not None or verdict.kind in LISTED:
        return True
    share = verdict.share * verdict.cost.seconds / (verdict.saved or verdict.cost.seconds or 1.0)  # that of the cost
    return share >= MIN_SHARE and verdict.cost.seconds >= MIN_SECONDS


__all__ = ["CHECKS", "advise", "advise_on"]
