"""Kernel: one generated kernel and its verbs; Kernels: all kernels of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.costs import kernel_table, uses_of
from explorer.analysis.questions.kernels import KernelData, candidate_rows, texts_of_kernel, wrapper_file
from explorer.analysis.questions.missing import explain_missing, no_form, no_kernel
from explorer.analysis.questions.user_lines import compiled_kernels
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.tuning import Tune, Tuning
from explorer.lab.live.editing import TIMEOUT, EditRequest, one_text
from explorer.lab.live.protocol import forms_of_kernels, needs_forms, needs_live
from explorer.model.guessed import NamesGuessed, guess
from explorer.model.values import Artifact, Plain, Table
from explorer.reference.layouts.layout import Layout, layout_named
from explorer.stages import STAGES
from explorer.stages.cuda import CUDA_FORMS
from explorer.stages.halide import HALIDE_FORMS
from explorer.stages.pallas import PALLAS_FORMS
from explorer.stages.triton.origins import FORMS as TRITON_FORMS
from explorer.tracing.traced.attach import MACHINE_CODE
from explorer.tracing.traced.candidates import Candidates
from explorer.tracing.traced.edits import Edits, edits_of_kernel
from explorer.tracing.traced.ladder_texts import mix_of

if TYPE_CHECKING:
    from explorer.lab.scripts.kernel_script import Made
    from explorer.tracing.traced.trace import Trace


#: The forms of a kernel below its source, in Triton, C++, Pallas, Halide or CUDA C++.
FORMS = (*TRITON_FORMS, "assembly", *PALLAS_FORMS, *HALIDE_FORMS, *CUDA_FORMS)
#: What triton, or somebody who knows it, calls otherwise.
OTHER_NAMES: Mapping[str, str] = {
    "asm": "text('ptx')",
    "candidate": "candidates",
    "code": "source",
    "configs": "candidates",
    "cubin": "binary()",
    "edited": "edits.current",
    "launch_values": "values()",
    "mix": "instruction_mix()",
    "n_regs": "resources",
    "n_spills": "resources",
    "registers": "resources",
    "reset": "edits.reset()",
    "shared": "resources",
    "spills": "resources",
    "variants": "edits",
}
#: The repr names at most this many lines of the program.
MAX_LINES = 6
IN_THE_TABLE = ("bytes", "grid", "operations", "read", "seconds", "time", "written")


@dataclass(frozen=True, repr=False)
class Kernel(NamesGuessed, KernelData):
    """One generated kernel: its name, its language ("triton", "cpp", "pallas", "halide", "cuda" …) and its source.

    `text(stage)` gives the kernel's text in any stage, "kernel" being its source. All texts are those of the compile, also while
    an edit is in place: the edit has its own as `k.edit(...).text`, and `t.live.edits` lists which edits are in place.
    """

    _trace: Trace = field(repr=False)
    artifact: Artifact = field(repr=False)

    def text(self, stage: str = "kernel") -> str:
        """The kernel's text in `stage`: "kernel" for its source, "ttir" … "sass" of its ladder, "assembly" of a C++ kernel.

        Of a Pallas kernel "pallas_jaxpr", "pallas_stablehlo" and "pallas_mosaic" are what JAX makes, of a Halide kernel
        "halide_schedule", "halide_stmt", "halide_llvm" and "halide_assembly" what Halide makes, of a kernel in CUDA C++
        "cuda_ptx" and "cuda_sass" what nvcc makes. These, assembly and SASS are made when asked for, if the trace does not hold
        them. LiveError where this process cannot, and NoVerbError for assembly of a Triton kernel. CompileError, with the
        reason, for a stage that could not be made.
        """
        for artifact in texts_of_kernel(self._trace, self.artifact):
            if artifact.stage == stage:
                return artifact.text
        if stage == "assembly" and self.language != "metal":  # of Metal there is none, in whatever process
            live = needs_forms(self._trace, "the assembly")
            with live.watchers.verb(f"{self.name}.text('assembly')"):
                return live.assembly(self.artifact).text
        if stage in (*PALLAS_FORMS, *HALIDE_FORMS, *CUDA_FORMS):
            live = needs_forms(self._trace, MACHINE_CODE[stage])
            with live.watchers.verb(f"{self.name}.text({stage!r})"):
                return live.form(self.artifact, stage).text
        explain_missing(self._trace, stage)
        if stage == "sass" and any(a.stage == "ptx" for a in texts_of_kernel(self._trace, self.artifact)):
            return needs_forms(self._trace, "SASS").sass(self.artifact)
        raise no_form(self.name, self.language, stage, self.stages)

    def _guess(self, name: str) -> str:
        if name in FORMS:
            return guess("Kernel", name, f"t.kernels[0].text({name!r})")
        right = OTHER_NAMES.get(name, "")
        return guess("Kernel", name, f"t.kernels[0].{right}" if right else "t.kernels.table" if name in IN_THE_TABLE else "")

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that `text` takes, from the source down; SASS, assembly and forms of other languages are made on demand."""
        in_trace = [a.stage for a in texts_of_kernel(self._trace, self.artifact)]
        there = (*in_trace, self.language) if forms_of_kernels(self._trace) is not None else ()
        on_demand = [stage.name for stage in STAGES if stage.on_demand_of in there]
        impossible = {f.stage for f in self._trace.failures if f.step == "triton"}
        return tuple(dict.fromkeys((*in_trace, *(stage for stage in on_demand if stage not in impossible))))

    def instruction_mix(self) -> Mapping[str, int]:
        """Count the instructions of each class in the machine code, the most frequent first; {} without machine code.

        SASS is made (0.3 s) if the trace does not hold it; LiveError where this process cannot.
        """
        return mix_of(self.stages, self.text)

    def binary(self) -> bytes:
        """Return the cubin, hsaco or SPIR-V of a compiled Triton kernel; LiveError for a loaded trace, which holds texts only."""
        return needs_forms(self._trace, "the binary").binary(self.artifact)

    @property
    def candidates(self) -> Candidates:
        """The configs that autotuning would try on the device: `candidates[3]` has its texts, `candidates.table` compares."""
        return Candidates(self._trace, self.artifact, candidate_rows(self))

    def edit(
        self,
        source: str | None = None,
        *,
        config: Mapping[str, Plain] | None = None,
        timeout: float = TIMEOUT,
        check: bool = True,
        **form: str,
    ) -> Edit:
        """Replace this kernel by another text: `source=`, or for a Triton kernel `ttir=`, `ttgir=`, `llir=`, `ptx=`.

        The text is compiled with the original's options, and with its config unless `config` gives other values. Explorer first
        launches the edit in a separate process, for `timeout` seconds at most, then runs the whole function with it, checks it
        as `Trace.check` does, and times it beside the original. Only a correct edit stays in place, until `edits.reset()`; any
        other says what is wrong. With `check=False` every edit that runs stays in place. For a GPU you don't have, the
        edit is interpreted and compiled down to machine code; a form below the source is compiled only. An edit of a
        hand-written kernel is compared with what the kernel itself writes, in a function that launches it.

        LiveError for a loaded trace. InputError for no text or several, for a form that the kernel does not have, and for an
        invalid config or timeout.
        """
        stage, text = one_text(source, form)
        live = needs_live(self._trace, "an edit")
        original = self.text("kernel" if stage == "source" else stage)
        with live.watchers.verb(f"{self.name}.edit()"):
            return live.edit(EditRequest(self.artifact, self._wrapper_file, stage, text, original, config, timeout, check))

    def tune(self, configs: Sequence[Mapping[str, Plain]] | None = None, *, timeout: float = 300.0) -> Tuning:
        """Compare configs of this Triton kernel, such as `[{"XBLOCK": 4, "num_warps": 8}]`; `best` is the fastest.

        Without `configs`, explorer tries the kernel's own config, Inductor's candidates, and configs with a block size or the
        number of warps halved, doubled or quadrupled, or with both halved or doubled: 24 at most. Block sizes that the text
        states, as a template's does, are not varied: the result's `in_text` lists them, and `t.inductor.choices` has the
        templates with other sizes. On the attached GPU each config is compiled and launched in another process, for `timeout`
        seconds at most, on the arguments of the traced call, with a cold cache, in turn with the kernel's own config. For a GPU
        you don't have, each is compiled, and its time is predicted from the machine code. `k.edit(k.source, config=tuning.best)`
        uses a config, `k.candidates[config]` has its texts. For a hand-written kernel without `configs`, only its candidates and
        the number of warps are tried: only `edit` can tell whether it is right with other constants.

        LiveError for a loaded trace, NoVerbError for a kernel that has no configs.
        """
        live = needs_live(self._trace, "tuning")
        with live.watchers.verb(f"{self.name}.tune()"):
            own = tuple({k: v for k, v in row.items() if k not in ("ms", "taken")} for row in candidate_rows(self))
            return live.tune(Tune(self.artifact, self._wrapper_file, configs, own, timeout))

    @property
    def edits(self) -> Edits:
        """The edits of this kernel: `edits.table`, `edits.current`, `edits.reset()`; LiveError for a loaded trace."""
        return edits_of_kernel(self._trace, self.artifact, self._wrapper_file)

    @property
    def _wrapper_file(self) -> str:
        """The name of the file of the wrapper that launches this kernel."""
        return wrapper_file(self._trace, self.artifact)

    def passes(self) -> Table:
        """One row per MLIR pass of this Triton kernel: stage, name, whether it changed anything, text before and after.

        The passes run in a process of their own, so a crash of MLIR or LLVM harms nothing: the rows end with the pass that
        crashed, whose `error` says how. LiveError for a loaded trace, NoVerbError for a C++ kernel.
        """
        live = needs_forms(self._trace, "passes")
        with live.watchers.verb(f"{self.name}.passes()"):
            return live.passes(self.artifact)

    def layout(self, name: str, line: int = 0) -> Layout:
        """Which thread, warp and register holds which element of a value of the TTGIR; of shared memory, which byte.

        `name` is a value as the text has it ("%tmp0") or an alias of a layout ("#blocked"), which is shown for the largest value
        that has it; `line` picks one of several values of a name. InputError for a name that the TTGIR lacks and for a layout
        that is not known here, LiveError or CompileError as for `text("ttgir")`.
        """
        return layout_named(self.text("ttgir"), name, line)

    def to_script(self, path: str | PathLike[str], *, inputs: str = "auto", launch: int = 0, limit: float | None = None) -> Made:
        """Write this kernel as a program of its own: it runs the kernel, checks what it writes, and times it.

        The program needs torch, triton for a Triton kernel, and the kernel's device, but not explorer. It has Inductor's
        definition of the kernel, compiled with the config and the options of the launch, and the arguments of a launch: the
        first, or number `launch`. `inputs` is "real" for the recorded arguments, saved beside the script, or "random" for
        arguments of the same layout, which the script makes; by default they are real up to 64 MB. Random integers are in the
        range of the recorded ones. For a GPU you don't have the launch is recorded by the interpreter, which `limit` bounds as
        in `check`; the script runs where there is such a GPU. LiveError for a loaded trace.
        """
        from explorer.lab.scripts.write import kernel_to_script

        live = needs_live(self._trace, "a script")
        with live.watchers.verb(f"{self.name}.to_script()"):
            return kernel_to_script(
                self._trace, live, self.artifact, path, gpu=self._trace.target, inputs=inputs, launch=launch, limit=limit
            )

    def values(self, *, max_launches: int | None = None, limit: float | None = None) -> Table:
        """Run what was compiled, and return the arguments of each launch of this kernel: see `t.live.values("kernel")`."""
        from explorer.lab.stepping.launch_values import launch_values

        live = needs_live(self._trace, "the arguments of launches")
        with live.watchers.verb(f"{self.name}.values()"):
            return launch_values(self._trace, live, self.artifact, max_launches, limit)

    @property
    def _described(self) -> str:
        registers = self.resources.get("registers")
        uses = uses_of(self._trace, self.artifact)
        of_region = f", compiled once, used {uses} times" if uses > 1 else ""
        return f"{len(self.artifact.lines)} lines of {self.language}{f', {registers} registers' if registers else ''}{of_region}"

    @property
    def user_lines(self) -> Table:
        """One row per line of the program that the kernel computes: file, line, code; none where no link says it."""
        kernels = compiled_kernels(self._trace)
        lines = next((kernel.user_lines for kernel in kernels if kernel.artifact.id == self.artifact.id), ())
        return Table(({"file": each.file, "line": each.number, "code": each.code} for each in lines), ("file", "line", "code"))

    def __repr__(self) -> str:
        lines = list(dict.fromkeys(place(cells_of(self._trace), row["file"], row["line"]) for row in self.user_lines))
        more = f" and {len(lines) - MAX_LINES} more" if len(lines) > MAX_LINES else ""
        of = f"; computes {', '.join(lines[:MAX_LINES])}{more}" if lines else ""
        return f"<Kernel {self.name}: {self._described}{of}; text of {', '.join(self.stages)}>"

    def _repr_html_(self) -> str:
        return self.artifact._repr_html_()


