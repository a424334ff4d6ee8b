"""The forms of a Pallas kernel, which JAX makes again of the kernel's source and the arguments of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.capture.ladder import pallas
from explorer.model.values import Artifact
from explorer.stages.pallas import JAXPR, MOSAIC, STABLEHLO
from explorer.stages.pallas.forms import NOT_MADE, event_data

#: The stages of a Pallas kernel's forms, with what makes the text of each.
MAKERS = {JAXPR.name: (JAXPR, pallas.jaxpr), STABLEHLO.name: (STABLEHLO, pallas.stablehlo), MOSAIC.name: (MOSAIC, pallas.mosaic)}


def form(kernel: Artifact, stage: str, arguments: Sequence[Any]) -> Artifact:
    """A form of a Pallas kernel; where JAX refuses to make it, its text is the reason, in JAX's words."""
    made, maker = MAKERS[stage]
    file = "kernel.py"
    try:
        text = maker(kernel.kernel, kernel.text, file, arguments)
    except Exception as error:  # noqa: BLE001 whatever JAX raises is the reason
        text = "\n// ".join([f"{NOT_MADE}{type(error).__name__}", *str(error).strip().split("\n")])
    return made.artifact_of_kernel(kernel, event_data(kernel, file, text))
