"""The graph that OpenVINO executes of each part: the layers that its device's plugin made, and the kernel chosen for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import KernelPlace, Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.model.wording import quantity
from explorer.stages.kinds import CONSTANT, Kinds
from explorer.stages.openvino import ir


@record
class ExecutedLayer(Record):
    """A layer of the graph that OpenVINO executes: its kernel, and the layers of the IR that it comes from, in OpenVINO's names.

    `microseconds` is None where OpenVINO did not measure the layer.
    """

    order: int
    layer: str
    kernel: str
    name: str
    original: Names
    precision: str
    layouts: str
    shape: str
    microseconds: float | None


@record
class OpenVinoExecuted(Record):
    """The graph that OpenVINO executes of a part, one row per layer."""

    name: str
    rows: tuple[ExecutedLayer, ...]


#: The layers that compute nothing, and their kind.
NOT_COMPUTING: Mapping[str, str] = {"Input": "inputs", "Const": CONSTANT, "Output": "output"}
HEAD = ("order", "layer", "kernel", "precision", "layouts", "shape", "µs", "name", "layers of the IR")


def render(event: Event, id: str) -> Artifact:
    """A table with one line per layer, in the order of execution."""
    data = typed(OpenVinoExecuted, event.data)
    text = "\n".join(aligned([HEAD, *map(_cells, data.rows)]))
    return text_artifact(event, id, f"Executed graph of {data.name} · OpenVINO", "text", text=text, kernel=data.name)


def _cells(row: ExecutedLayer) -> tuple[str, ...]:
    time = "" if row.microseconds is None else f"{row.microseconds:g}"
    original = ", ".join(row.original)
    return (str(row.order), row.layer, row.kernel, row.precision, row.layouts, row.shape, time, row.name, original)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each row as a line, its cells under each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each layer to the layers of the IR that OpenVINO names as those it comes from."""
    model = next((a for a in trace.find("openvino_ir", artifact.frame, artifact.graph) if a.kernel == artifact.kernel), None)
    if model is None:
        return
    places = {layer.name: range(layer.first, layer.last + 1) for layer in ir.layers(model)}
    for number, row in enumerate(typed(OpenVinoExecuted, artifact.data).rows, 2):
        lines = sorted({line for name in row.original for line in places.get(name, ())})
        if lines:
            yield Link(artifact.id, (number,), model.id, tuple(lines), "originalLayersNames")


def layers(artifact: Artifact) -> Iterator[KernelPlace]:
    """Each layer that computes, by OpenVINO's name for it: the device's plugin calls one kernel for it."""
    for number, row in enumerate(typed(OpenVinoExecuted, artifact.data).rows, 2):
        if row.layer not in NOT_COMPUTING:
            yield KernelPlace(row.name, (number,))


def kinds(artifact: Artifact) -> Kinds:
    """Layers compute, but inputs, constants and results."""
    return ["headings", *(NOT_COMPUTING.get(row.layer, "") for row in typed(OpenVinoExecuted, artifact.data).rows)]


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many layers compute."""
    rows = [row for artifact in artifacts for row in typed(OpenVinoExecuted, artifact.data).rows]
    count = sum(row.layer not in NOT_COMPUTING for row in rows)
    return quantity(count, "layer")


STAGE = Stage(
    name="openvino_executed",
    title="Executed graph · OpenVINO",
    language="text",
    event=OpenVinoExecuted,
    artifact=OpenVinoExecuted,
    backend="openvino",
    render=render,
    link=link,
    kinds=kinds,
    kernels=layers,
    summary=summary,
    per_kernel=True,
    opens_at=4,
    why_absent="OpenVINO ran no part of the graph: `execution` says why",
    about="The layers that OpenVINO executes of each part, after fusion, with the kernel that it chose for each and its layout.",
)
