"""The model of each part of a graph, in OpenVINO's IR, as it is handed to OpenVINO's compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, once
from explorer.model.wording import quantity
from explorer.stages.fx_graph import node_lines
from explorer.stages.fx_locations import graph_of
from explorer.stages.kinds import CONSTANT, XML, Kinds


@record
class OpenVinoIr(Record):
    """The model of a part of a graph, such as "fused_0", as it was handed to OpenVINO's compiler."""

    name: str


@record
class OpenVinoIrText(OpenVinoIr):
    """The model of a part of a graph, in OpenVINO's XML."""

    text: str


_LAYER = re.compile(r'^\s*<layer id="\d+" name="(?P<name>[^"]*)" type="(?P<type>[^"]*)"')
_END = re.compile(r"^\s*</layer>|^\s*<layer [^>]*/>\s*$")
#: The layers that compute nothing, and their kind.
NOT_COMPUTING: Mapping[str, str] = {"Parameter": "inputs", "Const": CONSTANT, "Result": "output"}


@dataclass(frozen=True)
class Layer:
    """A layer: its name and type, and its first and last line, counted from 1."""

    name: str
    type: str
    first: int
    last: int

    @property
    def fx_node(self) -> str:
        """The FX node that the layer's name begins with; OpenVINO writes `node/operator/layer`."""
        return self.name.partition("/")[0]


@once
def layers(artifact: Artifact) -> tuple[Layer, ...]:
    """Yield the layers of a model, each followed by the layers inside it."""
    begun: list[tuple[str, str, int]] = []
    found = []
    for number, line in enumerate(artifact.lines, 1):
        if match := _LAYER.match(line):
            begun.append((unescape(match["name"]), match["type"], number))
        if begun and _END.match(line):
            name, type, first = begun.pop()
            found.append(Layer(name, type, first, number))
    return tuple(sorted(found, key=lambda layer: layer.first))


def render(event: Event, id: str) -> Artifact:
    """The XML, which has no weights."""
    part = typed(OpenVinoIrText, event.data).name
    return text_artifact(event, id, f"OpenVINO IR of {part}", "xml", kernel=part)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each layer to the FX node that its name begins with."""
    graph = graph_of(artifact, trace)
    if graph is None:
        return
    lines = node_lines(graph)
    for layer in layers(artifact):
        if layer.fx_node in lines:
            numbers = tuple(range(layer.first, layer.last + 1))
            yield Link(artifact.id, numbers, graph.id, (lines[layer.fx_node],), "layer name")


def kinds(artifact: Artifact) -> Kinds:
    """A layer's first line computes, except for an input, a constant or a result. All other lines describe layers."""
    found = {layer.first: NOT_COMPUTING.get(layer.type, "") for layer in layers(artifact)}
    return [found.get(number, XML) for number in range(1, len(artifact.lines) + 1)]


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many layers compute."""
    count = sum(layer.type not in NOT_COMPUTING for artifact in artifacts for layer in layers(artifact))
    return quantity(count, "layer")


STAGE = Stage(
    name="openvino_ir",
    title="OpenVINO IR",
    language="xml",
    event=OpenVinoIrText,
    artifact=OpenVinoIr,
    backend="openvino",
    render=render,
    link=link,
    kinds=kinds,
    summary=summary,
    per_kernel=True,
    why_absent="OpenVINO was handed no part of the graph: `openvino_partition` says why",
    about="Each part of the graph in OpenVINO's IR, as its PyTorch frontend converts it; weights and constants are left out.",
)
