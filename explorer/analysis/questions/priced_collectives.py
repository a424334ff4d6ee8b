"""The collectives of a trace with their price: the bytes that a rank sends, the seconds of a ring, and what hides them. Pure.

The seconds are an estimate from NCCL's latencies and the interconnect of the named GPU, see `gpus/interconnect.py`. What runs
on the GPU between the start and the wait hides them: both are laid out on the streams of a GPU, see `streams.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TypedDict

from explorer.analysis.questions.collectives import CollectiveRow, collective_rows, eager_rows, is_collective, is_wait
from explorer.analysis.questions.costs import call_rows, kernel_rows
from explorer.analysis.questions.hook_overlap import (
    exposed_seconds,
    graphs_beside,
    kernels_of_graphs,
    last_step,
    seconds_of_graphs,
)
from explorer.analysis.questions.launch_sites import Site, sites
from explorer.analysis.questions.streams import Laid, Work, laid_out
from explorer.analysis.questions.target import compiled_for
from explorer.model.records import typed
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import Artifact, Table, once
from explorer.model.wording import quantity
from explorer.reference.gpus.interconnect import (
    FORMULA,
    HOST,
    INTERCONNECTS,
    MEASURED_LINK,
    MEASURED_ON,
    Interconnect,
    seconds_of_collective,
    sent_by_each,
)
from explorer.stages.torch_compile.eager_collective import EagerCollectives, line_of
from explorer.stages.torch_compile.run_times import ExchangeTime, RunTimes

ESTIMATED = (
    "estimated: the bytes of a ring ({formula}) over {title}, {rate:.4g} GB/s in one direction ({source}), with the latency and "
    "the share of that rate of {measured}{unmeasured}; without what a switch adds up"
)
UNMEASURED = ", where more ranks or other links were not measured"
NO_LINK = (
    "no estimate: what connects GPUs of {target!r} is not known here; explorer.Cluster(…, interconnect=…) states it in bytes/s"
)
NO_SIZE = "no estimate: the bytes or the number of ranks are not known before the run"
TOO_MANY = (
    "no estimate: a group of {size} is larger than the {gpus} GPUs that {title} connects in a host ({host}), and what connects "
    "hosts is not known here; explorer.Cluster(…, interconnect=…) states it in bytes/s"
)
MEASURED = "measured: the median of {runs} in {source}"
NO_FORMULA = "no estimate: {operator} has no formula here"


#: The seconds of a library call or launch by frame, graph, name, and how many of the name came before; -1 for each.
Costs = Mapping[tuple[str, str, str, int], float | None]


class PricedRow(CollectiveRow):
    """A row of `t.collectives.table`: `CollectiveRow` and its price.

    `sent` are the bytes that each rank sends in a ring, `seconds` how long the collective takes once all ranks have started, None
    where not known; `seconds_known` is the source, or why not. For a collective outside of the graphs that a profile has,
    `seconds` are the measured median of its runs, waits for late ranks included, and `exposed` the median of the parts during
    which the GPU ran no other kernel. `meanwhile` are the estimated seconds of what runs between start
    and wait, None where one of it is not known. `exposed` is how long its wait holds the kernels after it, in seconds, also while
    an earlier collective runs; work that hides several collectives counts once. Outside of the graphs it is estimated without
    a profile too, from the last step: see `hook_overlap.py`; there `between` and `meanwhile` are those of the graphs that can run
    beside it, also with a profile.
    """

    sent: float | None
    seconds: float | None
    seconds_known: str
    meanwhile: float | None
    exposed: float | None


class OverlapRow(TypedDict):
    """What a wrapper starts on the GPU, or waits for there, a row of `overlap`.

    `stream` is "compute", "communication" or "wait", `name` the kernel's, the library call's or the collective's operator;
    `group` and `node` are the collective's process group and FX node, "" for what computes. `begins` are seconds from the first
    one on, `seconds` how long it takes, of a wait how long the kernels after it are held; None where not known. `line` is one
    of `wrapper`.
    """

    frame: str
    graph: str
    stream: str
    name: str
    group: str
    node: str
    begins: float | None
    seconds: float | None
    wrapper: str
    line: int


def priced_collectives(trace: TraceData) -> Table:
    """List the collectives of every graph, then those sent outside of them, with their price: see `PricedRow`."""
    rows = (dict(row) for row in priced_rows(trace))
    return Table(rows, {**CollectiveRow.__annotations__, **PricedRow.__annotations__})


@once
def priced_rows(trace: TraceData) -> tuple[PricedRow, ...]:
    """The rows of `priced_collectives`."""
    costs = _costs(trace)
    stalled = {(row["wrapper"], row["node"]): row["seconds"] for row in _overlap_rows(trace) if row["stream"] == "wait"}
    inside = (_priced(trace, row, costs, stalled) for row in collective_rows(trace))
    return (*inside, *(_measured(trace, row) for row in estimated_hooks(trace)))


@once
def estimated_hooks(trace: TraceData) -> tuple[PricedRow, ...]:
    """The rows of what was sent outside of the graphs, with their estimates, also where a profile has measured times."""
    estimated: list[PricedRow] = []
    for artifact in trace.find("eager_collective"):
        rows = [_priced(trace, row, {}, {}) for row in eager_rows(trace) if row["artifact"] == artifact.id]
        prices = {number: row["seconds"] for number, row in enumerate(rows)}
        data, seconds, kernels = typed(EagerCollectives, artifact.data), seconds_of_graphs(trace), kernels_of_graphs(trace)
        exposed, beside = exposed_seconds(data, seconds, prices), graphs_beside(data)
        for number, row in enumerate(rows):
            places = [(graph.frame, graph.graph, graph.number) for graph in beside.get(number, ())]
            names = tuple(dict.fromkeys(name for place in places for name in kernels.get(place, ())))
            known = [each for place in places if (each := seconds.get(place)) is not None]
            meanwhile = sum(known, 0.0) if number in beside and len(known) == len(places) else None
            estimated.append({**row, "between": names, "meanwhile": meanwhile, "exposed": exposed.get(number)})
    return tuple(estimated)


def exposed_in_step(trace: TraceData) -> float | None:
    """Add up what nothing hides of the collectives of hooks in the last step, in seconds; None where one is not known."""
    each = [exposed for artifact in trace.find("eager_collective") for exposed in _exposed_in_step(trace, artifact)]
    known = [one for one in each if one is not None]
    return sum(known) if known and len(known) == len(each) else None


def _exposed_in_step(trace: TraceData, artifact: Artifact) -> Iterator[float | None]:
    rows = {row["started"]: row for row in priced_rows(trace) if row["artifact"] == artifact.id}
    step = last_step(typed(EagerCollectives, artifact.data))
    yield from (rows[line_of(number)]["exposed"] for number in step if number >= 0)


def _measured(trace: TraceData, row: PricedRow) -> PricedRow:
    """A row of a collective outside of the graphs with the times of a profile, if there is one that has it."""
    profiles = trace.find("run_times")
    if not profiles:
        return row
    times = typed(RunTimes, profiles[-1].data)
    every = [one for one in times.exchanges if (one.artifact, one.line) == (row["artifact"], row["started"])]
    runs: list[ExchangeTime] = [one for one in every if one.run] or every  # those that no compile delayed
    seconds = [one.seconds for one in runs if one.seconds is not None]
    if not seconds or len(seconds) < len(runs):
        return row
    exposed = [one.seconds - one.overlapped for one in runs if one.seconds is not None and one.overlapped is not None]
    known = MEASURED.format(runs=quantity(len(runs), "run"), source=times.source)
    return {**row, "seconds": median(seconds), "seconds_known": known, "exposed": median(exposed) if exposed else None}


def overlap(trace: TraceData) -> Table:
    """Lay out the kernels, library calls, collectives and waits of each graph that has a collective: see `OverlapRow`."""
    return Table((dict(row) for row in _overlap_rows(trace)), OverlapRow.__annotations__)


@once
def _overlap_rows(trace: TraceData) -> tuple[OverlapRow, ...]:
    wrappers: dict[str, list[CollectiveRow]] = {}
    for row in collective_rows(trace):
        if row["wrapper"] and row["started"] is not None:
            wrappers.setdefault(row["wrapper"], []).append(row)
    costs = _costs(trace)
    return tuple(laid for wrapper, rows in wrappers.items() for laid in _laid_out(trace, wrapper, rows, costs))


def _laid_out(trace: TraceData, wrapper: str, rows: Sequence[CollectiveRow], costs: Costs) -> Iterator[OverlapRow]:
    """The rows of one wrapper, in the order of its lines."""
    started = {row["started"]: number for number, row in enumerate(rows)}
    waited = {row["waited"]: number for number, row in enumerate(rows) if row["waited"] is not None}
    found = [
        site for site in sites(artifact_of(trace, wrapper)) if site.line in started or site.line in waited or _computes(site)
    ]
    works = [_work(trace, site, rows, costs, started.get(site.line), waited.get(site.line)) for site in found]
    for site, work, laid in zip(found, works, laid_out(works), strict=True):
        yield _overlap_row(wrapper, rows, site, work, laid)


def _overlap_row(wrapper: str, rows: Sequence[CollectiveRow], site: Site, work: Work, laid: Laid) -> OverlapRow:
    number = work.starts if work.starts is not None else work.waits
    of = rows[number if number is not None else 0]
    stream = "communication" if work.starts is not None else "wait" if work.waits is not None else "compute"
    return {
        "frame": of["frame"],
        "graph": of["graph"],
        "stream": stream,
        "name": of["operator"] if number is not None else site.name,
        "group": of["group"] if number is not None else "",
        "node": of["node"] if number is not None else "",
        "begins": laid.begins,
        "seconds": laid.stalled if stream == "wait" else work.seconds,
        "wrapper": wrapper,
        "line": site.line,
    }


def _work(
    trace: TraceData,
    site: Site,
    rows: Sequence[CollectiveRow],
    costs: Costs,
    started: int | None,
    waited: int | None,
) -> Work:
    if started is not None:
        return Work(_price(trace, rows[started])[1], starts=started, group=rows[started]["group"])
    if waited is not None:
        return Work(waits=waited)
    return Work(_seconds_of(site, rows[0]["frame"], rows[0]["graph"], costs))


def _computes(site: Site) -> bool:
    return not is_collective(site.name) and not is_wait(site.name)


def _seconds_of(site: Site, frame: str, graph: str, costs: Costs) -> float | None:
    """The seconds of a kernel's launch or a library call; None where not known."""
    return costs.get((frame, graph, site.name, site.occurrence if site.is_library else -1))


