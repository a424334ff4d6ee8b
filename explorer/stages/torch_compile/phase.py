"""The compiler's own timed phases of one frame, as a timeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.stage import Frames, Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.gathering import by_frame, table_event

#: What the time outside of every named part is called.
OTHER = "other"
AUTOTUNING, KERNELS = "autotuning", "kernel compile"
#: The parts of a compile, each with the phases that the compiler times in it. Any other phase belongs to the one around it.
PARTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (part, re.compile(pattern))
    for part, pattern in (
        ("Dynamo", r"dynamo$|entire_frame_compile|compile_attempt_|bytecode_|build_guards|gc$"),
        ("caches", r"AOTAutogradCache|FxGraphCache|fx_graph_cache|CacheBase|inductor_codecache|TritonBundler"),
        ("AOTAutograd", r"create_aot_dispatcher|aot_|entire_backward_compile|backward\._backward_impl"),
        ("Inductor passes", r"_recursive_(pre_grad|joint_graph|post_grad)_passes|additional_fake_tensor_prop"),
        ("lowering", r"GraphLowering\.run"),
        ("scheduling", r"Scheduler\.__init__"),
        ("code generation", r"GraphLowering\.(compile_to|codegen)|code_gen$"),
        (AUTOTUNING, r".*(_template_(autotuning|precompiling)|benchmark_all_configs|coordinate_descent|_autotune)$"),
        (KERNELS, r"async_compile|CachingAutotuner|StaticAutotuner|reload_kernel|PyCodeCache|CppCodeCache|compile_file"),
        (OTHER, r"backend_compile|compile_fx\.|inductor_compile|fx_codegen_and_compile"),
    )
)


@record
class Phase(Record):
    """A phase that the compiler timed, in seconds since the recording began and of its own; None where it did not end.

    `cost` has the seconds in it that explorer's recording took; None where that was not measured.
    """

    name: str
    function: str
    graph: str
    start: float
    seconds: float | None
    depth: int
    cost: float | None = None


@record
class Phases(Record):
    """The phases of one compile, by their start."""

    rows: tuple[Phase, ...]


@record
class PhaseMark(Record):
    """A phase that the compiler times begins ("B") or ends ("E"), at the event's time.

    `cost` has the seconds that explorer's recording took until then.
    """

    name: str
    at: str
    function: str
    cost: float | None = None


def part_of(phase: str) -> str:
    """Return the part of the compiler that a phase belongs to; "" where the phase around it says so."""
    return next((part for part, names in PARTS if names.match(phase)), "")


def intervals(events: Iterable[Event]) -> Iterator[Phase]:
    """One row per phase, in order of start: name, function, start and seconds, and how deeply it is nested."""
    open_phases: list[int] = []
    costs: dict[int, float | None] = {}
    rows: list[Phase] = []
    for event in events:
        mark = typed(PhaseMark, event.data)
        if mark.at == "B":
            begun = Phase(
                name=mark.name,
                function=mark.function,
                graph=event.graph,
                start=event.time,
                seconds=None,
                depth=len(open_phases),
            )
            costs[len(rows)] = mark.cost
            open_phases.append(len(rows))
            rows.append(begun)
        elif any(rows[number].name == mark.name for number in open_phases):
            # a phase inside this one whose end was not seen, such as one that raised, stays without seconds
            while rows[open_phases[-1]].name != mark.name:
                open_phases.pop()
            number = open_phases.pop()
            before = costs[number]
            cost = None if mark.cost is None or before is None else mark.cost - before
            rows[number] = replace(rows[number], seconds=event.time - rows[number].start, cost=cost)
    yield from rows


def readable(row: Phase) -> str:
    """One phase as a line, indented by its nesting."""
    seconds = "  (not finished)" if row.seconds is None else f"{row.seconds:9.4f} s"
    return f"{seconds}  {'  ' * row.depth}{row.name}"


def render(event: Event, id: str) -> Artifact:
    """The timeline; `data["rows"]` has the phases as mappings."""
    data = typed(Phases, event.data)
    return text_artifact(event, id, "Compiler phases", "text", text="\n".join(map(readable, data.rows)), data=data)


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """One timeline a frame."""
    for group in by_frame(events).values():
        yield table_event(group[0], Phases(rows=tuple(intervals(group))))


def seconds_of(phases: Sequence[str], event: Event, timelines: Iterable[Event]) -> float | None:
    """The total of the named phases in the event's frame and graph; None where none was timed."""
    of_frame = (row for timeline in timelines if timeline.frame == event.frame for row in typed(Phases, timeline.data).rows)
    timed = [(row.graph, row.seconds) for row in of_frame if row.name in phases and row.seconds is not None]
    of_graph = [seconds for graph, seconds in timed if graph == event.graph]
    return sum(of_graph or [seconds for graph, seconds in timed if not graph]) or None


STAGE = Stage(
    name="phase",
    title="Compiler phases",
    language="text",
    event=PhaseMark,
    artifact=Phases,
    render=render,
    gather=gather,
    secondary=True,
    about="What the compiler spent its time on, by its own clock: Dynamo, AOTAutograd, passes, lowering, code generation.",
)
