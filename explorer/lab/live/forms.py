"""Make the texts of kernels that are made only on demand: SASS, assembly of C++, forms of Pallas, Halide, CUDA C++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.errors import InputError
from explorer.lab.live.protocol import MakesForms, no_verb
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.process.under_way import step
from explorer.stages import STAGES
from explorer.stages.replay import rendered
from explorer.stages.triton import sass
from explorer.stages.triton.origins import KernelForm


def forms_of(trace: TraceData, live: MakesForms, kernels: Sequence[Artifact], stage: str) -> list[Artifact]:
    """Make the texts of some kernels in a stage that is made on demand; NoVerbError where there is nothing to make one of."""
    of = {each.name: each.on_demand_of for each in STAGES}.get(stage)
    if of == "cpp":
        return [live.assembly(kernel) for kernel in _each(kernels, "compiling")]
    if of in ("pallas", "halide", "cuda"):
        return [live.form(kernel, stage) for kernel in _each(kernels, "lowering")]
    if stage != "sass":
        on_demand = " and ".join(repr(each.name) for each in STAGES if each.on_demand_of)
        raise InputError(f"{stage!r} is not made on demand; {on_demand} are")
    ptx = [_ptx_of(trace, kernel) for kernel in kernels]
    lines = live.ptx_lines(kernels) if kernels else ()
    events = [
        sass.event_of(artifact, live.sass(kernel), places)
        for artifact, kernel, places in zip(ptx, _each(kernels, "assembling"), lines, strict=True)
    ]
    return list(rendered(trace, events))


def assembled_here(trace: TraceData, kernels: Sequence[Artifact]) -> list[Artifact]:
    """Assemble the PTX of some kernels of a loaded trace, whose own process is gone; those that no ptxas here takes are left out.

    The code need not be the program's: whoever asks compares it with what ran.
    """
    from explorer.capture.ladder.assembled import assembled
    from explorer.capture.ladder.triton_tools import missing_triton

    if missing_triton():
        return []
    ptx = [_ptx_of(trace, kernel) for kernel in kernels]
    texts = assembled([(each.text, typed(KernelForm, each.data).metadata.enable_fp_fusion is not False) for each in ptx])
    pairs = ((each, made) for each, made in zip(ptx, texts, strict=True) if made is not None)
    return list(rendered(trace, [sass.event_of(each, made.text, made.ptx_lines) for each, made in pairs]))


def _each(kernels: Sequence[Artifact], doing: str) -> Iterator[Artifact]:
    """Give one kernel after the other, and say which one it is that something is done with."""
    for number, kernel in enumerate(kernels):
        step(f"{doing} {kernel.kernel}", number, len(kernels))
        yield kernel


def without_form(trace: TraceData, kernels: Sequence[Artifact], stage: str) -> list[Artifact]:
    """Select the kernels whose text in `stage` the trace does not hold."""
    kernels_with_text = {(a.frame, a.graph, a.kernel) for a in trace.find(stage)}
    return [kernel for kernel in kernels if (kernel.frame, kernel.graph, kernel.kernel) not in kernels_with_text]


def _ptx_of(trace: TraceData, kernel: Artifact) -> Artifact:
    """Return the PTX of a kernel; NoVerbError if it has none."""
    for artifact in trace.find("ptx", kernel.frame, kernel.graph):
        if artifact.kernel == kernel.kernel:
            return artifact
    raise no_verb(
        f"no SASS can be made of {kernel.kernel}", "the trace has no PTX of it", "t.kernels[n].stages lists the forms that it has"
    )
