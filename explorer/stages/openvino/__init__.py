"""The stages of OpenVINO, in the order in which its backend comes to them."""

from __future__ import annotations

from explorer.model.stage import Stage
from explorer.stages.openvino import executed, ir, partition

STAGES: tuple[Stage, ...] = (partition.STAGE, ir.STAGE, executed.STAGE)

__all__ = ["STAGES"]
