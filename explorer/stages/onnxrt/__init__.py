"""The stages of ONNX Runtime, in the order in which a graph comes to them."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.onnxrt import changes, exported_program, graph, providers

STAGES: tuple[Stage, ...] = (exported_program.STAGE, *graph.STAGES, changes.STAGE, providers.STAGE)

__all__ = ["STAGES"]
