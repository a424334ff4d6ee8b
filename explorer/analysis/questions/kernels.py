"""The generated kernels of a trace, and the facts that its texts state about each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from explorer.model.records import typed
from explorer.model.shared import Kernel, OutputCode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table, once
from explorer.stages.fx_graph import input_names
from explorer.stages.inductor.launch import launches, launches_by_call
from explorer.stages.inductor.signature import parameters
from explorer.stages.triton.origins import FORMS, KernelForm, Launch

#: The languages whose kernels a wrapper calls, and those whose kernels it runs, other than Triton's and C++.
BY_CALL, BY_RUN = ("cuda", "halide", "hip", "metal"), ("cutedsl", "nv_universal_gemm", "pallas")
_OPERATORS = re.compile(r"Original ATen: \[([^\]]*)\]")

#: Where the code of a Triton kernel begins, after what Inductor writes of the device and of its own settings.
BODY = "\ndef "


@dataclass(frozen=True)
class KernelData:
    """One generated kernel: name, language, source, and facts from its other texts."""

    _trace: TraceData = field(repr=False)
    artifact: Artifact = field(repr=False)

    @property
    def name(self) -> str:
        """The kernel's name in the output code."""
        return self.artifact.kernel

    @property
    def language(self) -> str:
        """The language: "triton", "cpp", "pallas", "halide", "metal", "cuda", "cutedsl", or another that async_compile got."""
        return self.artifact.language

    @property
    def source(self) -> str:
        """The kernel's source."""
        return self.artifact.text

    @property
    def resources(self) -> Mapping[str, Plain]:
        """The GPU resources of a compiled Triton kernel; {} if the kernel was not compiled.

        num_warps, registers (a thread), shared (bytes a block), stack, spill_stores and spill_loads (bytes a thread),
        occupancy with what limits it, and where machine code is at hand its `mix`.
        """
        form = first_form(self._trace, self.artifact)
        mixes = (form.mix for form in triton_forms(self._trace, self.artifact) if form.mix is not None)
        mix = next(mixes, None)
        return {**form.metadata, **({"mix": mix} if mix is not None else {})} if form is not None else {}

    @property
    def operators(self) -> tuple[str, ...]:
        """The ATen operators that the kernel computes, by Inductor's comment in the output code; () where it has none."""
        comment = _OPERATORS.search(typed(Kernel, self.artifact.data).comment)
        return tuple(name.strip() for name in comment[1].split(",") if name.strip()) if comment else ()

    @property
    def launches(self) -> Table:
        """One row per launch in the wrapper: its line there, its arguments by the kernel's names, and its grid.

        The grid of a kernel in Metal counts threadgroups; it is () where torch chooses their size when it launches. `inputs`
        has the program's names for the arguments that come from it: "h.0.attn.weight" for a parameter.
        """
        names = input_names(self._trace, self.artifact.frame, self.artifact.graph)
        return Table(
            {**launch, "inputs": {key: names[value] for key, value in launch.arguments.items() if value in names}}
            for launch in kernel_launches(self._trace, self.artifact)
        )


def kernel_launches(trace: TraceData, kernel: Artifact) -> tuple[Launch, ...]:
    """The launches of a kernel, as its wrapper or its first form says them; () where they are not known, as in C++."""
    if kernel.language not in (*BY_CALL, *BY_RUN):
        form = first_form(trace, kernel)
        return form.launches if form is not None else ()
    names = tuple(parameter.name for parameter in parameters(kernel.text, kernel.language))
    wrappers = [each for each in trace.find("output_code", kernel.frame, kernel.graph) if each.language == "python"]
    if not names or not wrappers:
        return ()
    if kernel.language in BY_CALL:
        return launches_by_call(wrappers[-1].text, kernel.kernel, names)
    return tuple(launches(wrappers[-1].text, kernel.kernel, names, ()))  # the grid is computed when it runs


def candidate_rows(kernel: KernelData) -> Table:
    """One row per config that Inductor or triton would try on the device, with its `ms` where it was timed, and `taken`."""
    form = first_form(kernel._trace, kernel.artifact)
    if form is None:
        return Table()
    times = [({key: value for key, value in row.items() if key != "ms"}, row["ms"]) for row in form.measured or ()]
    configs = [dict(config) for config in form.candidates]
    configs += [config for config, _ in times if config not in configs]
    configs += [dict(form.config)] * (form.config not in configs)
    return Table(
        {
            **config,
            **({"ms": next((ms for timed, ms in times if timed == config), None)} if times else {}),
            "taken": config == form.config,
        }
        for config in configs
    )


def kernel_body(kernel: KernelData) -> str:
    """Return a kernel's own code, without its name and without what is written of the device that it is for."""
    _, found, body = kernel.source.partition(BODY)
    return (body if found else kernel.source).replace(kernel.name, "")


def texts_of_kernel(trace: TraceData, kernel: Artifact) -> tuple[Artifact, ...]:
    """List the texts of a kernel in every stage, its source among them."""
    return tuple(_texts_by_kernel(trace).get((kernel.kernel, kernel.frame, kernel.graph), ()))


@once
def _texts_by_kernel(trace: TraceData) -> dict[tuple[str, str, str], list[Artifact]]:
    """The texts of each name, frame and graph of a kernel."""
    texts: dict[tuple[str, str, str], list[Artifact]] = {}
    for artifact in trace.artifacts:
        texts.setdefault((artifact.kernel, artifact.frame, artifact.graph), []).append(artifact)
    return texts


def triton_forms(trace: TraceData, kernel: Artifact) -> Iterator[KernelForm]:
    """Yield the facts of a kernel's forms from TTIR on, each read when it is reached; none for a kernel that is not Triton's."""
    return (typed(KernelForm, a.data) for a in texts_of_kernel(trace, kernel) if a.stage in FORMS)


def first_form(trace: TraceData, kernel: Artifact) -> KernelForm | None:
    """The facts of a kernel's first form, which has all but the mix of machine code; None for a kernel that is not Triton's."""
    return next(triton_forms(trace, kernel), None)


def kernels_of(trace: TraceData) -> tuple[KernelData, ...]:
    """The generated kernels, in the order in which the output code defines them."""
    return tuple(KernelData(trace, a) for a in trace.find("kernel"))


def kernels_of_graph(trace: TraceData, frame: str, graph: str) -> tuple[KernelData, ...]:
    """The generated kernels of one graph, in order; a trace with thousands of kernels is asked for one graph after the other."""
    return tuple(KernelData(trace, a) for a in trace.find("kernel", frame, graph))


def wrapper_file(trace: TraceData, kernel: Artifact) -> str:
    """The name of the file of the wrapper that defines a kernel; "" where no wrapper does."""
    wrappers = trace.find("output_code", kernel.frame, kernel.graph)
    files = (typed(OutputCode, wrapper.data).file for wrapper in wrappers if kernel.text in wrapper.text)
    return next((file or "" for file in files), "")
