"""The lines of the program in several traces, and the kernels of each trace that compute them. Pure.

After an edit a line may have another number or another code in each trace. It is one line by the matches of `source_lines`, for
the tables of a comparison as for the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.analysis.questions.source_lines import FirstLine, first_numbering
from explorer.analysis.questions.user_lines import CompiledKernel, UserLine, compiled_kernels
from explorer.model.trace_data import TraceData


@dataclass(frozen=True)
class ProgramLine:
    """A line of the program in one graph.

    `first` is the line in the first trace that has it, `lines` are the line in each trace, `kernels` those that compute it there.
    """

    graph: str
    first: FirstLine
    lines: tuple[tuple[UserLine, ...], ...]
    kernels: tuple[tuple[CompiledKernel, ...], ...]


def program_lines(traces: Sequence[TraceData]) -> list[ProgramLine]:
    """List the lines that a kernel computes, the forward's first."""
    found: dict[tuple[str, FirstLine], list[list[tuple[UserLine, CompiledKernel]]]] = {}
    for number, (trace, numbering) in enumerate(zip(traces, first_numbering(traces), strict=True)):
        for kernel in compiled_kernels(trace):
            for line in kernel.user_lines:
                first = numbering.get(line, FirstLine(line, number))
                found.setdefault((kernel.graph, first), [[] for _ in traces])[number].append((line, kernel))
    return [
        ProgramLine(graph, first, tuple(map(_lines, found[graph, first])), tuple(map(_kernels, found[graph, first])))
        for graph, first in sorted(found, key=lambda place: (place[0] != "forward", place))
    ]


def _lines(of_trace: Sequence[tuple[UserLine, CompiledKernel]]) -> tuple[UserLine, ...]:
    return tuple(dict.fromkeys(line for line, _ in of_trace))


def _kernels(of_trace: Sequence[tuple[UserLine, CompiledKernel]]) -> tuple[CompiledKernel, ...]:
    """The kernels, each once; two of one name in one text are two."""
    return tuple({id(kernel): kernel for _, kernel in of_trace}.values())


__all__ = ["ProgramLine", "program_lines"]
