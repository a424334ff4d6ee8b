"""Notebook cells by their names: the temporary files that stand for them in what torch says, as "In[5]". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData
from explorer.stages.dynamo.graph_break import GraphBreak
from explorer.stages.fx_graph import short
from explorer.stages.torch_compile.compile_call import CompileCall

#: What is shown as it is: the texts of the compiler.
_TEXTS = ("text", "before", "nodes", "layouts")
_FOLDER = r"[^\s\"'()]*[\\/]"


def cells_of(trace: TraceData) -> dict[str, str]:
    """Map the files that are cells of a notebook, with their folders and without, to the names of the cells."""
    names = {file: cell for file, cell in _files(trace) if cell}
    return {**{short(file): cell for file, cell in names.items()}, **names}


def _files(trace: TraceData) -> Iterator[tuple[str, str | None]]:
    """Yield each file of the program that a trace names, and the cell that it stands for."""
    for source in (typed(Source, a.data) for a in trace.find("source")):
        yield source.file, source.cell
    for call in (typed(CompileCall, a.data) for a in trace.find("compile_call")):
        yield from ((call.file, call.cell), (call.called_file, call.called_cell))
    for broken in (typed(GraphBreak, a.data) for a in trace.find("graph_break")):
        yield broken.file, broken.cell


def place(cells: Mapping[str, str], file: str, line: int) -> str:
    """A place in the program, for people: the cell or the file without its folders, and the line."""
    return f"{cells.get(file) or short(file)}:{line}"


def renamed(value: Any, cells: Mapping[str, str]) -> Any:
    """A JSON-able value with each file of a cell named as the cell, other than in the compiler's texts."""
    if not cells:
        return value
    return _renamed(value, _any_of(cells), cells)


def _any_of(files: Iterable[str]) -> re.Pattern[str]:
    """Make the pattern of these files; one without a folder also matches after part of a folder, since torch cuts long paths."""
    longest_first = sorted(files, key=len, reverse=True)
    named = (f"(?:{_FOLDER})?({re.escape(file)})" if file == short(file) else f"({re.escape(file)})" for file in longest_first)
    return re.compile("|".join(named))


def _renamed(value: Any, files: re.Pattern[str], cells: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return files.sub(lambda found: cells[found[found.lastindex or 0]], value)
    if isinstance(value, list):
        return [_renamed(each, files, cells) for each in value]
    if isinstance(value, dict):
        return {key: each if key in _TEXTS else _renamed(each, files, cells) for key, each in value.items()}
    return value
