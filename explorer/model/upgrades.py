"""What files of an older format say differently: one function for each kind that changed, by the format it changed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from explorer.model.values import Plain

#: The format that is written now.
FORMAT = 2
Data = Mapping[str, Plain]


def _written_file(data: Data) -> Data:
    """An event had one file, or with `rows` several."""
    return {"files": data.get("rows", [data])}


def _compilation_metrics(data: Data) -> Data:
    """torch's own figures stood beside `of`."""
    return {"of": data["of"], "figures": {key: value for key, value in data.items() if key != "of"}}


def _all_metrics(data: Data) -> Data:
    """The same in an artifact, which has the figures of several compiles."""
    return {"rows": [_compilation_metrics(row) for row in data["rows"]]}


#: ("event" or "artifact", its kind or stage, the format it is read from) → what makes it one of the next format.
UPGRADES: Mapping[tuple[str, str, int], Callable[[Data], Data]] = MappingProxyType(
    {
        ("event", "written_file", 1): _written_file,
        ("event", "compilation_metrics", 1): _compilation_metrics,
        ("artifact", "compilation_metrics", 1): _all_metrics,
    }
)


def upgraded(of: str, kind: str, data: Data, number: int) -> Data:
    """The data of an event or artifact from a file of format `number`, as the present format has it."""
    for older in range(number, FORMAT):
        upgrade = UPGRADES.get((of, kind, older))
        data = data if upgrade is None else upgrade(data)
    return data
