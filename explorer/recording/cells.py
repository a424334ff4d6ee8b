"""The cells of a notebook, by which the sources of a recording are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.model.events import SourceText
from explorer.model.records import typed
from explorer.model.values import Event
from explorer.process.notebook import cell_of


def with_cells(events: Sequence[Event]) -> tuple[Event, ...]:
    """Say of each source that is a notebook's cell which one it is; the process that ran the cell alone knows."""
    return tuple(_with_cell(event) if event.kind == "source" else event for event in events)


def _with_cell(event: Event) -> Event:
    source = typed(SourceText, event.data)
    cell = cell_of(source.file)
    return replace(event, data=replace(source, cell=cell)) if cell else event
