"""Live: what the process that made a trace can still do with it.

Two things are traced, so there are two implementations: `LiveFunction` of a function that torch.compile compiled, and
`LiveKernel` of a hand-written Triton kernel. Both have every member. What one of them cannot do raises `NoVerbError`, which
says why and what to do instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

from explorer.analysis.questions import missing
from explorer.capture.compilers.torch_compile import mode_options
from explorer.capture.ladder.ladder import Ladder
from explorer.capture.splice.calls import RecordedCall
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.launches import Hear, RecordedLaunch
from explorer.capture.splice.tuning import Tune, Tuning
from explorer.capture.splice.wrappers import Wrapper
from explorer.errors import InputError, LiveError, NoVerbError
from explorer.lab.live.timing import Seconds
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, NodePairs, Plain, Table
from explorer.process.under_way import Watchers
from explorer.reference.gpus.figures import Target

if TYPE_CHECKING:
    from explorer.capture.interpret.sanitizer import Sanitizer
    from explorer.lab.live.editing import EditRequest
    from explorer.tracing.traced.trace import Trace


class Changes(TypedDict, total=False):
    """The arguments of `explorer.trace` that a second trace of the same call may have otherwise."""

    keep_apart: NodePairs
    fuse: NodePairs
    without_pass: tuple[str, ...]
    without_pattern: tuple[str, ...]
    mode: str | None
    options: Mapping[str, Plain]
    backend: str
    target: str


class TraceAgain(Protocol):
    """Trace the same call once more, with some arguments of `explorer.trace` changed."""

    def __call__(self, **changes: Unpack[Changes]) -> Trace:
        """Return the second trace; the errors of `explorer.trace`."""


class MakesForms(Protocol):
    """What makes the forms of a trace's kernels in the process that recorded them, see `forms_of_kernels`.

    `keeps_call` says whether what was compiled can be called too.
    """

    keeps_call: bool = True
    #: The open views of the trace, which are told what a verb is doing.
    watchers: Watchers

    def assembly(self, kernel: Artifact) -> Artifact:
        """The assembly of a C++ kernel (2 to 10 s), made once; LiveError with the C++ compiler's words where it fails."""

    def form(self, kernel: Artifact, stage: str) -> Artifact:
        """A form of a Pallas or Halide kernel, made once; where JAX refuses to make it, its text is the reason."""

    def sass(self, kernel: Artifact) -> str:
        """The SASS of a Triton kernel (0.3 s)."""

    def ptx_lines(self, kernels: Sequence[Artifact]) -> list[tuple[int, ...]]:
        """For each Triton kernel the line of its PTX that each SASS instruction was assembled from, in order; () if not known."""

    def binary(self, kernel: Artifact) -> bytes:
        """The cubin, hsaco or SPIR-V of a Triton kernel."""

    def passes(self, kernel: Artifact) -> Table:
        """One row per MLIR pass of a Triton kernel: see `ladder.triton_passes.passes`."""

    def candidate(self, kernel: Artifact, config: int | Mapping[str, Plain]) -> Ladder:
        """Compile a Triton kernel with another of its autotune candidates; InputError for a config that it does not have."""