def interconnect_of(trace: TraceData) -> Interconnect | None:
    """Find the interconnect of the GPUs that a trace was made for: the one that the cluster states, else the named GPU's."""
    stated = trace.meta.get("interconnect")
    if stated:
        known = INTERCONNECTS.get(compiled_for(trace).name)
        gpus = known.gpus if known and known.source == stated["source"] else 0
        return Interconnect(stated["title"], stated["bandwidth"], stated["source"], stated["peers"], gpus)
    return INTERCONNECTS.get(compiled_for(trace).name)


def _price(trace: TraceData, row: CollectiveRow) -> tuple[float | None, float | None]:
    """The bytes that each rank sends, and their seconds; None where not known."""
    link, size, bytes = interconnect_of(trace), row["size"], row["bytes"]
    sent = sent_by_each(row["operator"], size, bytes) if size and bytes is not None else None
    if size is None or bytes is None or link is None or not link.connects(size):
        return sent, None
    return sent, seconds_of_collective(link, row["operator"], size, bytes)


def _priced(
    trace: TraceData,
    row: CollectiveRow,
    costs: Costs,
    stalled: Mapping[tuple[str, str], float | None],
) -> PricedRow:
    sent, seconds = _price(trace, row)
    meanwhile = _meanwhile(trace, row, costs)
    exposed = stalled.get((row["wrapper"], row["node"])) if seconds is not None else None
    known = _source(trace, row, interconnect_of(trace), sent)
    return {**row, "sent": sent, "seconds": seconds, "seconds_known": known, "meanwhile": meanwhile, "exposed": exposed}


