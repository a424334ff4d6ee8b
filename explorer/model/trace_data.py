"""TraceData: what one recording gives, as one frozen plain value, with the look-ups that need nothing else.

Stages, questions, files and views read it; `explorer.tracing.traced.Trace` is the same with the verbs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from explorer.errors import InputError, unknown_name
from explorer.model.deferred import deferrable
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.values import EMPTY, Artifact, Failure, Link, Plain

if TYPE_CHECKING:
    from explorer.model.stage import Stage


@deferrable("links")
@dataclass(frozen=True)
class TraceData:
    """Every stage of one or more compiles, linked.

    `meta` describes the traced program and the settings; `artifacts` are the stages' texts in the compiler's order; `links`
    relate their lines; `failures` name everything that went wrong. `_stages` are the stages that made it. They are not part of
    the value: a loaded trace has none.
    """

    meta: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    artifacts: tuple[Artifact, ...] = field(default_factory=tuple)
    links: tuple[Link, ...] = field(default_factory=tuple)
    failures: tuple[Failure, ...] = field(default_factory=tuple)
    _stages: tuple[Stage, ...] = field(default_factory=tuple, compare=False, repr=False, kw_only=True)

    @property
    def target(self) -> object | None:
        """The figures of the GPU that the trace is for; None without the process that has them, see `questions.target.gpu_of`."""
        return None

    def find(self, stage: str, frame: str | None = None, graph: str | None = None) -> tuple[Artifact, ...]:
        """All artifacts of a stage, in order, of one frame and graph where given; an artifact's id finds it alone."""
        if ":" in stage and stage in self._by_id:  # no stage's name has a colon
            return (self._by_id[stage],)
        if frame is None:
            return tuple(a for a in self._by_stage.get(stage, ()) if graph in (None, a.graph))
        return tuple(a for a in self._by_place.get((stage, frame), ()) if graph in (None, a.graph))

    @cached_property
    def _by_id(self) -> Mapping[str, Artifact]:
        return {a.id: a for a in reversed(self.artifacts)}

    @cached_property
    def _by_stage(self) -> Mapping[str, Sequence[Artifact]]:
        by_stage: dict[str, list[Artifact]] = {}
        for artifact in self.artifacts:
            by_stage.setdefault(artifact.stage, []).append(artifact)
        return by_stage

    @cached_property
    def _by_place(self) -> Mapping[tuple[str, str], Sequence[Artifact]]:
        """By stage and frame: a recording of a thousand compiles is asked for one of them a thousand times."""
        by_place: dict[tuple[str, str], list[Artifact]] = {}
        for artifact in self.artifacts:
            by_place.setdefault((artifact.stage, artifact.frame), []).append(artifact)
        return by_place

    @cached_property
    def compile_ids(self) -> tuple[str, ...]:
        """The compile ids of the trace: "0/0" is the first frame, "0/1" its recompile, "1/-" a function not compiled."""
        return tuple(sorted({a.frame for a in self.artifacts if a.frame}, key=_frame_order))

    @cached_property
    def _sources(self) -> dict[str, tuple[tuple[Artifact, Source], ...]]:
        """The source artifacts of each file that `source_line` was asked for: there are few files and thousands of lines."""
        return {}

    def _right_name(self, name: str) -> str:
        """Return what a name is called that the trace, or one of its parts, does not have; "" where nobody knows."""
        return ""


def artifact_of(trace: TraceData, id: str | Artifact) -> Artifact:
    """Find the artifact of an id; InputError, with the nearest ids, if there is no such artifact."""
    if isinstance(id, Artifact):
        if id in trace.artifacts:
            return id
    elif id in trace._by_id:
        return trace._by_id[id]
    if isinstance(id, str) and id in trace._by_stage:
        ids = ", ".join(repr(a.id) for a in trace._by_stage[id][:4])
        raise InputError(f"{id!r} is a stage, and this takes one artifact of it: {ids}; t.find({id!r}) has them")
    raise unknown_name("artifact", id, [a.id for a in trace.artifacts])


def source_line(trace: TraceData, file: str, line: int, frame: str = "") -> tuple[str, int] | None:
    """Find the source artifact, and the line in it, of a line of the user's file; None where the trace has no such source.

    A file may be given by the end of its path, as Dynamo's guards shorten it.
    """
    if file not in trace._sources:
        sources = ((a, typed(Source, a.data)) for a in trace.find("source"))
        trace._sources[file] = tuple((a, data) for a, data in sources if _same_file(data.file, file))
    holding = [(a, data) for a, data in trace._sources[file] if data.first_line <= line < data.first_line + len(a.lines)]
    if not holding:
        return None
    artifact, data = min(holding, key=lambda pair: (pair[0].frame != frame, pair[1].resume, len(pair[0].lines)))
    return artifact.id, line - data.first_line + 1


def _same_file(whole: str, given: str) -> bool:
    """True for a path and the same path, or its end as Dynamo writes it: from some folder on, or without "/" and a letter."""
    return bool(given) and (whole == given or whole.endswith(f"/{given.lstrip('/')}") or whole[2:] == given)


def _frame_order(frame: str) -> tuple[int, ...]:
    """Frames by number, the compiles of one frame in order."""
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else -1 for part in frame.split("/"))


def merged(links: Iterable[Link]) -> tuple[Link, ...]:
    """Merge links of the same kind to the same lines: a kernel's line has one link from its hundred instructions."""
    groups: dict[tuple[str, str, tuple[int, ...], str], set[int]] = {}
    for link in links:
        groups.setdefault((link.source, link.target, link.target_lines, link.how), set()).update(link.source_lines)
    return tuple(
        Link(source, tuple(sorted(lines)), target, others, how) for (source, target, others, how), lines in groups.items()
    )
