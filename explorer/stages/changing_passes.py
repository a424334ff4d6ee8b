"""What the stages have in common that show each pass of a compiler that changed its module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from explorer.model.records import Record, typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain

#: Fields that only the links need.
_LOCATIONS = ("fx_nodes", "places")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many passes changed something."""
    return f"{len(artifacts)} passes"


def one_row(kind: type[Record], text: str) -> Callable[[Artifact, TraceData], Iterator[Mapping[str, Plain]]]:
    """The rows of a stage whose texts are a pass each: the fields of its record, and the text in the column `text`."""

    def rows(artifact: Artifact, trace: TraceData) -> Iterator[Mapping[str, Plain]]:
        data = typed(kind, artifact.data)
        facts = {key: value for key, value in data.items() if key not in _LOCATIONS}
        yield {"graph": artifact.graph, **facts, text: artifact.text}

    return rows
