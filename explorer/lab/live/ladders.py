"""Ladders: what a live trace keeps of its Triton kernels, for the forms that are made only on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.capture.ladder.ladder import TEXTS, Ladder, compile_ladder
from explorer.capture.ladder.sass_lines import ptx_lines
from explorer.capture.ladder.triton_passes import passes
from explorer.errors import CompileError
from explorer.lab.live.protocol import no_verb
from explorer.model.values import Artifact, Event, Plain, Table
from explorer.reference.gpus.figures import Target


@dataclass
class Ladders:
    """The ladders of a trace's Triton kernels.

    `by_source` has the ladders of Inductor's kernels, and `launched`, by name, the ladders of kernels launched outside of
    torch.compile. `missing` says why no kernel has a ladder. `target` is the GPU that the kernels are for, None for the CPU.
    `sources` has the sources of Inductor's choices by their key (see `observe.autotuning`), and `choices` the ladders of the
    choices compiled so far.
    """

    by_source: dict[str, Ladder] = field(default_factory=dict)
    missing: str = ""
    target: Target | None = None
    sources: dict[str, Mapping[str, Plain]] = field(default_factory=dict)
    choices: dict[str, Ladder] = field(default_factory=dict)
    launched: dict[str, Ladder] = field(default_factory=dict)

    def of(self, kernel: Artifact) -> Ladder:
        """The ladder of an artifact of stage "kernel".

        CompileError where triton has no backend for the target; NoVerbError, which says why, for a kernel without a ladder.
        """
        if self.missing:
            raise CompileError(self.missing)
        if not kernel.frame and kernel.kernel in self.launched:
            return self.launched[kernel.kernel]
        if kernel.language != "triton":
            below = "text('assembly') is its machine code" if kernel.language == "cpp" else "stages lists the forms that it has"
            raise no_verb(f"{kernel.kernel} has no ladder", "only Triton kernels have one", f"t.kernels[n].{below}")
        if kernel.text not in self.by_source:
            raise no_verb(
                f"{kernel.kernel} has no ladder",
                "it was not compiled down the ladder in this trace",
                "t.failures says why; t.kernels[n].stages lists the forms that it has",
            )
        return self.by_source[kernel.text]

    def sass(self, kernel: Artifact) -> str:
        """The SASS of a kernel, made now."""
        return sass_of(self.of(kernel))

    def ptx_lines(self, kernels: Sequence[Artifact]) -> list[tuple[int, ...]]:
        """For each kernel the line of its PTX that each instruction of its SASS was assembled from; () where not known."""
        return lines_of_ptx([self.of(kernel) for kernel in kernels])

    def passes(self, kernel: Artifact) -> Table:
        """Each MLIR pass of a kernel: see `ladder.triton_passes.passes`."""
        return mlir_passes(self.of(kernel))

    def binary(self, kernel: Artifact) -> bytes:
        """The cubin, hsaco or SPIR-V of a kernel."""
        return self.of(kernel).binary

    def candidate(self, kernel: Artifact, config: int | Mapping[str, Plain]) -> Ladder:
        """Compile a kernel with another of its autotune candidates."""
        if not kernel.frame and kernel.kernel in self.launched:
            raise no_verb(
                f"{kernel.kernel} cannot be compiled with another config",
                "it was launched outside of torch.compile, and its arguments are not kept",
                "compile it by explorer.trace(kernel, *args, grid=…, config=…)",
            )
        return compile_ladder(kernel.text, kernel.kernel, self.of(kernel).target, config)

    def choice(self, key: str) -> Ladder:
        """The ladder of one of Inductor's choices, compiled when first asked for; CompileError where it does not compile."""
        if self.missing:
            raise CompileError(self.missing)
        if self.target is None:
            raise no_verb(
                "this choice has no ladder",
                "the trace is for the CPU, and only Triton templates have one",
                "explorer.trace(f, x, target='h100') has those of a GPU",
            )
        if key not in self.choices:
            source = self.choice_source(key)
            self.choices[key] = compile_ladder(str(source["text"]), str(source["name"]), self.target)
        return self.choices[key]

    @property
    def choice_stages(self) -> tuple[str, ...]:
        """The stages of the ladder of a choice: none where triton has no backend for the target."""
        if self.target is None or self.missing:
            return ()
        below = ("sass",) if self.target.vendor == "nvidia" else ()
        return (*TEXTS[self.target.backend], *below)

    def choice_passes(self, key: str) -> Table:
        """Each MLIR pass of one of Inductor's choices."""
        return mlir_passes(self.choice(key))

    def choice_source(self, key: str) -> Mapping[str, Plain]:
        """The name, language and text of one of Inductor's choices."""
        if key not in self.sources:
            raise no_verb(
                "this choice has no source",
                "it could not be read when it was recorded",
                "t.failures says why",
            )
        return self.sources[key]

    def with_choices(self, events: Sequence[Event]) -> Ladders:
        """Add the sources of the choices that were recorded, and return these ladders."""
        self.sources |= {str(e.data["source"]): e.data for e in events if e.kind == "choice_source"}
        return self


def sass_of(ladder: Ladder) -> str:
    """The SASS of a kernel, made now; NoVerbError for a GPU of another vendor."""
    _needs_nvidia(ladder)
    return ladder.sass()


def lines_of_ptx(ladders: Sequence[Ladder]) -> list[tuple[int, ...]]:
    """For each kernel the line of its PTX that each SASS instruction was assembled from; NoVerbError for another vendor's GPU."""
    for ladder in ladders:
        _needs_nvidia(ladder)
    return ptx_lines(ladders)


def _needs_nvidia(ladder: Ladder) -> None:
    """Raise NoVerbError for a GPU of another vendor, which has no SASS."""
    if ladder.target.vendor != "nvidia":
        instead = {"amd": "the text 'amdgcn' is its machine code", "intel": "the driver makes its machine code of `binary`"}
        raise no_verb(f"{ladder.name} has no SASS", f"it is for {ladder.target.name}", instead[ladder.target.vendor])


def mlir_passes(ladder: Ladder) -> Table:
    """Each MLIR pass of a kernel: see `ladder.triton_passes.passes`."""
    if ladder.lowered is None:
        raise no_verb(
            f"the passes of {ladder.name} cannot be listed",
            "it was not compiled in this process",
            "call explorer.trace again",
        )
    return passes(ladder.lowered)
