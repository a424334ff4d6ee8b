"""How TVM's texts state the FX nodes that a line is of: by a comment behind it, which TVM's printer writes on request. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Link, text_lines
from explorer.stages.fx_graph import node_lines
from explorer.stages.fx_locations import graph_of

#: What stands before the names.
MARK = "FX node: "
_NOTE = re.compile(rf"  # (?:.*; )?{MARK}([\w., ]+)$")


def note(names: Sequence[str]) -> str:
    """The comment of a line that is of these nodes."""
    return f"{MARK}{', '.join(names)}"


def noted(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The number of each line that states FX nodes, and their names."""
    for number, line in enumerate(text_lines(text), 1):
        if found := _NOTE.search(line):
            yield number, tuple(found[1].split(", "))


def link_notes(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each line to the FX nodes that its comment names."""
    return links_to(artifact, trace, noted(artifact.text), "TVM note")


def links_to(artifact: Artifact, trace: TraceData, nodes: Iterable[tuple[int, Sequence[str]]], how: str) -> Iterator[Link]:
    """A link of each of these lines to its FX nodes."""
    graph = graph_of(artifact, trace)
    if graph is None:
        return
    lines = node_lines(graph)
    for number, names in nodes:
        if found := tuple(sorted({lines[name] for name in names if name in lines})):
            yield Link(artifact.id, (number,), graph.id, found, how)
