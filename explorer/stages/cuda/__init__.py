"""What nvcc makes of a kernel that Inductor writes in CUDA C++, from a template of CUTLASS."""

from __future__ import annotations

from explorer.stages.cuda.forms import PTX, SASS

#: The names of the stages, from the source down.
CUDA_FORMS = (PTX.name, SASS.name)

__all__ = ["CUDA_FORMS", "PTX", "SASS"]
