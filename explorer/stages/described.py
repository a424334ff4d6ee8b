"""What a trace's file says of stages that are not explorer's, so that a trace opens without the plug-in that made it.

A description has a stage's words, and what its functions gave for each text. It stands in the file's meta data. The stages that
are made of it again run no code of the plug-in's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from explorer.model.records import Record, record, typed
from explorer.model.stage import KernelPlace, Passes, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain
from explorer.stages import STAGES

#: The key of a trace's meta data that has the descriptions.
KEY = "plugin_stages"
_EXPLORERS = frozenset(stage.name for stage in STAGES)


@record
class KernelInText(Record):
    """A kernel in a text: its name, its lines, and how often the text calls it."""

    name: str
    lines: tuple[int, ...]
    calls: int


@record
class TextFacts(Record):
    """What a stage's functions gave for one text; `kinds` is None for a stage without them."""

    summary: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    kernels: tuple[KernelInText, ...] = ()
    kinds: tuple[str, ...] | None = None


@record
class Description(Record):
    """A stage in words, and the facts of its texts by id. `passes` has the compiler and the whole stage of a stage of passes."""

    name: str
    title: str
    language: str
    about: str
    texts: Mapping[str, TextFacts]
    has_kinds: bool = False
    columns: tuple[str, ...] = ()
    per_kernel: bool = False
    over_wholes: bool = False
    backend: str = ""
    why_absent: str = ""
    opens_at: int = 0
    secondary: bool = False
    made_from: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()


#: The fields of a stage that a description has as they are.
_SAME = (
    "name",
    "title",
    "language",
    "about",
    "columns",
    "per_kernel",
    "over_wholes",
    "backend",
    "why_absent",
    "opens_at",
    "secondary",
    "made_from",
)


def meta_with_stages(trace: TraceData) -> Mapping[str, Plain]:
    """The meta data of a trace's file: the trace's, and the descriptions of its stages that are not explorer's, if it has any."""
    others = [stage for stage in trace._stages if stage.name not in _EXPLORERS and trace.find(stage.name)]
    meta: Mapping[str, Plain] = trace.meta
    return {**meta, KEY: tuple(_description(stage, trace) for stage in others)} if others else meta


def stages_in(meta: dict[str, Any]) -> tuple[Stage, ...]:
    """Take the descriptions out of a file's meta data, and make the trace's stages; () where all are explorer's."""
    descriptions = meta.pop(KEY, ())
    return (*STAGES, *(_stage(typed(Description, each)) for each in descriptions)) if descriptions else ()


def _description(stage: Stage, trace: TraceData) -> Description:
    same: dict[str, Any] = {name: getattr(stage, name) for name in _SAME}
    texts = {a.id: _facts(stage, a, trace) for a in trace.find(stage.name)}
    return Description(**same, texts=texts, has_kinds=stage.kinds is not None, passes=tuple(stage.passes or ()))


def _facts(stage: Stage, artifact: Artifact, trace: TraceData) -> TextFacts:
    """Call a stage's functions for one text; one that raises gave nothing, as it would in the process that made the trace."""

    def kernels() -> Iterator[KernelInText]:
        for name, lines, *calls in stage.kernels(artifact):
            yield KernelInText(name=name, lines=tuple(lines), calls=calls[0] if calls else 1)

    makers: dict[str, Callable[[], Any]] = {
        "summary": lambda: stage.summary([artifact]),
        "rows": lambda: tuple(stage.rows(artifact, trace)),
        "kernels": lambda: tuple(kernels()),
        "kinds": lambda: tuple(stage.kinds(artifact)) if stage.kinds is not None else None,
    }
    facts: dict[str, Any] = {}
    for name, make in makers.items():
        with suppress(Exception):  # rule 5: code of others, without which the trace is saved too
            facts[name] = make()
    return TextFacts(**facts)


def _stage(told: Description) -> Stage:
    same: dict[str, Any] = {name: getattr(told, name) for name in _SAME}
    texts = told.texts

    def summary(artifacts: Sequence[Artifact]) -> str:
        return ", ".join(dict.fromkeys(texts[a.id].summary for a in artifacts if a.id in texts and texts[a.id].summary))

    def rows(artifact: Artifact, trace: TraceData) -> Iterable[Mapping[str, Plain]]:
        return texts[artifact.id].rows if artifact.id in texts else ()

    def kernels(artifact: Artifact) -> Iterable[KernelPlace]:
        for each in texts[artifact.id].kernels if artifact.id in texts else ():
            yield KernelPlace(each.name, each.lines, each.calls)

    def kinds(artifact: Artifact) -> Sequence[str]:
        return (texts[artifact.id].kinds if artifact.id in texts else None) or [""] * len(artifact.lines)

    return Stage(
        **same,
        render=partial(text_artifact, title=told.title, language=told.language),
        summary=summary,
        rows=rows,
        kernels=kernels,
        kinds=kinds if told.has_kinds else None,
        passes=Passes(*told.passes) if told.passes else None,
    )
