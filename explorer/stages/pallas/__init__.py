"""What JAX makes of a kernel that Inductor writes in Pallas."""

from __future__ import annotations

from explorer.stages.pallas.forms import JAXPR, MOSAIC, STABLEHLO

#: The names of the stages, in JAX's order.
PALLAS_FORMS = (JAXPR.name, STABLEHLO.name, MOSAIC.name)

__all__ = ["JAXPR", "MOSAIC", "PALLAS_FORMS", "STABLEHLO"]
