"""The lines of the program with the kernels that compute them, and what each kernel and library call computes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from explorer.analysis.findings.rules import listed
from explorer.analysis.overview.launches import Ranked
from explorer.analysis.overview.overview import Overview
from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.program_lines import program_lines
from explorer.analysis.questions.user_lines import CompiledKernel, UserLine
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData
from explorer.view import wire
from explorer.view.places import Places


class Computed(NamedTuple):
    """What a kernel or call computes, in words, and its user line; see `wire.UserPlace`."""

    title: str = ""
    user: wire.UserPlace = (-1, 0, "", "")


class WhatIsComputed:
    """What the kernels and library calls of one call of the program compute."""

    def __init__(self, overview: Overview, places: Places) -> None:
        self._places = places
        kernels: dict[str, list[Ranked]] = {}
        self._calls: dict[tuple[str, str, str], Ranked] = {}
        for ranked in (ranked for group in overview.groups for ranked in group.ranked):
            row = ranked.launch.row
            for kernel in overview.call.kernels_of(ranked.launch):
                kernels.setdefault(kernel.artifact.id, []).append(ranked)
            if not row["kernels"]:
                self._calls[row["frame"], row["graph"], row["name"]] = ranked
        self._kernels = kernels

    def kernel(self, artifact: str) -> Computed:
        """What a kernel computes; a C++ kernel may have the loops of several groups."""
        return self._computed(self._kernels.get(artifact, []))

    def library_call(self, frame: str, graph: str, node: str) -> Computed:
        """What a library call computes, by its scheduler node."""
        found = self._calls.get((frame, graph, node))
        return self._computed([found] if found else [])

    def _computed(self, of: Sequence[Ranked]) -> Computed:
        if not of:
            return Computed()
        user = next((ranked.user_line for ranked in of if ranked.user_line), None)
        title = listed(str(ranked.row["what"]) for ranked in of if ranked.row["what"] != ranked.launch.name)
        return Computed(title, self._places.user_line(user)) if user else Computed(title)


def line_infos(traces: Sequence[TraceData], indexes: Sequence[Mapping[str, int]]) -> Iterator[wire.LineInfo]:
    """Yield the lines of the program that a kernel computes, each with the kernels of every trace.

    `indexes` has the index in the payload of each text, by trace.
    """

    def placed(trace: int, kernel: CompiledKernel) -> wire.KernelPlace:
        line = kernel.lines[0] if kernel.lines else 0
        return {"name": kernel.name, "artifact": indexes[trace].get(kernel.artifact.id, -1), "line": line}

    for line in program_lines(traces):
        first, trace = line.first.line, traces[line.first.trace]
        artifact, at = _source(trace, first, indexes[line.first.trace])
        yield {
            "graph": line.graph,
            "place": place(cells_of(trace), first.file, first.number),
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


__all__ = ["Computed", "WhatIsComputed", "line_infos"]