def _source(trace: TraceData, row: CollectiveRow, link: Interconnect | None, sent: float | None) -> str:
    """Say where the seconds are from, or why there are none."""
    if row["size"] is None or row["bytes"] is None:
        return NO_SIZE
    if sent is None:
        return NO_FORMULA.format(operator=row["operator"])
    if link is None:
        return NO_LINK.format(target=compiled_for(trace).name)
    if not link.connects(row["size"]):
        return TOO_MANY.format(size=row["size"], gpus=link.gpus, title=link.title, host=HOST)
    unmeasured = UNMEASURED if row["size"] > 2 or link.title != MEASURED_LINK else ""
    rate = link.rate(row["size"]) / 1e9
    words = {"source": link.source, "formula": FORMULA, "measured": MEASURED_ON, "unmeasured": unmeasured}
    return ESTIMATED.format(title=link.title, rate=rate, **words)


@once
def _costs(trace: TraceData) -> Costs:
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


def _meanwhile(trace: TraceData, row: CollectiveRow, costs: Costs) -> float | None:
    """Add up what runs between a collective's start and its wait; None where one of it is not known."""
    if not row["wrapper"] or row["waited"] is None:
        return None
    seconds = list(_seconds_between(trace, row, costs))
    known = [one for one in seconds if one is not None]
    return sum(known) if len(known) == len(seconds) else None


def _seconds_between(trace: TraceData, row: CollectiveRow, costs: Costs) -> Iterator[float | None]:
    for site in sites(artifact_of(trace, row["wrapper"])):
        if (row["started"] or 0) < site.line < (row["waited"] or 0) and _computes(site):
            yield _seconds_of(site, row["frame"], row["graph"], costs)


__all__ = ["OverlapRow", "PricedRow", "exposed_in_step", "interconnect_of", "overlap", "priced_collectives", "priced_rows"]
