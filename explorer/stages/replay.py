"""Make a trace of recorded events. Pure: without torch, the same events give the same trace on any machine.

events → facts not made yet → renumber frames → gather (several events, one artifact) → render → link
       → keep the stages that were asked for

Every stage is gathered, rendered and linked, whichever are asked for: what a stage says does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from explorer.model.records import typed
from explorer.model.stage import Frames, Stage
from explorer.model.trace_data import TraceData, merged
from explorer.model.values import Artifact, Event, Failure, Link, Plain, plain
from explorer.stages import STAGES, stage_of, stages_of
from explorer.stages.torch_compile import phase
from explorer.stages.unread import read

T = TypeVar("T", bound=TraceData)


def replay(
    events: Sequence[Event],
    failures: Sequence[Failure] = (),
    meta: Mapping[str, Plain] | None = None,
    stages: Sequence[Stage] = STAGES,
) -> TraceData:
    """Make the trace of recorded events, with the artifacts of `stages`. One of them replaces explorer's of the same name.

    Facts that are not made yet are made now. An error in that, or in a stage's `gather`, `render` or `link`, becomes a Failure
    of that stage.
    """
    names = names_of(events)  # of all, also of those that cannot be read: their failures name frames too
    read_events = read(events, names)
    failures = (*failures, *(failure for failure in read_events.failures if failure not in failures))
    by_name = {stage.name: stage for stage in (*STAGES, *stages)}
    replayed = _Replay(read_events.events, names, plain(meta or {}), by_name)
    whole = replayed.trace()
    asked = list(dict.fromkeys(stage.name for stage in stages))
    artifacts = tuple(a for name in asked for a in whole.artifacts if a.stage == name)
    left_out = {a.id for a in whole.artifacts if a.stage not in asked}
    links = tuple(link for link in whole.links if link.source not in left_out and link.target not in left_out)
    return replace(whole, artifacts=artifacts, links=links, failures=(*failures, *whole.failures))


class _Replay:
    """One replay: its stages by name, and what failed so far."""

    def __init__(
        self, events: Sequence[Event], names: Mapping[str, str], meta: Mapping[str, Plain], stages: Mapping[str, Stage]
    ) -> None:
        self.meta = meta
        self.stages = stages
        self.frames = Frames(names, fresh=bool(meta.get("fresh")))
        self.events: dict[str, list[tuple[int, Event]]] = {}
        for number, event in enumerate(_renumbered(events, names)):
            self.events.setdefault(event.kind, []).append((number, event))
        self.failures: list[Failure] = []
        self.timelines = list(self._gathered(stages[phase.STAGE.name]))

    def trace(self) -> TraceData:
        """Every artifact, in the order of the stages, and every link."""
        artifacts = [artifact for stage in self.stages.values() for artifact in self._rendered(stage)]
        trace = TraceData(self.meta, tuple(artifacts), _stages=tuple(self.stages.values()))
        links: list[Link] = []
        for artifact in artifacts:
            self._attempt(artifact.stage, "link", lambda a=artifact: links.extend(self.stages[a.stage].link(a, trace)))  # type: ignore[misc]
        return replace(trace, links=merged(links), failures=tuple(dict.fromkeys(self.failures)))

    def _rendered(self, stage: Stage) -> list[Artifact]:
        """The artifacts of one stage."""
        artifacts: list[Artifact] = []
        for event in self._gathered(stage):
            id = new_id(event, artifacts, per_kernel=stage.per_kernel)
            self._attempt(stage.name, "render", lambda e=event, i=id: artifacts.append(self._timed(stage, e, i)))  # type: ignore[misc]
        return artifacts

    def _gathered(self, stage: Stage) -> list[Event]:
        """The stage's events, one an artifact; up to an error where there is one."""
        gathered: list[Event] = []

        def gather() -> None:
            for event in stage.gather(self._fitting(stage), self.frames):
                gathered.append(event)

        self._attempt(stage.name, "gather", gather)
        return gathered

    def _fitting(self, stage: Stage) -> list[Event]:
        """List the events that a stage gathers, as recorded; one that does not fit its record becomes a Failure."""
        records = {**stage.consumes, stage.name: stage.event}
        fitting: list[Event] = []
        for _, event in sorted(pair for kind in records for pair in self.events.get(kind, ())):
            record = records[event.kind]
            if record is None or isinstance(event.data, record):
                fitting.append(event)
            else:  # an event of a stage of the user's own
                self._attempt(stage.name, "record", lambda e=event, r=record: fitting.append(replace(e, data=typed(r, e.data))))  # type: ignore[misc]
        return fitting

    def _timed(self, stage: Stage, event: Event, id: str) -> Artifact:
        """The stage's artifact, with the seconds of the phases that the stage names."""
        artifact = stage.artifact_of(event, id)
        if artifact.seconds is not None or not stage.phases:
            return artifact
        return replace(artifact, seconds=phase.seconds_of(stage.phases, event, self.timelines))

    def _attempt(self, stage: str, step: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 rule 5: what one stage cannot render must not take the rest away
            self.failures.append(Failure(stage, step, f"{type(error).__name__}: {error}"))


def new_id(event: Event, artifacts: Iterable[Artifact], *, per_kernel: bool = False) -> str:
    """A readable id that no artifact has yet, such as "0/0:fx_pass:forward:3"; one of a kernel ends in the kernel's name."""
    parts = [event.frame or "-", event.kind, event.graph, str(event.data.get("name", "")) if per_kernel else ""]
    base = ":".join(p for p in parts if p)
    taken = sum(1 for a in artifacts if a.id == base or (a.id.startswith(f"{base}:") and a.id[len(base) + 1 :].isdigit()))
    return f"{base}:{taken + 1}" if taken else base


# Frames ----------------------------------------------------------------------------------------------------------------


def names_of(events: Sequence[Event]) -> dict[str, str]:
    """The trace's compile id for each of the compiler's: frames count from 0 in the order they began, their compiles likewise.

    The compiler counts over the whole process. A trace counts on its own, and equal programs give equal traces.
    """
    return names_in_order(event.frame for event in sorted(events, key=lambda e: e.time))


def names_in_order(compile_ids: Iterable[str]) -> dict[str, str]:
    """The trace's compile id for each of the compiler's, which are given in the order they began."""
    names: dict[str, str] = {}
    compiles: dict[str, int] = {}
    for compile_id in compile_ids:
        if compile_id and compile_id not in names:
            frame = compile_id.rpartition("/")[0]
            number = compiles[frame] = compiles.get(frame, -1) + 1
            names[compile_id] = f"{list(compiles).index(frame)}/{number}"
    return names


def renumber(events: Sequence[Event]) -> list[Event]:
    """Name the events by the trace's compile ids; functions that were not compiled get ids behind them."""
    return _renumbered(events, names_of(events))


def _renumbered(events: Sequence[Event], names: Mapping[str, str]) -> list[Event]:
    frames = len({frame.rpartition("/")[0] for frame in names})
    return [_renamed(event, names, frames) for event in events]


def _renamed(event: Event, names: Mapping[str, str], frames: int) -> Event:
    if not event.frame and event.data.get("not_compiled") is not None:
        return replace(event, frame=f"{frames + event.data['not_compiled']}/-")
    frame = names.get(event.frame, event.frame)
    return event if frame == event.frame else replace(event, frame=frame)


# Texts made on demand ----------------------------------------------------------------------------------------------------


def rendered(trace: TraceData, events: Sequence[Event]) -> Iterator[Artifact]:
    """Render the events that came after the trace was made, each by its stage."""
    artifacts: list[Artifact] = []
    for event in events:
        stage = stage_of(trace, event.kind)
        artifacts.append(stage.artifact_of(event, new_id(event, (*trace.artifacts, *artifacts), per_kernel=stage.per_kernel)))
        yield artifacts[-1]


def extended(trace: T, artifacts: Sequence[Artifact], *, at_end: bool = False) -> T:
    """Add artifacts to a trace, with their links, and a Failure for each reason why an artifact's lines are not linked.

    They are placed in the order of the stages; with `at_end` after all others, for a view that has the others already.
    """
    place = len(trace.artifacts) if at_end or not artifacts else _place(trace, artifacts[0])
    whole = replace(trace, artifacts=(*trace.artifacts[:place], *artifacts, *trace.artifacts[place:]))
    links = merged(link for a in artifacts for link in stage_of(trace, a.stage).link(a, whole))
    unlinked = dict.fromkeys(failure for a in artifacts for failure in stage_of(trace, a.stage).unlinked(a))
    new = (failure for failure in unlinked if failure not in trace.failures)
    return replace(whole, links=(*trace.links, *links), failures=(*trace.failures, *new))


def without(trace: T, stages: Collection[str]) -> T:
    """Leave out the artifacts of some stages, with their links."""
    old = {artifact.id for stage in stages for artifact in trace.find(stage)}
    if not old:
        return trace
    artifacts = tuple(artifact for artifact in trace.artifacts if artifact.id not in old)
    return replace(trace, artifacts=artifacts, links=tuple(link for link in trace.links if not {link.source, link.target} & old))


def _place(trace: TraceData, later: Artifact) -> int:
    """Count the artifacts before one that is made later: all artifacts of its stage and of earlier stages."""
    order = [stage.name for stage in stages_of(trace)]
    before = order[: order.index(later.stage) + 1]
    return max((n for n, a in enumerate(trace.artifacts, 1) if a.stage in before), default=len(trace.artifacts))
