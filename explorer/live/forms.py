"""The texts of kernels that are made only on demand: SASS, and the assembly of C++ kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.errors import InputError, LiveError
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.replay import rendered
from explorer.stages.triton import sass


def forms_of(trace: TraceData, live: Any, kernels: Sequence[Artifact], stage: str) -> list[Artifact]:
    """The texts of some kernels in `stage`, "sass" or "assembly", made now; LiveError where one has nothing to make it of."""
    if stage == "assembly":
        return [live.assembly(kernel) for kernel in kernels]
    if stage != "sass":
        raise InputError(f"{stage!r} is not made on demand; 'sass' and 'assembly' are")
    ptx = [_ptx_of(trace, kernel) for kernel in kernels]
    lines = live.ptx_lines(kernels) if kernels else ()
    made = [sass.event_of(own, live.sass(k), at) for own, k, at in zip(ptx, kernels, lines, strict=True)]
    return list(rendered(trace, made))


def without_form(trace: TraceData, kernels: Sequence[Artifact], stage: str) -> list[Artifact]:
    """Those of the kernels whose text in `stage` the trace does not hold."""
    held = {(a.frame, a.graph, a.kernel) for a in trace.find(stage)}
    return [kernel for kernel in kernels if (kernel.frame, kernel.graph, kernel.kernel) not in held]


def _ptx_of(trace: TraceData, kernel: Artifact) -> Artifact:
    """The PTX of a kernel."""
    found = next((a for a in trace.find("ptx", kernel.frame, kernel.graph) if a.kernel == kernel.kernel), None)
    if found is None:
        raise LiveError(f"{kernel.kernel} has no PTX to make SASS of")
    return found
