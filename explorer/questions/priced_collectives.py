"""The collectives of a trace with their price: the bytes that a rank sends, the seconds of a ring, and what hides them. Pure.

The seconds are an estimate: a ring at the full rate of the interconnect of the named GPU, see `gpus/interconnect.py`. What runs
on the GPU between the start and the wait hides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.gpus.interconnect import FORMULA, HOST, INTERCONNECTS, Interconnect, sent_by_each
from explorer.model.trace_data import TraceData
from explorer.model.values import Rows
from explorer.questions.collectives import CollectiveRow, collective_rows, is_collective, is_wait
from explorer.questions.costs import call_rows, kernel_rows
from explorer.questions.launch_sites import sites

ESTIMATED = (
    "estimated, not measured: a ring at the full rate of {title}, {rate:.4g} GB/s in one direction ({source}), by {formula}; "
    "without latency, and without what a switch adds up"
)
NO_LINK = (
    "no estimate: what connects GPUs of {target!r} is not known here; explorer.Cluster(…, interconnect=…) states it in bytes/s"
)
NO_SIZE = "no estimate: the bytes or the number of ranks are not known before the run"
TOO_MANY = (
    "no estimate: a group of {size} is larger than the {gpus} GPUs that {title} connects in a host ({host}), and what connects "
    "hosts is not known here; explorer.Cluster(…, interconnect=…) states it in bytes/s"
)
NO_FORMULA = "no estimate: {operator} has no formula here"


class PricedRow(CollectiveRow):
    """A row of `Trace.collectives`: `CollectiveRow` and its price.

    `sent` are the bytes that each rank sends in a ring, `seconds` their time at the rate of the interconnect, None where it is
    not known; `seconds_known` is the source, or why not. `meanwhile` are the estimated seconds of what runs between start and
    wait, None where one of it is not known, and `exposed` what is left of `seconds`.
    """

    sent: float | None
    seconds: float | None
    seconds_known: str
    meanwhile: float | None
    exposed: float | None


def priced_collectives(trace: TraceData) -> Rows:
    """List the collectives of every graph with their price: see `PricedRow`."""
    costs = _costs(trace)
    rows = (_priced(trace, row, costs) for row in collective_rows(trace))
    return Rows((dict(row) for row in rows), {**CollectiveRow.__annotations__, **PricedRow.__annotations__})


def interconnect_of(trace: TraceData) -> Interconnect | None:
    """Find what connects the GPUs that a trace was made for: as the cluster states it, else that of the named GPU."""
    stated = trace.meta.get("interconnect")
    if stated:
        known = INTERCONNECTS.get(str(trace.meta.get("target")))
        gpus = known.gpus if known and known.source == stated["source"] else 0
        return Interconnect(stated["title"], stated["bandwidth"], stated["source"], stated["peers"], gpus)
    return INTERCONNECTS.get(str(trace.meta.get("target")))


def _priced(trace: TraceData, row: CollectiveRow, costs: Mapping[tuple[str, str, str, int], float | None]) -> PricedRow:
    link, size, bytes = interconnect_of(trace), row["size"], row["bytes"]
    sent = sent_by_each(row["operator"], size, bytes) if size and bytes is not None else None
    seconds = sent / link.rate(size) if sent is not None and link and size and link.connects(size) else None
    meanwhile = _meanwhile(trace, row, costs)
    exposed = max(0.0, seconds - meanwhile) if seconds is not None and meanwhile is not None else None
    known = _source(trace, row, link, sent)
    return {**row, "sent": sent, "seconds": seconds, "seconds_known": known, "meanwhile": meanwhile, "exposed": exposed}


def _source(trace: TraceData, row: CollectiveRow, link: Interconnect | None, sent: float | None) -> str:
    """Say where the seconds are from, or why there are none."""
    if row["size"] is None or row["bytes"] is None:
        return NO_SIZE
    if sent is None:
        return NO_FORMULA.format(operator=row["operator"])
    if link is None:
        return NO_LINK.format(target=trace.meta.get("target"))
    if not link.connects(row["size"]):
        return TOO_MANY.format(size=row["size"], gpus=link.gpus, title=link.title, host=HOST)
    return ESTIMATED.format(title=link.title, rate=link.rate(row["size"]) / 1e9, source=link.source, formula=FORMULA)


def _costs(trace: TraceData) -> dict[tuple[str, str, str, int], float | None]:
    """The seconds of each library call and launch by frame, graph, name, and how many of the name came before; -1 for each."""
    costs: dict[tuple[str, str, str, int], float | None] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for call in call_rows(trace):
        place = (call["frame"], call["graph"], call["call"])
        counts[place] = counts.get(place, -1) + 1
        costs[(*place, counts[place])] = call["seconds"]
    for kernel in kernel_rows(trace):
        seconds, launches = kernel["seconds"], kernel["launches"]
        costs[kernel["frame"], kernel["graph"], kernel["kernel"], -1] = seconds / launches if seconds and launches else seconds
    return costs


def _meanwhile(trace: TraceData, row: CollectiveRow, costs: Mapping[tuple[str, str, str, int], float | None]) -> float | None:
    """Add up what runs between a collective's start and its wait; None where one of it is not known."""
    if not row["wrapper"] or row["waited"] is None:
        return None
    seconds = list(_seconds_between(trace, row, costs))
    known = [one for one in seconds if one is not None]
    return sum(known) if len(known) == len(seconds) else None


def _seconds_between(
    trace: TraceData, row: CollectiveRow, costs: Mapping[tuple[str, str, str, int], float | None]
) -> Iterator[float | None]:
    for site in sites(trace.artifact(row["wrapper"])):
        if (row["started"] or 0) < site.line < (row["waited"] or 0) and not is_collective(site.name) and not is_wait(site.name):
            occurrence = site.occurrence if site.is_library else -1
            yield costs.get((row["frame"], row["graph"], site.name, occurrence))


__all__ = ["PricedRow", "interconnect_of", "priced_collectives"]
