"""LiveKernel: a hand-written Triton kernel, its launch, and its ladder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from explorer.capture.interpret.sanitizer import Sanitizer
from explorer.capture.ladder.ladder import Ladder
from explorer.capture.splice.calls import RecordedCall
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.launches import Hear, RecordedLaunch
from explorer.capture.splice.tuning import Tune, Tuning
from explorer.capture.splice.wrappers import Wrapper
from explorer.errors import CompileError, InputError
from explorer.lab.live.check_rows import written_rows
from explorer.lab.live.editing import EditRequest
from explorer.lab.live.kernel_call import KernelCall, matched
from explorer.lab.live.ladders import lines_of_ptx, mlir_passes, sass_of
from explorer.lab.live.launching import Launching
from explorer.lab.live.protocol import Live, TraceAgain, no_verb
from explorer.lab.live.timing import Seconds
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.process.under_way import Watchers
from explorer.reference.gpus.figures import Target


@dataclass
class LiveKernel(Live):
    """The live part of a hand-written kernel. If its compile failed, `ladder` is None and `error` is set.

    `compile_with` compiles the kernel with a different candidate, by number or by values. `launching` edits and tunes it.
    """

    call: KernelCall
    compile_with: Callable[[int | Mapping[str, Plain]], Ladder]
    launching: Launching
    ladder: Ladder | None = None
    error: BaseException | None = None
    absent: Target | None = None
    watchers: Watchers = field(default_factory=Watchers, compare=False, repr=False)

    @property
    def wrappers(self) -> Sequence[Wrapper]:
        """None: Inductor did not compile the kernel."""
        return ()

    # The traced call -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Any:
        """NoVerbError: a traced kernel was not run."""
        raise no_verb(
            "there is no result",
            "explorer.trace compiles a kernel and runs nothing",
            "t.live.run() runs it on copies of its arguments and returns what it writes, t.check(expected=…) compares that",
        )

    @property
    def gradients(self) -> Mapping[str, Any]:
        """NoVerbError: a kernel is not differentiated."""
        raise no_verb(
            "there are no gradients",
            "a hand-written kernel is not differentiated",
            "trace the function that launches it, with train=True",
        )

    def run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the kernel on copies of its arguments or of new ones: the tensors that it writes, by name; see `t.live.run`.

        An edit in place of the kernel runs only on the arguments of the trace.
        """
        call = self.call
        if self.launching.standing is not None:
            if args or kwargs:
                raise no_verb(
                    "an edit is not run on new arguments",
                    "it was compiled for those of the trace",
                    "t.live.run() runs it on these, t.kernels[0].edits.reset() puts the original back",
                )
            return self._edited()
        if args or kwargs:
            call = replace(call, args=args or call.args, constants={**call.constants, **kwargs})
        return call.run()[0]

    def check(self, limit: float | None = None, expected: Any = None) -> Table:
        """Compare the tensors that the kernel writes with the expected ones: see `Trace.check`.

        Without `expected`, an edit in place of the kernel is compared with the kernel's own results.
        """
        edited = self.launching.standing is not None
        if expected is None and edited:
            return self.launching.check(limit)
        if expected is None:
            raise InputError(
                "explorer checks a hand-written kernel against the values that it should write: give expected=, a tensor"
            )
        written, interpreted = (self._edited(limit), self.absent is not None) if edited else self.call.run(limit)
        return Table({**row.mapping(), "interpreted": interpreted} for row in written_rows(matched(written, expected)))

    def sanitize(self, limit: float | None = None) -> Sanitizer:
        """Interpret the launch on copies, and watch each access: see `Trace.sanitize`; NoVerbError while an edit is in place."""
        if self.launching.standing is not None:
            raise no_verb(
                "an edit of a hand-written kernel is not sanitized",
                "explorer interprets the kernel that was traced",
                "t.kernels[0].edits.reset() puts the original back",
            )
        return self.call.sanitize(limit)

    def _edited(self, limit: float | None = None) -> dict[str, Any]:
        """Return the tensors that the edit in place of the kernel writes, by name."""
        import torch

        launch, names = self.launching.launch(limit), [name for name, _ in self.call.tensors()]
        positions = [n for n, value in enumerate(launch.after) if isinstance(value, torch.Tensor)]
        changed = launch.changed
        return {name: launch.after[n] for name, n in zip(names, positions, strict=True) if n in changed}

    def launches(
        self,
        kernels: Collection[tuple[str, str]],
        most: int | None = None,
        limit: float | None = None,
        hear: Hear | None = None,
    ) -> list[RecordedLaunch]:
        """NoVerbError: there is no wrapper that launches the kernel."""
        raise no_verb(
            "the launches of a hand-written kernel are not recorded",
            "explorer.trace is given the one launch",
            "its arguments are those that you gave; t.live.run() gives the tensors that it writes",
        )

    def calls(self, limit: float | None = None) -> list[RecordedCall]:
        """NoVerbError: there is no wrapper."""
        raise no_verb(
            "there is no output code whose calls could be recorded",
            "Inductor did not compile the kernel",
            "explorer.trace(f, x) traces the function that launches it",
        )

    def benchmark(self, repeats: int, others: Sequence[Live] = ()) -> Table:
        """NoVerbError: a kernel is not timed here."""
        _not_timed()

    def time_call(self, trace: TraceData, repeats: int) -> Table:
        """NoVerbError: a kernel is not timed here."""
        _not_timed()

    def time_kernels(self, trace: TraceData, repeats: int) -> Table:
        """NoVerbError: a kernel is not timed here."""
        _not_timed()

    # Edits of kernels and of output code ---------------------------------------------------------------------------

    def edit(self, edit: EditRequest) -> Edit:
        """Compile another text of the kernel, try it, and put it in place where it writes what the kernel writes."""
        try:
            return self.launching.edit(edit)
        finally:
            self.watchers.changed()

    def edits_of(self, artifact: Artifact) -> tuple[Edit, ...]:
        """The edits of the kernel."""
        return tuple(self.launching.edits)

    def standing(self, artifact: Artifact, file: str) -> Edit | None:
        """Return the edit in place of the kernel; None if the original is in place."""
        return self.launching.standing

    def reset(self, artifact: Artifact, file: str) -> bool:
        """Put the kernel back in the place of an edit; False if the original is in place."""
        was_edited = self.launching.reset()
        self.watchers.changed()
        return was_edited

    def tune(self, tune: Tune) -> Tuning:
        """Compare configs of the kernel: see `Kernel.tune`."""
        return self.launching.tune(tune)

    # A second trace ------------------------------------------------------------------------------------------------

    @property
    def trace_again(self) -> TraceAgain:
        """NoVerbError: what can be changed is torch.compile's."""
        raise no_verb(
            "there is no what-if of a hand-written kernel",
            "fusion, passes, patterns and options are those of torch.compile, which did not compile it",
            "t.kernels[0].candidates[config] compiles it otherwise; explorer.trace(f, x) traces the function that launches it",
        )

    def compare(self, other: Live) -> Table:
        """NoVerbError: a kernel returns nothing that could be compared."""
        raise no_verb(
            "two traces of hand-written kernels are not compared",
            "a kernel returns nothing",
            "t.check(expected=…) compares what it writes, also with what t.live.run() of the other trace gives",
        )

    def race(self, other: Live, repeats: int) -> tuple[Seconds, Seconds]:
        """NoVerbError: a kernel is not timed here."""
        _not_timed()

    # The forms of the kernel ---------------------------------------------------------------------------------------

    def assembly(self, kernel: Artifact) -> Artifact:
        """NoVerbError: assembly is made of C++ kernels."""
        raise no_verb(
            f"{kernel.kernel} has no text 'assembly'",
            "it is a Triton kernel, and assembly is made of C++ kernels",
            "t.kernels[0].stages lists its forms",
        )

    def form(self, kernel: Artifact, stage: str) -> Artifact:
        """NoVerbError: forms are made of Pallas and Halide kernels."""
        raise no_verb(
            f"{kernel.kernel} has no text {stage!r}",
            "it is a Triton kernel, and this form is made of kernels in another language",
            "t.kernels[0].stages lists its forms",
        )

    def sass(self, kernel: Artifact) -> str:
        """The SASS of the kernel, made now."""
        return sass_of(self._ladder(kernel))

    def ptx_lines(self, kernels: Sequence[Artifact]) -> list[tuple[int, ...]]:
        """For the kernel the line of its PTX that each instruction of its SASS was assembled from."""
        return lines_of_ptx([self._ladder(kernel) for kernel in kernels])

    def binary(self, kernel: Artifact) -> bytes:
        """The cubin, hsaco or SPIR-V of the kernel."""
        return self._ladder(kernel).binary

    def passes(self, kernel: Artifact) -> Table:
        """Each MLIR pass of the kernel."""
        return mlir_passes(self._ladder(kernel))

    def candidate(self, kernel: Artifact, config: int | Mapping[str, Plain]) -> Ladder:
        """The kernel compiled with another of its autotune candidates."""
        return self.compile_with(config)

    def _ladder(self, kernel: Artifact) -> Ladder:
        """The ladder of the only kernel there is; CompileError where it did not compile."""
        if self.ladder is None:
            raise CompileError(f"{kernel.kernel} has no form below its source: {self.error}") from self.error
        return self.ladder

    # Inductor's choices --------------------------------------------------------------------------------------------

    def choice(self, source: str) -> Ladder:
        """NoVerbError: Inductor chose nothing."""
        _no_choices()

    @property
    def choice_stages(self) -> tuple[str, ...]:
        """NoVerbError: Inductor chose nothing."""
        _no_choices()

    def choice_passes(self, source: str) -> Table:
        """NoVerbError: Inductor chose nothing."""
        _no_choices()

    def choice_source(self, source: str) -> Mapping[str, Plain]:
        """NoVerbError: Inductor chose nothing."""
        _no_choices()


def _not_timed() -> NoReturn:
    raise no_verb(
        "a hand-written kernel is not timed here",
        "explorer.trace compiles it, and a time needs launches on its GPU",
        "launch it there under triton's do_bench",
    )


def _no_choices() -> NoReturn:
    raise no_verb(
        "a hand-written kernel has no choices",
        "Inductor, which chooses among implementations of an operator, did not compile it",
        "t.kernels[0].candidates.table lists its configs, and t.kernels[0].candidates[n] compiles one",
    )