class Kernels(NamesGuessed, tuple[Kernel, ...]):
    """The generated kernels of a trace, in the order in which the output code defines them; `table` compares them."""

    _trace: Trace

    def __new__(cls, trace: Trace) -> Kernels:
        """Collect the kernels of a trace, which can say why there is none."""
        kernels = super().__new__(cls, (Kernel(trace, artifact) for artifact in trace.find("kernel")))
        kernels._trace = trace
        return kernels

    def _guess(self, name: str) -> str:
        if hasattr(Kernel, name) or name in FORMS or name in OTHER_NAMES:
            first = f"t.kernels[0].text({name!r})" if name in FORMS else f"t.kernels[0].{OTHER_NAMES.get(name, name)}"
            return guess("Kernels", name, first)
        return guess("Kernels", name, self._trace._right_name(name))

    def __reduce__(self) -> tuple[type, tuple[Trace]]:
        return Kernels, (self._trace,)

    def __getitem__(self, index: Any) -> Any:
        """One kernel by its number or name, or several by a slice; NoKernelError, which says why, if there is no such kernel."""
        if isinstance(index, slice):
            return super().__getitem__(index)
        if isinstance(index, str) and len(named := [kernel for kernel in self if kernel.name == index]) == 1:
            return named[0]
        if not isinstance(index, int) or not -len(self) <= index < len(self):
            raise no_kernel(self._trace, index)
        return super().__getitem__(index)

    def __repr__(self) -> str:
        """One line per kernel with its number; why there is none."""
        if not self:
            return f"<0 kernels: {no_kernel(self._trace, 0)}>"
        wide = len(str(len(self) - 1))
        lines = (f"{number:>{wide}}  {kernel.name}: {kernel._described}" for number, kernel in enumerate(self))
        return "\n".join([*lines, "t.kernels.table has their figures; t.kernels[0] is one, and prints its lines and texts"])

    @property
    def table(self) -> Table:
        """One row per kernel: operators, launches, grid, registers, shared, spills, bytes read and written, operations, seconds.

        Library calls are no kernels: `t.inductor.extern_calls` has them.

        `registers` and `spills` (bytes) are per thread, `shared` (bytes) and `grid` per launch; `read` and `written` (bytes) and
        `seconds` are totals of all `launches` in one run of the code. `operations` counts the matrix products and attention in
        it. `timed` is "measured" or "estimated". Unknown figures are None; `bytes_known` and `seconds_known` say how a figure is
        known, or why there is none. `outside` says what makes an estimate unlike those that were compared with measured times
        (benchmarks/estimates.py), "" if nothing does.
        """
        return kernel_table(self._trace)