class Live(MakesForms, Protocol):
    """What a trace has of the process that made it, see `live_of`. Kernels are given by their artifact of stage "kernel"."""

    #: The error that the compiler raised; None where it compiled everything.
    error: BaseException | None
    #: The GPU you don't have for which the kernels are; None for an attached device.
    absent: Target | None

    @property
    def wrappers(self) -> Sequence[Wrapper]:
        """Inductor's wrappers, in which kernels can be replaced; () if there are none."""

    # The traced call -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Any:
        """What the traced call returned; CompileError where the compile failed."""

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The gradients of a training trace, by the names of inputs and parameters; CompileError where the compile failed."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function or kernel, on copies of the traced arguments or on new ones: see `t.live.run`."""

    def check(self, limit: float | None = None, expected: Any = None) -> Table:
        """Compare the compiled results with the right ones, one row per tensor: see `Trace.check`. `limit` is in seconds."""

    def sanitize(self, limit: float | None = None) -> Sanitizer:
        """Interpret the traced call once, on copies, and watch each access of its Triton kernels: see `Trace.sanitize`."""

    def launches(
        self,
        kernels: Collection[tuple[str, str]],
        most: int | None = None,
        limit: float | None = None,
        hear: Hear | None = None,
    ) -> list[RecordedLaunch]:
        """Run the traced call on copies, and record the launches of kernels, each given by its wrapper's file and its name.

        At most `most` of each are recorded. `limit` is the most seconds that interpreting may be estimated to take. With `hear`
        each launch is told to it as soon as it is over, and its tensors are not kept.
        """

    def calls(self, limit: float | None = None) -> list[RecordedCall]:
        """Run the traced call on copies, and record the first call of each wrapper, in the order of the calls.

        `limit` is the most seconds that interpreting may be estimated to take.
        """

    def benchmark(self, repeats: int, others: Sequence[Live] = ()) -> Table:
        """Time eager, compiled and others in turn: rows with `what`, median `seconds`, `ratio_to_eager` …

        `spread_seconds` is between the quartiles, `processor_seconds` the time of all threads.

        InputError for less than one repeat.
        """

    # Edits of kernels and of output code ---------------------------------------------------------------------------

    def edit(self, edit: EditRequest) -> Edit:
        """Compile another text, try it, and put it in place where it is right: see `Kernel.edit` and `t.live.edit`."""

    def edits_of(self, artifact: Artifact) -> tuple[Edit, ...]:
        """Return the edits of a kernel or of output code, the oldest first."""

    def standing(self, artifact: Artifact, file: str) -> Edit | None:
        """Return the edit in place of a kernel in that file's wrapper, or of the wrapper itself."""

    def reset(self, artifact: Artifact, file: str) -> bool:
        """Put back the original of a kernel of that wrapper, or of the wrapper; False if the original is in place."""

    def time_kernels(self, trace: TraceData, repeats: int) -> Table:
        """Time each kernel and library call of the trace in runs of the compiled function: see `t.live.profile`."""

    def time_call(self, trace: TraceData, repeats: int) -> Table:
        """Time one warm call of the compiled function in parts: see `t.live.cost`."""

    def tune(self, tune: Tune) -> Tuning:
        """Compare configs of a Triton kernel: see `Kernel.tune`."""

    # A second trace ------------------------------------------------------------------------------------------------

    @property
    def trace_again(self) -> TraceAgain:
        """The function that traces the same call with changes."""

    def compare(self, other: Live) -> Table:
        """Compare the results of two compiled functions on copies of this one's inputs: rows as `check` has them."""

    def race(self, other: Live, repeats: int) -> tuple[Seconds, Seconds]:
        """Time two compiled functions in turn: the median seconds of a call of this one and of the other, with their spread."""

    # Inductor's choices, by the key of their source ----------------------------------------------------------------

    def choice(self, source: str) -> Ladder:
        """Compile one of Inductor's choices down the ladder, once; CompileError where it does not compile."""

    @property
    def choice_stages(self) -> tuple[str, ...]:
        """The stages below a choice's source that can be made for this trace's target; () for none."""

    def choice_passes(self, source: str) -> Table:
        """One row per MLIR pass of one of Inductor's choices."""

    def choice_source(self, source: str) -> Mapping[str, Plain]:
        """The name, language and text of one of Inductor's choices."""


def live_of(trace: TraceData) -> Live | None:
    """What this process can still do with a trace; None for one that was loaded or recorded."""
    live: Live | None = getattr(trace, "_live", None)
    return live if live is not None and getattr(live, "keeps_call", True) else None


def forms_of_kernels(trace: TraceData) -> MakesForms | None:
    """What makes the forms of a trace's kernels in this process; None for a trace that was loaded."""
    makes: MakesForms | None = getattr(trace, "_live", None)
    return makes


def needs_forms(trace: TraceData, what: str, to_keep: str = "") -> MakesForms:
    """Return what makes the forms of a trace's kernels; the LiveError of `needs_live` for a trace that was loaded."""
    return forms_of_kernels(trace) or needs_live(trace, what, to_keep)


def needs_live(trace: TraceData, what: str, to_keep: str = "") -> Live:
    """Return what is live of a trace; LiveError, which says what was asked and what to do, where nothing is.

    `to_keep` is the call that puts it into a file.
    """
    if (live := live_of(trace)) is None:
        if forms_of_kernels(trace) is not None:
            raise LiveError(f"{what} needs the traced call, and explorer.record keeps none; call explorer.trace to have it")
        raise LiveError(
            f"{what} needs the process that made this trace; call explorer.trace again to have it "
            f"(a trace that was loaded has texts only){to_keep and f'; {to_keep} keeps it'}"
        )
    return live


def with_options(trace: TraceData, options: Mapping[str, Plain]) -> Changes:
    """Add options to those of the trace. torch.compile takes a mode or options, so a mode is replaced by its options."""
    mode = trace.meta.get("mode")
    of_trace = {**(mode_options(str(mode)) if mode else {}), **(trace.meta.get("options") or {})}
    return {"mode": None, "options": {**of_trace, **options}}


def no_text(trace: TraceData, stage: object) -> InputError:
    """Build the error for a stage without a text: why there is none, and how to get it."""
    return missing.no_text(trace, stage, is_live=forms_of_kernels(trace) is not None)


def no_verb(what: str, why: str, instead: str) -> NoVerbError:
    """Build the error for what a live trace cannot do: what there is not, why, and what to do instead."""
    return NoVerbError(f"{what}: {why}; {instead}")


def no_interpreter(device: str) -> NoVerbError:
    """Build the error for a trace whose kernels are not interpreted, because they run on their own device."""
    return no_verb(
        f"kernels for {device} are not sanitized",
        "explorer watches Triton kernels that it interprets, and these run on their device",
        "trace the same call on CPU tensors with target='h100', or another name of explorer.targets()",
    )


def check_unedited(live: Live, codes: Iterable[Artifact], verb: str) -> None:
    """Raise NoVerbError if output code is edited: the edit's launches are not those that the trace shows."""
    if any(live.standing(code, typed(OutputCode, code.data).file) for code in codes):
        raise no_verb(
            f"{verb} does not look at edited output code",
            "its launches are not those of this trace",
            "t.live.edits.reset() puts the original back",
        )
