"""The lines of the program, with the kernels and calls that compute each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.program_lines import program_lines
from explorer.analysis.questions.user_lines import CompiledKernel, UserLine
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData
from explorer.view import wire


def line_infos(traces: Sequence[TraceData], indexes: Sequence[Mapping[str, int]]) -> Iterator[wire.LineInfo]:
    """Yield the lines of the program that a kernel computes, each with the kernels of every trace.

    `indexes` has the index in the payload of each text, by trace.
    """

    def placed(trace: int, kernel: CompiledKernel) -> wire.KernelPlace:
        line = kernel.lines[0] if kernel.lines else 0
        return {"name": kernel.name, "artifact": indexes[trace].get(kernel.artifact.id, -1), "line": line}

    cells = [cells_of(trace) for trace in traces]
    for line in program_lines(traces):
        first, number = line.first
        artifact, at = _source(traces[number], first, indexes[number])
        yield {
            "graph": line.graph,
            "place": place(cells[number], first.file, first.number),
            "line": first.number,
            "code": first.code,
            "artifact": artifact,
            "at": at,
            "kernels": [[placed(trace, kernel) for kernel in of] for trace, of in enumerate(line.kernels)],
        }


def _source(trace: TraceData, line: UserLine, index: Mapping[str, int]) -> tuple[int, int]:
    """Find the text and the line there of a line of the program; (-1, 0) where no source has it."""
    for a in trace.find("source"):
        data = typed(Source, a.data)
        at = line.number - data.first_line + 1
        if data.file == line.file and 1 <= at <= len(a.lines) and a.lines[at - 1].strip() == line.code:
            return index[a.id], at
    return -1, 0


__all__ = ["line_infos"]
