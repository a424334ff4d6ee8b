"""Say what the code of a recompile has otherwise than that of the first compile. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.analysis.questions.comparison import compare
from explorer.analysis.questions.matched_kernels import MatchedKernel, matched_kernels
from explorer.analysis.questions.tables import symbols, table
from explorer.model.trace_data import TraceData, artifact_of

#: A guard that leaves a size or a number one value.
_EQUALS = re.compile(r"^(?P<source>\S+) == -?\d+$")
#: What Inductor notes in a Triton kernel's decorator of its own settings; the kernel does not read it.
_NOTES = re.compile(r"^\s*inductor_meta=.*$", re.MULTILINE)


@dataclass(frozen=True)
class CodeChanges:
    """The kernels, by name, that only the new code has, that it lacks, and whose text differs.

    `same` is how many kernels are the same in both, `symbols` are the sizes that are dynamic now.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same: int = 0
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = [(len(self.changed), "changed"), (len(self.added), "added"), (len(self.removed), "removed"), (self.same, "same")]
        return ", ".join(f"{number} {what}" for number, what in counts if number)


def code_changes(first: TraceData, again: TraceData) -> CodeChanges:
    """Compare the code of the first compile with the new one, by what the kernels compute and by their text."""
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    same = 0
    for match in matched_kernels(compare(first, again, names=("first", "again"))):
        before, after = match.kernels
        if not before:
            added += [kernel.name for kernel in after]
        elif not after:
            removed += [kernel.name for kernel in before]
        elif _texts(first, before) == _texts(again, after) and match.what in ("same", "not known"):
            same += len(after)
        else:
            changed += [kernel.name for kernel in after]
    return CodeChanges(tuple(added), tuple(removed), tuple(changed), same, tuple(_new_symbols(first, again)))


def _texts(trace: TraceData, kernels: tuple[MatchedKernel, ...]) -> list[str]:
    """The texts of kernels without their names and Inductor's notes, which differ from compile to compile."""
    artifacts = [(artifact_of(trace, kernel.artifact) if kernel.artifact else None, kernel.name) for kernel in kernels]
    return sorted(_nameless(a.text, name) if a is not None and a.kernel else name for a, name in artifacts)


def _nameless(text: str, name: str) -> str:
    return _NOTES.sub("", text.replace(name, "kernel"))


def _new_symbols(first: TraceData, again: TraceData) -> Iterator[str]:
    """The sizes and numbers that the new code leaves dynamic and the first one did not, with their ranges."""
    known = set(_dynamic(first))
    for source, limits in _dynamic(again).items():
        if source not in known:
            yield f"{source} in {limits}"


def _dynamic(trace: TraceData) -> Mapping[str, str]:
    """The source and range of each symbol, but for those that a guard leaves one value."""
    fixed = {match["source"] for row in table(trace, "guards") if (match := _EQUALS.match(row["expression"]))}
    return {str(row["source"]): str(row["vr"]) for row in symbols(trace) if str(row["source"]) not in fixed}
