"""Join a profile with a trace: what each kernel and library call took, and what of the profile is neither. Pure.

Generated kernels are joined by their names, library calls by the operator around them and their order in a run. Nothing is
guessed: what is not clear has a row of its own that says why, and all rows together have the profile's time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from explorer.analysis.timing.launch_names import GraphLaunches, launches_of
from explorer.analysis.timing.runs import Launched, Run, runs_of
from explorer.analysis.timing.timeline import NONE, Timeline
from explorer.model.trace_data import TraceData
from explorer.stages.torch_compile.profile import CALL, KERNEL, UNJOINED, Profile, ProfiledPart

OUTSIDE = "outside of the compiled functions"
INSIDE = "in a compiled function, but matches no kernel or library call of the trace"
NO_CPP_NAMES = (
    "in a compiled function; a profile has C++ kernels only where they were compiled with "
    "options={'cpp.enable_kernel_profile': True}"
)
NO_GRAPH = "no graph of the trace launches what this run launched"
SEVERAL = "several graphs of the trace have a kernel of this name: {places}"
OTHER_COUNT = "a run calls {name} {given} times, the output code {expected} times"


@dataclass
class _Sum:
    """What the launches of one kernel or call add up to."""

    kind: str
    graph: GraphLaunches
    name: str
    events: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0
    runs: dict[int, list[float]] = field(default_factory=dict)
    idle: float = 0.0
    launches: int = 0


def joined(trace: TraceData, timeline: Timeline) -> Profile:
    """Join a profile with a trace into the rows of `t.profile.table`, the longest first."""
    sums: dict[tuple[int, str], _Sum] = {}
    others: dict[tuple[str, str], list[float]] = {}
    graphs = launches_of(trace)
    runs = runs_of(timeline, graphs)
    for run in runs:
        why_not = _join_run(run, graphs, sums, timeline)
        for name, seconds, launches, why in (*why_not, *_others(run)):
            total = others.setdefault((name, why), [0.0, 0])
            total[0] += seconds
            total[1] += launches
    run_counts = Counter(id(run.graph) for run in runs if run.graph is not None)
    parts = [_part(each, run_counts[id(each.graph)], timeline) for each in sums.values()]
    parts += [_unjoined(name, why, seconds, int(launches)) for (name, why), (seconds, launches) in others.items()]
    parts.sort(key=lambda part: -part.seconds)
    of = "device" if timeline.gpu else "CPU"
    seconds = sum(part.seconds for part in parts)
    return Profile(source=timeline.source, device=timeline.device, of=of, seconds=seconds, rows=tuple(parts))


def _others(run: Run) -> Iterator[tuple[str, float, int, str]]:
    """What of a run is neither kernel nor call: name, seconds, launches and why."""
    cpp = run.graph is not None and run.graph.language == "cpp"
    nothing = cpp and not any(each.is_kernel for each in run.launched)
    why = OUTSIDE if run.region == NONE else NO_CPP_NAMES if nothing else INSIDE
    for span, seconds in run.others:
        yield span.name, seconds, span.launches, why


def _join_run(
    run: Run, graphs: Sequence[GraphLaunches], sums: dict[tuple[int, str], _Sum], timeline: Timeline
) -> Iterator[tuple[str, float, int, str]]:
    """Add what a run launched to the sums; yield what could not be joined: name, seconds, launches and why."""
    _, counts = run.names()
    called: Counter[str] = Counter()
    gaps = _gaps(run, timeline)
    unjoined: list[tuple[str, float, int, str]] = []
    for number, launched in enumerate(run.launched):
        graph, why = _place(run, launched, graphs)
        if graph is not None and not launched.is_kernel and (why := _other_count(graph, launched.name, counts)):
            graph = None
        if graph is None:
            unjoined += [(span.name, span.seconds, span.launches, why) for span in launched.spans]
            continue
        name = graph.kernels[launched.name] if launched.is_kernel else graph.calls[launched.name][called[launched.name]]
        called[launched.name] += 1
        total = sums.setdefault((id(graph), name), _Sum(KERNEL if launched.is_kernel else CALL, graph, name))
        total.events.update(dict.fromkeys(span.name for span in launched.spans))
        total.seconds += launched.seconds
        total.launches += sum(span.launches for span in launched.spans) if launched.is_kernel else 1
        total.runs.setdefault(run.region, []).append(launched.seconds)
        total.idle += gaps[number]
    yield from unjoined


def _place(run: Run, launched: Launched, graphs: Sequence[GraphLaunches]) -> tuple[GraphLaunches | None, str]:
    """The graph that a kernel or call is of, or why that is not known."""
    if run.graph is not None:
        return run.graph, ""
    if not launched.is_kernel:
        return None, NO_GRAPH
    having = [graph for graph in graphs if launched.name in graph.kernels]
    if run.region != NONE and len(having) != 1:
        return None, NO_GRAPH
    if len(having) == 1:
        return having[0], ""
    return None, SEVERAL.format(places=", ".join(f"{graph.frame}:{graph.graph}" for graph in having))


def _other_count(graph: GraphLaunches, name: str, counts: Counter[str]) -> str:
    """Say that a run calls an operator more or less often than the output code does; "" where it does not."""
    expected = len(graph.calls.get(name, ()))
    return "" if counts[name] == expected else OTHER_COUNT.format(name=name, given=counts[name], expected=expected)


def _gaps(run: Run, timeline: Timeline) -> list[float]:
    """How long the device did nothing between each launch of a run and the one before it; 0 for the first, and on the CPU."""
    gaps: list[float] = []
    end: float | None = None
    for launched in run.launched:
        begin = min(span.start for span in launched.spans)
        gaps.append(max(0.0, begin - end) if end is not None and timeline.timed and run.region != NONE else 0.0)
        end = max([*([end] if end is not None else []), *(span.start + span.seconds for span in launched.spans)])
    return gaps


def _part(total: _Sum, runs: int, timeline: Timeline) -> ProfiledPart:
    """Return the row of a kernel or call; without spans for the runs, their number is its launches by those of one run."""
    a_run = total.graph.times.get(total.name) or 1
    counts = {len(seconds) for region, seconds in total.runs.items() if region != NONE}
    whole = len(counts) == 1 and NONE not in total.runs
    each = tuple(map(sum, zip(*total.runs.values(), strict=True))) if whole else ()
    return ProfiledPart(
        frame=total.graph.frame,
        graph=total.graph.graph,
        name=total.name,
        kind=total.kind,
        nodes=total.graph.nodes.get(total.name, ()),
        events=tuple(total.events),
        launches=total.launches,
        seconds=total.seconds,
        runs=runs or max(1, round(total.launches / a_run)),
        each=each,
        idle=total.idle if timeline.gpu and timeline.timed else None,
        why="",
    )


def _unjoined(name: str, why: str, seconds: float, launches: int) -> ProfiledPart:
    return ProfiledPart(
        frame="",
        graph="",
        name="",
        kind=UNJOINED,
        nodes=(),
        events=(name,),
        launches=launches,
        seconds=seconds,
        runs=0,
        each=(),
        idle=None,
        why=why,
    )


__all__ = ["joined"]
