"""Coverage of the links: the share of each stage's lines that lead to a user line, and the others. Pure.

A line counts when it computes (a node, an operation, a load or store, an instruction). Lines of the kinds in `REASONS` come
from no user's line and are not counted, neither as linked nor as missing; each is known by the line's own text. A line below
a kernel that is linked to a line of the kernel of such a kind is of that kind itself, what is made of a function's signature
and braces being its prologue and epilogue. Every other line counts, also one for which the compiler states no origin: fewer
links are always a smaller share.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from explorer.analysis.questions.link_index import index
from explorer.analysis.questions.provenance import from_sources
from explorer.errors import unknown_name
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Table
from explorer.stages import stage_of
from explorer.stages.kinds import BRACES, SETUP, SIGNATURE

#: What the instructions are that were made of a kernel's lines of these kinds.
MADE_OF = {BRACES: SETUP, SIGNATURE: SETUP}


@dataclass(frozen=True)
class Read:
    """A text with the kind of each line, "" if it computes, and the lines that lead to a user line."""

    artifact: Artifact
    kinds: tuple[str, ...]
    linked: frozenset[int]

    @property
    def counted(self) -> list[int]:
        """The lines that compute."""
        return [n for n, kind in enumerate(self.kinds, 1) if not kind]

    @property
    def missing(self) -> list[int]:
        """The lines that compute and lead to no user line."""
        return [n for n in self.counted if n not in self.linked]


def coverage(trace: TraceData, stage: str | None = None) -> Table:
    """One row per stage and graph: lines that count, linked lines, their share, and the others by kind.

    With `stage` one row per text of it, with the `missing` lines as (line, text). InputError for a stage with nothing to link.
    """
    texts = _read(trace)
    if stage is None:
        groups: dict[tuple[str, str, str], list[Read]] = {}
        for text in texts:
            a = text.artifact
            groups.setdefault((a.frame, a.stage, a.graph), []).append(text)
        return Table(
            {"frame": frame, "stage": name, "graph": graph, **_counts(group)} for (frame, name, graph), group in groups.items()
        )
    chosen = [text for text in texts if text.artifact.stage == stage]
    if not chosen:
        raise unknown_name("stage with lines to link", stage, {text.artifact.stage for text in texts})
    return Table({"artifact": t.artifact.id, **_counts([t]), "missing": _lines(t)} for t in chosen)


def _counts(group: list[Read]) -> dict[str, object]:
    counted = sum(len(t.counted) for t in group)
    linked = counted - sum(len(t.missing) for t in group)
    exempt = Counter(kind for t in group for kind in t.kinds if kind)
    return {
        "lines": sum(len(t.kinds) for t in group),
        "counted": counted,
        "linked": linked,
        "share": linked / counted if counted else None,
        "exempt": dict(exempt.most_common()),
    }


def _lines(text: Read) -> tuple[tuple[int, str], ...]:
    lines = text.artifact.lines
    return tuple((number, lines[number - 1]) for number in text.missing)


def _read(trace: TraceData) -> list[Read]:
    """Read every text with lines to link, in the trace's order."""
    linked, over_wholes = from_sources(trace), from_sources(trace, wholes=True)
    kernels = {a.id: kinds for a in trace.find("kernel") if (kinds := _kinds(trace, a)) is not None}
    texts = []
    for artifact in trace.artifacts:
        kinds = _kinds(trace, artifact)
        if kinds is None:
            continue
        if artifact.kernel and artifact.id not in kernels:
            kinds = _inherited(trace, artifact, kinds, kernels)
        lines = (over_wholes if stage_of(trace, artifact.stage).over_wholes else linked).get(artifact.id, set())
        texts.append(Read(artifact, tuple(kinds), frozenset(lines)))
    return texts


def _kinds(trace: TraceData, artifact: Artifact) -> list[str] | None:
    """List the kind of each line of a text; None for a stage without lines that come from the user's."""
    kinds = stage_of(trace, artifact.stage).kinds
    return None if kinds is None else list(kinds(artifact))


def _inherited(trace: TraceData, artifact: Artifact, kinds: list[str], kernels: dict[str, list[str]]) -> list[str]:
    """Return the kinds of a text below a kernel: its own, else the kinds of the linked kernel lines."""
    down = [(kernels[id], ends) for (id, _), ends in index(trace).down.get(artifact.id, {}).items() if id in kernels]
    inherited = []
    for number, kind in enumerate(kinds, 1):
        above = {kernel_kinds[n - 1] for kernel_kinds, ends in down for n in ends.get(number, ())}
        inherited.append(kind or ("" if "" in above or not above else MADE_OF.get(min(above), min(above))))
    return inherited
