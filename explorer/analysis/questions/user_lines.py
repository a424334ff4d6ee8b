"""What a compiler made of each line of the user's program: kernels, dispatches, library calls. Pure.

Each compiler's stage says which kernels its text has (`Stage.kernels`). A kernel computes a user line if the links lead from one
of its computing lines to it; links to the calls on the way do not count. Lines that compute nothing, such as a constant or a
head that kernels have in common, do not count either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from explorer.analysis.questions.link_index import index_around
from explorer.analysis.questions.provenance import made_of, origins
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import LAUNCH, Artifact, once
from explorer.stages import stage_of

#: Graphs that are one to people: a compile without a backward has an inference graph in place of a forward.
FORWARD = {"inference": "forward"}


@dataclass(frozen=True, order=True)
class UserLine:
    """A line of the program: its file, its number there from 1, and its code."""

    file: str
    number: int
    code: str


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel, dispatch or library call: the lines of a text that compute it, the user lines in them, how often it is called."""

    name: str
    graph: str
    artifact: Artifact
    lines: tuple[int, ...]
    user_lines: tuple[UserLine, ...]
    calls: int = 1


def compilers_of(trace: TraceData) -> tuple[str, ...]:
    """Name the compilers that a trace shows stages of, as `backend=` does; none where PyTorch ran the graphs."""
    stages = dict.fromkeys(a.stage for a in trace.artifacts)
    return tuple(dict.fromkeys(backend for name in stages if (backend := stage_of(trace, name).backend)))


@once
def compiled_kernels(trace: TraceData) -> tuple[CompiledKernel, ...]:
    """List the kernels of a trace, in the order of its texts."""
    return tuple(
        CompiledKernel(name, FORWARD.get(a.graph, a.graph), a, lines, _user_lines(trace, a, lines), calls)
        for a in texts_with_kernels(trace)
        for name, lines, calls in kernels_with_launches(trace, a)
    )


def kernel_places(trace: TraceData, artifact: Artifact) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yield each kernel and library call of a text: its name, its lines that compute, and how often it is called there."""
    stage = stage_of(trace, artifact.stage)
    kernels = tuple(stage.kernels(artifact))
    kinds = tuple(stage.kinds(artifact)) if kernels and stage.kinds is not None else ()
    for name, lines, calls in kernels:
        yield name, tuple(line for line in lines if not kinds or not kinds[line - 1]), calls


def kernels_with_launches(trace: TraceData, artifact: Artifact) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """The kernels of a text as `kernel_places` has them, with the launches in other texts where there are any."""
    kernels = tuple(kernel_places(trace, artifact))
    launches = _launches(trace, artifact) if kernels else 0
    yield from ((name, lines, launches or calls) for name, lines, calls in kernels)


def texts_with_kernels(trace: TraceData) -> Iterator[Artifact]:
    """Yield the texts that may have kernels.

    If a graph was compiled again, these are its last texts. If several stages show the same kernels more and more optimised, as
    ONNX Runtime's levels do, these are the last stage's.
    """
    kernels = {name: stage_of(trace, name).kernels for name in dict.fromkeys(a.stage for a in trace.artifacts)}
    last = {(a.frame, a.graph, a.kernel, kernels[a.stage]): a for a in trace.artifacts}
    yield from (a for a in trace.artifacts if last[a.frame, a.graph, a.kernel, kernels[a.stage]] is a)


def _launches(trace: TraceData, artifact: Artifact) -> int:
    """Count the lines of another text that launch a kernel; 0 where the links do not say."""
    ends = [found for (_, how), found in index_around(trace, artifact.id).up.get(artifact.id, {}).items() if how == LAUNCH]
    return sum(len(set(lines)) for found in ends for lines in found.values())


def _user_lines(trace: TraceData, artifact: Artifact, lines: Iterable[int]) -> tuple[UserLine, ...]:
    """The lines of the program that some lines of a text come from."""
    found = origins(trace, artifact.id, lines)
    return tuple(sorted(_user_line(a, line) for a in trace.find("source") for line in found.get(a.id, ())))


def user_lines_at(trace: TraceData, artifact: str, line: int) -> tuple[UserLine, ...]:
    """The lines of the program that a line of a text comes from."""
    return _user_lines(trace, artifact_of(trace, artifact), (line,))


def _user_line(source: Artifact, line: int) -> UserLine:
    data = typed(Source, source.data)
    return UserLine(data.file, data.first_line + line - 1, source.lines[line - 1].strip() if line <= len(source.lines) else "")


def lines_made_of(trace: TraceData, user_line: UserLine, kernel: CompiledKernel) -> tuple[int, ...]:
    """List the lines of a kernel that come from a user line."""
    inside, found = set(kernel.lines), set[int]()
    for source in trace.find("source"):
        line = user_line.number - typed(Source, source.data).first_line + 1
        if 1 <= line <= len(source.lines) and _user_line(source, line) == user_line:
            found |= made_of(trace, source.id, line).get(kernel.artifact.id, set()) & inside
    return tuple(sorted(found))


__all__ = [
    "FORWARD",
    "CompiledKernel",
    "UserLine",
    "compiled_kernels",
    "compilers_of",
    "kernel_places",
    "kernels_with_launches",
    "lines_made_of",
    "texts_with_kernels",
]
