"""Advise: every verdict on a trace that weighs, the costliest first. Pure.

A verdict weighs if it costs at least `LEAST_SHARE` of a call and `LEAST_SECONDS`. Recompiles are paid once; they are listed
wherever one function was compiled again more than once. Verdicts may overlap: what two of them cost is not what both cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from explorer.advice import accesses, copies, dtypes, dynamo, launches, movement, operators, resources
from explorer.advice.verdicts import Advice, Verdict
from explorer.advice.whole import LEAST_SECONDS, LEAST_SHARE, Whole
from explorer.model.trace_data import TraceData
from explorer.questions.cells import cells_of

#: What is asked, in the order in which verdicts of the same cost are listed.
CHECKS: tuple[Callable[[Whole], Iterator[Verdict]], ...] = (
    dynamo.breaks,
    dynamo.recompiles,
    launches.cuda_graphs,
    launches.launch_bound,
    dtypes.float64,
    movement.scores,
    copies.layouts,
    copies.casts,
    movement.fusions,
    movement.realized,
    accesses.uncoalesced,
    resources.spills,
    resources.idle,
    resources.scalar,
    operators.fallbacks,
    operators.precision,
    operators.hints,
)


def advise(trace: TraceData) -> Advice:
    """List the verdicts on a trace: see `Trace.advise`."""
    whole = Whole(trace)
    answers = [_asked(check, whole) for check in CHECKS]
    found = (verdict for verdicts, _ in answers for verdict in verdicts)
    weighed = (replace(verdict, share=_share(verdict, whole)) for verdict in found)
    cells = cells_of(trace)
    ranked = sorted(
        filter(_weighs, (_in_cells(verdict, cells) for verdict in weighed)), key=lambda verdict: -verdict.cost.seconds
    )
    failures = "".join(f" {failure}" for _, failure in answers if failure)
    return Advice(tuple(ranked), whole.seconds, f"{whole.about}{failures}", str(trace.meta.get("name", "")))


def _asked(check: Callable[[Whole], Iterator[Verdict]], whole: Whole) -> tuple[list[Verdict], str]:
    """Ask for verdicts of one kind; where explorer itself fails there are none, and what failed is said."""
    try:
        return list(check(whole)), ""
    except Exception as error:  # noqa: BLE001 a trace that one check cannot read still has the others, and its view
        return [], f"Not asked about {check.__name__}: {type(error).__name__}: {error}."


def _in_cells(verdict: Verdict, cells: Mapping[str, str]) -> Verdict:
    """Name the cells of a notebook in place of the temporary files that stand for them."""
    return replace(verdict, lines=tuple(replace(line, file=cells.get(line.file, line.file)) for line in verdict.lines))


def _share(verdict: Verdict, whole: Whole) -> float:
    return verdict.cost.seconds / whole.seconds if whole.seconds else 0.0


def _weighs(verdict: Verdict) -> bool:
    if verdict.cost.once is not None:
        return True
    return verdict.share >= LEAST_SHARE and verdict.cost.seconds >= LEAST_SECONDS


__all__ = ["CHECKS", "advise"]
