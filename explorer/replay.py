"""replay: recorded events become a Trace. Pure: no torch, the same events give the same Trace anywhere.

events → renumber frames → gather (several events, one artifact) → render → link
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from explorer.model.stage import Stage
from explorer.model.trace_data import TraceData, merged
from explorer.model.values import Artifact, Event, Failure, Link, Plain, plain
from explorer.stages import STAGES
from explorer.stages.cpp import assembly
from explorer.stages.dynamo.recompile import reasons
from explorer.stages.inductor.output_code import kernel_events
from explorer.stages.torch_compile.phase import intervals
from explorer.stages.triton import sass

T = TypeVar("T", bound=TraceData)
#: AOTAutograd's graphs are heard of twice: from its log, and with their nodes from Inductor. The richer one counts.
TWICE = ("joint", "forward", "backward")
#: Kinds whose events are the rows of one table a frame.
TABLES = ("symbol", "phase", "assumption", "cache", "cuda_graph", "perf_hint", "compilation_metrics", "setting", "written_file")
#: Of these, the ones whose rows are each of one graph.
OF_A_GRAPH = ("assumption", "cuda_graph", "perf_hint")
#: Stages with an artifact for each kernel, whose name is in the artifact's id.
PER_KERNEL = ("kernel", "ttir", "ttgir", "llir", "ptx", "amdgcn", "sass")


def replay(
    events: Sequence[Event],
    failures: Sequence[Failure] = (),
    meta: Mapping[str, Plain] | None = None,
    stages: Sequence[Stage] = STAGES,
) -> TraceData:
    """The Trace of recorded events. An error in a stage's `render` or `link` becomes a Failure of that stage."""
    failed = list(failures)

    def attempt(stage: str, step: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 rule 5: what one stage cannot render must not take the rest away
            failed.append(Failure(stage, step, f"{type(error).__name__}: {error}"))

    gathered: list[Event] = []
    seen = own_recompiles(events) if (meta or {}).get("fresh") else events
    attempt("replay", "gather", lambda: gathered.extend(gather(renumber(seen))))
    artifacts: list[Artifact] = []
    for stage in stages:
        attempt(stage.name, "kernels", lambda s=stage: gathered.extend(_derived(s, gathered)))  # type: ignore[misc]
        for event in [e for e in gathered if e.kind == stage.name]:
            id = new_id(event, artifacts)
            attempt(stage.name, "render", lambda s=stage, e=event, i=id: artifacts.append(timed(s, e, i, gathered)))  # type: ignore[misc]
    trace = TraceData(plain(meta or {}), tuple(artifacts), (), tuple(failed))
    links: list[Link] = []
    by_name = {stage.name: stage for stage in stages}
    for artifact in artifacts:
        attempt(artifact.stage, "link", lambda a=artifact: links.extend(by_name[a.stage].link(a, trace)))  # type: ignore[misc]
    return replace(trace, links=merged(links), failures=tuple(failed))


def with_assembly(trace: T, made: Sequence[Artifact]) -> T:
    """The trace with the assembly of more C++ kernels, and a Failure for each reason why inlined code is not linked."""
    whole = replace(trace, artifacts=(*trace.artifacts, *made))
    links = merged(link for a in made for link in assembly.link(a, whole))
    why = dict.fromkeys(Failure("assembly", "inlining", a.data["unlinked"]) for a in made if a.data["unlinked"])
    new = (failure for failure in why if failure not in trace.failures)
    return replace(whole, links=(*trace.links, *links), failures=(*trace.failures, *new))


def with_sass(trace: T, texts: Mapping[str, str], lines: Mapping[str, Sequence[int]] | None = None) -> T:
    """The trace with more SASS: `texts` maps the id of a PTX artifact to the SASS of its kernel.

    `lines` has, by the same id, the line of the PTX that each instruction was assembled from, where that is known.
    """
    known = lines or {}
    held = {(a.frame, a.graph, a.kernel) for a in trace.find("sass")}
    made: list[Artifact] = []
    for ptx in (trace.artifact(id) for id in texts):
        if (ptx.frame, ptx.graph, ptx.kernel) not in held:
            facts = {"name": ptx.kernel, "text": texts[ptx.id], "stage_seconds": None, "ptx_lines": known.get(ptx.id, ())}
            data = plain({**ptx.data, **facts})
            event = Event("sass", ptx.time, ptx.frame, ptx.graph, data, ptx.path)
            made.append(sass.render(event, new_id(event, (*trace.artifacts, *made))))
    last = max(n for n, a in enumerate(trace.artifacts, 1) if a.stage in ("ptx", "sass"))
    whole = replace(trace, artifacts=(*trace.artifacts[:last], *made, *trace.artifacts[last:]))
    return replace(whole, links=(*trace.links, *(link for a in made for link in sass.link(a, whole))))


def _derived(stage: Stage, events: Sequence[Event]) -> list[Event]:
    """The kernels that the output code defines, when their stage's turn comes."""
    if stage.name != "kernel":
        return []
    found = [kernel for event in events if event.kind == "output_code" for kernel in kernel_events(event)]
    return [_with_definitions(kernel, events) for kernel in found]


def _with_definitions(kernel: Event, events: Sequence[Event]) -> Event:
    """The kernel with what was recorded each time it was defined: once for each group of nodes that it computes."""
    key = (kernel.frame, kernel.graph, kernel.data["name"])
    found = [e.data for e in events if e.kind == "kernel_lines" and (e.frame, e.graph, e.data["name"]) == key]
    return replace(kernel, data=plain({**kernel.data, "definitions": found})) if found else kernel


def new_id(event: Event, artifacts: Iterable[Artifact]) -> str:
    """A readable id that no artifact has yet, such as "0/0:fx_pass:forward:3"."""
    parts = [event.frame or "-", event.kind, event.graph, str(event.data.get("name", "")) if event.kind in PER_KERNEL else ""]
    base = ":".join(p for p in parts if p)
    taken = sum(1 for a in artifacts if a.id == base or (a.id.startswith(f"{base}:") and a.id[len(base) + 1 :].isdigit()))
    return f"{base}:{taken + 1}" if taken else base


def timed(stage: Stage, event: Event, id: str, events: Sequence[Event]) -> Artifact:
    """The stage's artifact, with the seconds of the phases that the stage names."""
    artifact = stage.render(event, id)
    if artifact.seconds is not None or not stage.phases:
        return artifact
    return replace(artifact, seconds=seconds_of(stage.phases, event, events))


def seconds_of(phases: Sequence[str], event: Event, events: Sequence[Event]) -> float | None:
    """The total of the named phases in the event's frame and graph; None where none was timed."""
    timelines = (e for e in events if e.kind == "phase" and e.frame == event.frame)
    rows = [row for e in timelines for row in e.data["rows"] if row["name"] in phases and row["seconds"] is not None]
    exact = [row["seconds"] for row in rows if row["graph"] == event.graph]
    return sum(exact or [row["seconds"] for row in rows if not row["graph"]]) or None


# Gathering -----------------------------------------------------------------------------------------------------------


def own_recompiles(events: Sequence[Event]) -> list[Event]:
    """Without the recompiles of a frame that its trace compiled for the first time: the earlier ones are set aside."""
    frames = [event.frame for event in events]
    return [e for e in events if e.kind != "recompile" or any(r["earlier"] in frames for r in reasons(e.data["text"]))]


def renumber(events: Sequence[Event]) -> list[Event]:
    """The same events with frames counted from 0 in the order they began, and their recompiles likewise.

    The compiler counts over the whole process; a trace counts for itself, so that equal programs give equal traces.
    """
    names: dict[str, str] = {}
    compiles: dict[str, int] = {}
    for event in sorted(events, key=lambda e: e.time):
        if event.frame and event.frame not in names:
            frame = event.frame.rpartition("/")[0]
            number = compiles[frame] = compiles.get(frame, -1) + 1
            names[event.frame] = f"{list(compiles).index(frame)}/{number}"
    return [_renamed(event, names, len(compiles)) for event in events]


def _renamed(event: Event, names: Mapping[str, str], frames: int) -> Event:
    if not event.frame and event.data.get("not_compiled") is not None:
        return replace(event, frame=f"{frames + event.data['not_compiled']}/-")
    if event.kind == "recompile":
        rows = [{**row, "earlier": names.get(row["earlier"], row["earlier"])} for row in reasons(event.data["text"])]
        event = replace(event, data=plain({"rows": rows}))
    return replace(event, frame=names.get(event.frame, event.frame))


def gather(events: Sequence[Event]) -> Iterator[Event]:
    """One event an artifact: symbols, phases and assumptions of a frame become one table, a graph heard of twice one graph."""
    tables: dict[tuple[str, str], list[Event]] = {}
    graphs: dict[tuple[str, str, str], Event] = {}
    breaks: set[tuple[str, str]] = set()
    passes = [e for e in events if e.kind in ("fx_pass", "fx_pass_idle")]
    shown = {_place(e) for e in events if e.kind == "source" and not e.data.get("inlined")}
    for event in events:
        if event.kind in TABLES:
            tables.setdefault((event.kind, event.frame), []).append(event)
        elif event.kind in TWICE:
            key = (event.kind, event.frame, event.graph)
            if key not in graphs or (event.data.get("nodes") and not graphs[key].data.get("nodes")):
                graphs[key] = event
        elif event.kind == "graph_break":
            if (event.frame, event.data["text"]) not in breaks:
                breaks.add((event.frame, event.data["text"]))
                yield event
        elif event.kind == "autotune":
            yield _with_taken(event, events)
        elif event.kind == "fx_pass":
            yield _with_last(event, passes)
        elif event.kind != "frame" and not (event.data.get("inlined") and _place(event) in shown):
            shown |= {_place(event)} if event.kind == "source" else set()
            yield event
    yield from graphs.values()
    for (kind, _), group in tables.items():
        rows = list(intervals(group)) if kind == "phase" else once_each(kind, [_row(e) for e in group])
        yield replace(group[0], data=plain({"rows": rows}), graph="")


def once_each(kind: str, rows: Sequence[Mapping[str, Plain]]) -> list[Mapping[str, Plain]]:
    """The rows of a table, symbols once each: Dynamo makes them again whenever it begins a frame anew, as after a graph break.

    What it said last of one counts, in the place of what it said first.
    """
    if kind != "symbol":
        return list(rows)
    found: dict[tuple[Plain, ...], Mapping[str, Plain]] = {}
    for row in rows:
        key = (row["what"], *((row["symbol"], row["source"]) if row["what"] == "created" else (row["expr"],)))
        found[key] = row
    return list(found.values())


def _with_taken(event: Event, events: Sequence[Event]) -> Event:
    """An operation's choices with the one that was taken: that which a fusion settled on last, or else the fastest."""
    place, names = (event.frame, event.graph), [row["choice"] for row in event.data["choices"]]
    settled = [e.data for e in events if e.kind == "autotune_taken" and (e.frame, e.graph) == place and e.data["choice"] in names]
    last = settled[-1] if settled else {}
    rows = []
    for row in event.data["choices"]:
        taken = row["choice"] == last["choice"] if last else row["fastest"]
        rows.append({**row, "taken": taken, "why": row.get("why", "") or (last["why"] if last and taken else "")})
    return replace(event, data=plain({**event.data, "choices": rows}))


def _with_last(event: Event, passes: Sequence[Event]) -> Event:
    """A pass with those that ran after it and changed nothing, where it is the last of its round that changed something."""

    def round_of(e: Event) -> tuple[str, ...]:
        return e.frame, e.graph, str(e.data["section"]), str(e.data.get("of", ""))

    later = (e for e in passes[passes.index(event) + 1 :] if round_of(e) == round_of(event))
    after = next(later, None)
    if after is None or after.kind == "fx_pass":
        return event
    return replace(event, data=plain({**event.data, "idle_after": after.data["idle"]}))


def _row(event: Event) -> Mapping[str, Plain]:
    """An event as a row of its frame's table, with its graph where it is about one."""
    return {"graph": event.graph, **event.data} if event.kind in OF_A_GRAPH else event.data


def _place(event: Event) -> tuple[str, int]:
    """Where a function is defined."""
    return event.data.get("file", ""), event.data.get("first_line", 0)
