"""The forms of a kernel that this process makes of its text: assembly, SASS, those of Pallas, Halide and CUDA C++, passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.ladder.ladder import Ladder
from explorer.lab.live import cuda, halide, pallas
from explorer.lab.live.assembly import assemble
from explorer.lab.live.ladders import Ladders
from explorer.lab.live.protocol import no_verb
from explorer.model.values import Artifact, Plain, Table
from explorer.process.under_way import Watchers
from explorer.stages import STAGES


class KernelForms:
    """Makes the forms of kernels: `ladders` has the Triton kernels', and the others are kept once they are made."""

    ladders: Ladders
    assembly_by_kernel: dict[str, Artifact]
    forms: dict[tuple[str, str], Artifact]

    def assembly(self, kernel: Artifact) -> Artifact:
        """The assembly of a C++ kernel, by Inductor's own compile command; made once."""
        if kernel.language != "cpp":
            raise no_verb(
                f"{kernel.kernel} has no text 'assembly'",
                f"it is a {kernel.language} kernel, and assembly is made of C++ kernels",
                "t.kernels[n].stages lists the forms that a kernel has",
            )
        if kernel.id not in self.assembly_by_kernel:
            self.assembly_by_kernel[kernel.id] = assemble(kernel)
        return self.assembly_by_kernel[kernel.id]

    def form(self, kernel: Artifact, stage: str) -> Artifact:
        """A form of a Pallas, Halide or CUDA C++ kernel, made once; of Pallas it needs the arguments of the first launch."""
        of = next((each.on_demand_of for each in STAGES if each.name == stage), "")
        if kernel.language != of:
            raise no_verb(
                f"{kernel.kernel} has no text {stage!r}",
                f"it is a {kernel.language} kernel, and this form is made of {of} kernels",
                "t.kernels[n].stages lists the forms that a kernel has",
            )
        if (kernel.id, stage) in self.forms:
            return self.forms[kernel.id, stage]
        if of == "halide":
            self.forms |= {(kernel.id, name): form for name, form in halide.forms(kernel).items()}
        elif of == "cuda":
            self.forms |= {(kernel.id, name): form for name, form in cuda.forms(kernel, stage, self.ladders.target).items()}
        else:
            self.forms[kernel.id, stage] = pallas.form(kernel, stage, self._launched_with(kernel))
        return self.forms[kernel.id, stage]

    def sass(self, kernel: Artifact) -> str:
        """The SASS of a Triton kernel, made now."""
        return self.ladders.sass(kernel)

    def ptx_lines(self, kernels: Sequence[Artifact]) -> list[tuple[int, ...]]:
        """For each Triton kernel the line of its PTX that each instruction of its SASS was assembled from."""
        return self.ladders.ptx_lines(kernels)

    def binary(self, kernel: Artifact) -> bytes:
        """The cubin, hsaco or SPIR-V of a Triton kernel."""
        return self.ladders.binary(kernel)

    def passes(self, kernel: Artifact) -> Table:
        """Each MLIR pass of a Triton kernel."""
        return self.ladders.passes(kernel)

    def candidate(self, kernel: Artifact, config: int | Mapping[str, Plain]) -> Ladder:
        """A Triton kernel compiled with another of its autotune candidates."""
        return self.ladders.candidate(kernel, config)

    def _launched_with(self, kernel: Artifact) -> Sequence[Any]:
        """The arguments of a kernel's first launch; NoVerbError where no call is kept."""
        raise no_verb(
            f"{kernel.kernel} cannot be lowered",
            "JAX needs the arguments of a launch, and a recording keeps no call",
            "explorer.trace(f, x) keeps the call",
        )


@dataclass
class RecordedKernels(KernelForms):
    """What this process can do with a trace that `record` made: the forms of its kernels, and nothing that needs a call."""

    ladders: Ladders = field(default_factory=Ladders)
    watchers: Watchers = field(default_factory=Watchers, compare=False, repr=False)
    assembly_by_kernel: dict[str, Artifact] = field(default_factory=dict)
    forms: dict[tuple[str, str], Artifact] = field(default_factory=dict)
    keeps_call = False
