"""What is recorded of OpenVINO's models: the IR of one that is compiled, and the graph that is executed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from explorer.process import scratch
from explorer.stages.openvino.executed import ExecutedLayer, OpenVinoExecuted
from explorer.stages.openvino.ir import OpenVinoIrText

#: What OpenVINO writes for the time of a layer that it did not measure.
NOT_MEASURED = "not_executed"


def ir_facts(part: str, model: Any) -> OpenVinoIrText:
    """The model as OpenVINO's own XML; the weights, which are a file of their own, are written nowhere."""
    import openvino

    with scratch.folder() as folder:
        xml = Path(folder) / "model.xml"
        openvino.serialize(model, str(xml), os.devnull)
        return OpenVinoIrText(name=part, text=xml.read_text(encoding="utf-8", errors="replace"))


def executed_facts(part: str, compiled: Any) -> OpenVinoExecuted:
    """The layers of the graph that OpenVINO executes, in their order, with the kernel that it chose for each."""
    layers = sorted(_layers(compiled.get_runtime_model()), key=lambda layer: layer.order)
    return OpenVinoExecuted(name=part, rows=tuple(layers))


def _layers(model: Any) -> Iterator[ExecutedLayer]:
    for operation in model.get_ordered_ops():
        facts = {name: value.astype(str) for name, value in operation.get_rt_info().items()}
        time = facts.get("execTimeMcs", NOT_MEASURED)
        yield ExecutedLayer(
            order=int(facts.get("execOrder", -1)),
            layer=facts.get("layerType", operation.get_type_name()),
            kernel=facts.get("primitiveType", ""),
            name=operation.get_friendly_name(),
            original=tuple(name for name in facts.get("originalLayersNames", "").split(",") if name),
            precision=facts.get("runtimePrecision", ""),
            layouts=facts.get("outputLayouts", ""),
            shape=", ".join(str(output.get_partial_shape()) for output in operation.outputs()),
            microseconds=None if time == NOT_MEASURED else float(time),
        )
