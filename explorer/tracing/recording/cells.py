"""The cells of a notebook, by which the places of a recording are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.model.records import Record, changed, typed
from explorer.model.values import Event
from explorer.process.notebook import cell_of
from explorer.stages.dynamo import graph_break
from explorer.stages.dynamo.graph_break import GraphBreakText
from explorer.stages.dynamo.source import SourceText
from explorer.stages.torch_compile.compile_call import CompileCall


def with_cells(events: Sequence[Event]) -> tuple[Event, ...]:
    """Say of each place that is in a notebook's cell which one it is; the process that ran the cell alone knows."""
    return tuple(_with_cell(event) for event in events)


def _with_cell(event: Event) -> Event:
    if event.kind == "source":
        source = typed(SourceText, event.data)
        return _with_cells(event, source, cell=cell_of(source.file))
    if event.kind == "compile_call":
        call = typed(CompileCall, event.data)
        return _with_cells(event, call, cell=cell_of(call.file), called_cell=cell_of(call.called_file))
    if event.kind == "graph_break":
        told = typed(GraphBreakText, event.data)
        return _with_cells(event, told, cell=cell_of(graph_break.facts(told.text).file))
    return event


def _with_cells(event: Event, data: Record, **cells: str) -> Event:
    """The event with the names of its cells, of those that are cells."""
    names = {key: cell for key, cell in cells.items() if cell}
    return replace(event, data=changed(data, **names)) if names else event
