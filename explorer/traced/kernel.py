"""Kernel: one generated kernel with the verbs on it, and Kernels, those of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from explorer.ladder.ladder import Ladder
from explorer.model.values import Artifact, Plain, Rows
from explorer.questions.costs import kernel_table
from explorer.questions.kernels import KernelData, texts_of_kernel
from explorer.questions.missing import explain_missing, no_form, no_kernel
from explorer.stages.triton.instruction_mix import amdgcn_mix, sass_mix

if TYPE_CHECKING:
    from explorer.traced.trace import Trace


@dataclass(frozen=True, repr=False)
class Kernel(KernelData):
    """One generated kernel: its name, its language ("triton" or "cpp") and its source.

    `text(stage)` gives the kernel's text in any stage, "kernel" being its source.
    """

    trace: Trace = field(repr=False)
    artifact: Artifact = field(repr=False)

    def text(self, stage: str = "kernel") -> str:
        """The kernel's text in `stage`: "kernel" its source, "ttir" … "sass" its ladder, "assembly" that of a C++ kernel.

        Assembly and SASS are made on demand where the trace does not hold them; LiveError where this process cannot.
        CompileError, with the reason, for a stage that could not be made.
        """
        for artifact in texts_of_kernel(self.trace, self.artifact):
            if artifact.stage == stage:
                return artifact.text
        if stage == "assembly":
            return self.trace.needs_live("the assembly").assembly(self.artifact).text
        explain_missing(self.trace, stage)
        if stage == "sass" and any(a.stage == "ptx" for a in texts_of_kernel(self.trace, self.artifact)):
            return self.trace.needs_live("SASS").sass(self.artifact)
        raise no_form(self.name, self.language, stage, self.stages)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that `text` takes, from the source down; SASS and a C++ kernel's assembly are made when asked for."""
        held = [a.stage for a in texts_of_kernel(self.trace, self.artifact)]
        made = {"ptx": "sass", "cpp": "assembly"}
        asked = [made[k] for k in (*held, self.language) if k in made and self.trace.live is not None]
        never = {f.stage for f in self.trace.failures if f.step == "triton"}
        return tuple(dict.fromkeys((*held, *(stage for stage in asked if stage not in never))))

    @property
    def mix(self) -> Mapping[str, int]:
        """How many instructions of each class the machine code has, the most frequent first; {} without machine code.

        SASS is made for it where the trace does not hold it (0.3 s); LiveError where this process cannot.
        """
        if "amdgcn" in self.stages:
            return amdgcn_mix(self.text("amdgcn"))
        return sass_mix(self.text("sass")) if {"ptx", "sass"} & set(self.stages) else {}

    @property
    def binary(self) -> bytes:
        """The cubin, hsaco or SPIR-V of a compiled Triton kernel; LiveError for a loaded trace, which holds texts only."""
        return self.trace.needs_live("the binary").binary(self.artifact)

    def candidate(self, config: int | Mapping[str, Plain]) -> Ladder:
        """This kernel compiled with another candidate, by number or by values: a `Ladder` with its texts and metadata.

        Needs the live process; InputError for a config that the kernel does not have.
        """
        return self.trace.needs_live("compiling another candidate").candidate(self.artifact, config)

    def passes(self) -> Rows:
        """One row a pass of MLIR that this Triton kernel went through: stage, name, whether it changed anything, before, after.

        Runs in a process of its own, so that a crash of MLIR or LLVM harms nothing: the rows end with the pass that
        crashed, whose `error` says how. LiveError for a loaded trace.
        """
        return self.trace.needs_live("passes").passes(self.artifact)

    def __repr__(self) -> str:
        registers = self.resources.get("registers")
        facts = [f"{len(self.artifact.lines)} lines of {self.language}", *([f"{registers} registers"] if registers else [])]
        return f"<Kernel {self.name}: {', '.join(facts)}; text of {', '.join(self.stages)}>"

    def _repr_html_(self) -> str:
        return self.artifact._repr_html_()


class Kernels(tuple[Kernel, ...]):
    """The generated kernels of a trace, in the order in which the output code defines them; `table()` compares them."""

    #: Where they are from; it says why there is none.
    trace: Trace | None = None

    def __getitem__(self, index: Any) -> Any:
        """The kernel of that number, or several by a slice; NoKernelError, which says why, where there is no such kernel."""
        if isinstance(index, slice):
            return super().__getitem__(index)
        if not isinstance(index, int) or not -len(self) <= index < len(self):
            raise no_kernel(self.trace, index)
        return super().__getitem__(index)

    def table(self) -> Rows:
        """One row a kernel: operators, launches, grid, registers, shared, spills, bytes read and written, operations, seconds.

        `registers` and `spills` (bytes) are of a thread, `shared` (bytes) and `grid` of a launch; `read` and `written` (bytes)
        and `seconds` are of all `launches` in one run of the code. `operations` are those of the matrix products and
        attention in it. `timed` is "measured" or "estimated". What is not known is None; `bytes_known` and `seconds_known`
        say how a figure is known, or why there is none. `outside` says what makes an estimate unlike those that were
        compared with measured times (benchmarks/estimates.py), "" where nothing does.
        """
        return kernel_table(self[0].trace) if self else Rows()
