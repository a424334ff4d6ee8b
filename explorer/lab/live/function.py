"""LiveFunction: the compiled function of one trace, its arguments and its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from explorer.capture.absent.cuda_on_cpu import types_of_the_gpu
from explorer.capture.absent.generated import Code, Generated
from explorer.capture.interpret.remembered import Remembered
from explorer.capture.interpret.sanitizer import Sanitizer
from explorer.capture.ladder.ladder import Ladder
from explorer.capture.observe.patch import guard_here, shielded
from explorer.capture.observe.uncompiled import as_eager
from explorer.capture.observe.without_data import NO_DATA
from explorer.capture.splice.calls import CALL, RecordedCall, recorded_calls
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.launches import Hear, RecordedLaunch, recorded_launches
from explorer.capture.splice.tuning import Tune, Tuning
from explorer.capture.splice.wrappers import LoadedWrapper, Wrapper
from explorer.errors import CompileError, InputError, InterpretError, LiveError, NoVerbError
from explorer.lab.live.call import Call, run_call
from explorer.lab.live.check_rows import DRAWS, CheckRow, compared, nothing_compared
from explorer.lab.live.editing import Editing, EditRequest, EditStore
from explorer.lab.live.float64_reference import KeptReference
from explorer.lab.live.interpreted import interpreting_calls
from explorer.lab.live.kernel_forms import KernelForms
from explorer.lab.live.ladders import Ladders
from explorer.lab.live.other_threads import once_nothing_traces
from explorer.lab.live.outcome import Outcome, detached_of_state, on_copies, other_types, outcome_of
from explorer.lab.live.protocol import Live, TraceAgain, no_interpreter, no_verb
from explorer.lab.live.state import NOTHING_HELD
from explorer.lab.live.timing import Seconds, median_seconds
from explorer.lab.live.traced_numbers import TracedNumbers, guarded_numbers
from explorer.lab.live.tuning import tuned
from explorer.lab.live.wrapper_editing import WrapperEditing
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Failure, Plain, Table
from explorer.process.under_way import Watchers, step
from explorer.reference.gpus.figures import Target

if TYPE_CHECKING:
    from explorer.capture.splice.call_layers import CallTimes

#: How a trace for an absent GPU is timed on that GPU; explorer knows no attached GPU of Apple's.
ATTACHED = "; where that GPU is attached, explorer.trace(f, x, target='cuda') gives a trace that can be timed"


@dataclass
class LiveFunction(KernelForms, Live):
    """The live part of a traced function. If the compile failed, `compiled` is None and `error` is set.

    `generated` is the code that Inductor generated for a GPU you don't have; otherwise `loaded` has Inductor's modules, by
    file. `options` are the Inductor options of the compile, `trace_arguments` the keyword arguments of `trace`.
    `guard_events` are the events of its guards.
    `empty` says that tensors of the call have no data, so nothing was computed. `begun` says that the function was called, and
    `uncompiled` why the trace has no compile of it. `late_losses` lists explorer's losses after the trace was made.
    """

    call: Call
    compiled: Callable[..., Any] | None = None
    returned: Any = None
    gradients_by_name: Mapping[str, Any] | None = None
    error: BaseException | None = None
    ladders: Ladders = field(default_factory=Ladders)
    absent: Target | None = None
    retrace: TraceAgain | None = None
    trace_arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    generated: Generated | None = None
    loaded: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    guard_events: Sequence[Event] = ()
    empty: bool = False
    begun: bool = False
    uncompiled: str = ""
    late_losses: Callable[[], Sequence[Failure]] = tuple
    watchers: Watchers = field(default_factory=Watchers, compare=False, repr=False)
    edits: EditStore = field(default_factory=EditStore, compare=False, repr=False)
    remembered: Remembered = field(default_factory=Remembered, compare=False, repr=False)
    reference: KeptReference = field(default_factory=KeptReference, compare=False, repr=False)
    assembly_by_kernel: dict[str, Artifact] = field(default_factory=dict)
    forms: dict[tuple[str, str], Artifact] = field(default_factory=dict)

    @property
    def codes(self) -> Sequence[Code] | None:
        """What runs of Inductor's modules for a GPU you don't have, edits included; None for an attached device."""
        return list(map(self.edits.running, self.generated.codes)) if self.generated is not None else None

    @property
    def wrappers(self) -> Sequence[Wrapper]:
        """The wrappers that run, edits included, in the order of their compiles: see `originals`."""
        return list(map(self.edits.running, self.originals))

    @property
    def originals(self) -> Sequence[Wrapper]:
        """Inductor's wrappers as it made them; () where another compiler compiled the call."""
        if self.generated is not None:
            return self.generated.codes
        return [LoadedWrapper(module, self.options) for module in self.loaded.values()]

    def traced_numbers(self) -> TracedNumbers:
        """What gives interpreted code the numbers that the program took from its tensors when it was traced."""
        return TracedNumbers(guarded_numbers(self.guard_events))

    # The traced call -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Any:
        """What the traced call returned; CompileError, from the compiler's own error, where it failed.

        InterpretError where everything compiled, but a kernel of the program itself cannot run without its GPU.
        """
        self._raise_error()
        self._needs_data("there is no result")
        return self.returned

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The gradients of a training trace by name; the errors of `result` where the call failed."""
        self._raise_error()
        self._needs_data("there are no gradients")
        if self.gradients_by_name is None:
            raise no_verb("there are no gradients", "this trace has no backward", "call explorer.trace(..., train=True)")
        return self.gradients_by_name

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function as it is, with new arguments or with those of the trace.

        If the trace is for a GPU you don't have, Dynamo's graphs run on the CPU.
        """
        compiled = self._compiled()
        self._needs_data("nothing can be run")
        call = replace(self.call.with_arguments(args, kwargs), held=NOTHING_HELD) if args or kwargs else self.call

        def run_on_copies() -> Any:
            with on_copies(call) as copied:
                return detached_of_state(copied, run_call(compiled, copied, told=False)[0])

        with self._heeding_edits():
            returned = once_nothing_traces(run_on_copies)
        for failure in self.late_losses():  # the trace is made, and has no place for them
            warnings.warn(f"explorer: {failure}", stacklevel=3)
        return returned

    def check(self, limit: float | None = None, expected: Any = None) -> Table:
        """Compare eager and compiled on copies of the trace's inputs, output by output: see `Trace.check`."""
        if expected is not None:
            raise InputError("expected= is for hand-written kernels; a function is compared with what it returns in eager mode")
        self._needs_data("nothing can be checked")
        if self.uncompiled:
            return Table([{**nothing_compared(self.uncompiled).mapping(), "interpreted": False}])
        if self.codes is not None:
            return self._check_interpreted(self.codes, limit)
        with self._heeding_edits():
            rows = self._compared(nullcontext, DRAWS)
        return Table({**row.mapping(), "interpreted": False} for row in rows)

    def compared_once(self) -> list[CheckRow]:
        """Compare one call with eager, as `check` does but without more calls for random values, which are not judged."""
        with self._heeding_edits():
            return self._compared(nullcontext, draws=0)

    def _check_interpreted(self, codes: Sequence[Code], limit: float | None) -> Table:
        """Compare eager with the generated wrappers and kernels, which an interpreter runs."""
        numbers = self.traced_numbers()
        with interpreting_calls(self.call, codes, limit, numbers, self.remembered) as (within, calls):
            rows = self._compared(within, min(calls, DRAWS), "eager's are the CPU's")
        interprets = bool(codes or self.ladders.launched)  # a backend that generates no code has nothing to interpret
        return Table({**row.mapping(), "interpreted": interprets} for row in (*rows, *numbers.rows.values()))

    def sanitize(self, limit: float | None = None) -> Sanitizer:
        """Interpret the generated code once, on copies, and watch each access of its kernels: see `Trace.sanitize`."""
        compiled = self._compiled()
        self._needs_data("nothing can be sanitized")
        if self.codes is None:
            raise no_interpreter("the CPU or an attached GPU")
        sanitizer = Sanitizer()
        numbers = self.traced_numbers()
        with interpreting_calls(self.call, self.codes, limit, numbers, Remembered(0), sanitizer) as (within, _):
            try:
                self._outcome(compiled, within)
            except InputError as error:
                sanitizer.ended(str(error))
        return sanitizer

    @property
    def _calling(self) -> str:
        """What a view is told of a call: the interpreter takes a minute where a GPU takes milliseconds."""
        return "calling what was compiled" if self.codes is None else "interpreting what was compiled"

    def _compared(self, within: Callable[..., Any], draws: int, strides: str = "") -> list[CheckRow]:
        """The rows of a check; the compiled function is called inside `within()`."""

        def eager_outcome(seed: int) -> Outcome:
            step("calling it eagerly")
            return outcome_of(self.call.function, self.call, seed=seed)

        compiled_outcome = partial(self._outcome, self._compiled(), within)
        expected, given = eager_outcome(0), compiled_outcome(0)
        if self.absent is not None and other_types(expected, given):
            eager_outcome = partial(self._eager_in_types_of, self.absent)
            expected = eager_outcome(0)
        redo = (eager_outcome, compiled_outcome)
        with self.reference.of(self.call, expected) as truth:
            return compared(self.call, expected, given, redo=redo, draws=draws, strides=strides, truth=truth)

    def _eager_in_types_of(self, target: Target, seed: int) -> Outcome:
        """What eager gives, in the types that its operators' results have on the target."""
        step("calling it eagerly, in the types of the GPU")
        return outcome_of(self.call.function, self.call, seed=seed, within=lambda: types_of_the_gpu(target))

    def outcome(self, limit: float | None = None) -> Outcome:
        """Call what was compiled once, on copies of the trace's inputs: all that it returns and changes."""
        compiled = self._compiled()
        if self.codes is None:
            return self._outcome(compiled, nullcontext)
        with self._interpreting(limit) as (within, _):
            return self._outcome(compiled, within)

    def _outcome(self, compiled: Callable[..., Any], within: Callable[..., Any], seed: int = 0) -> Outcome:
        step(self._calling)
        return once_nothing_traces(lambda: outcome_of(compiled, self.call, seed=seed, within=within))

    def _interpreting(self, limit: float | None) -> AbstractContextManager[tuple[Callable[..., Any], int]]:
        """What runs the generated code for a GPU you don't have, see `interpreting_calls`."""
        return interpreting_calls(self.call, self.codes or (), limit, self.traced_numbers(), self.remembered)

    def launches(
        self,
        kernels: Collection[tuple[str, str]],
        most: int | None = None,
        limit: float | None = None,
        hear: Hear | None = None,
    ) -> list[RecordedLaunch]:
        """Run the traced call on copies, and record the launches of kernels: see `splice.launches.recorded_launches`.

        For a GPU you don't have, the call ends after `most` launches of each kernel: interpreting the rest may take a minute.
        """
        compiled = self._compiled()
        self._needs_data("no launch can be recorded")
        with ExitStack() as stack:
            within: Callable[[], AbstractContextManager[Any]] = nullcontext
            if self.codes is not None:
                within, _ = stack.enter_context(self._interpreting(limit))
            recorded = recorded_launches(self.wrappers, kernels, most, hear, ends=self.codes is not None)
            launches = stack.enter_context(recorded)
            step(self._calling)
            once_nothing_traces(lambda: outcome_of(compiled, self.call, within=within))
        return launches

    def calls(self, limit: float | None = None, of: Sequence[Wrapper] | None = None) -> list[RecordedCall]:
        """Run the traced call on copies, and record the first call of each wrapper: see `splice.calls.recorded_calls`."""
        compiled = self._compiled()
        self._needs_data("no call can be recorded")
        with ExitStack() as stack:
            within: Callable[[], AbstractContextManager[Any]] = nullcontext
            if self.codes is not None:
                within, _ = stack.enter_context(self._interpreting(limit))
            calls = stack.enter_context(recorded_calls(self.wrappers if of is None else of))
            step(self._calling)
            once_nothing_traces(lambda: outcome_of(compiled, self.call, within=within))
        return calls

    def _heed_edits(self) -> None:
        """Call the compiled function once if there are edits, to warn of idle ones: timed calls must not be watched."""
        if self.edits.standing:
            with self._heeding_edits(), on_copies(self.call) as call:
                once_nothing_traces(lambda: self.call_compiled(call))

    def benchmark(self, repeats: int, others: Sequence[Live] = ()) -> Table:
        """Time eager, compiled and others in turn, each on copies of its trace's inputs: the median seconds of each."""
        if repeats < 1:
            raise InputError(f"repeats must be at least 1, not {repeats}")
        compiled = (self, *map(_function, others))
        for live in compiled:
            live._needs_its_device()
            live._heed_edits()
        with ExitStack() as copies:
            calls = [partial(run_call, self.call.function, copies.enter_context(on_copies(self.call)))]
            for live in compiled:
                calls.append(partial(run_call, live._compiled(), copies.enter_context(on_copies(live.call))))
            medians = median_seconds(calls, repeats)
        names = ("eager", "compiled", *(f"other {n}" for n in range(1, len(compiled))))
        return Table(
            {
                "what": name,
                "seconds": seconds.clock,
                "spread_seconds": seconds.spread,
                "ratio_to_eager": seconds.clock / medians[0].clock,
                "processor_seconds": seconds.processor,
            }
            for name, seconds in zip(names, medians, strict=True)
        )

    # EditStore of kernels and of output code ---------------------------------------------------------------------------

    def edit(self, edit: EditRequest) -> Edit:
        """Compile another text of a kernel or of output code, try it, and put it in place where it is right."""
        self._compiled()
        self._needs_data("no edit can be run")
        editing = Editing if edit.artifact.kernel else WrapperEditing
        try:
            return editing(self, edit).made()
        finally:
            self.watchers.changed()

    def edits_of(self, artifact: Artifact) -> tuple[Edit, ...]:
        """The edits of a kernel or of output code."""
        return self.edits.of(artifact)

    def standing(self, artifact: Artifact, file: str) -> Edit | None:
        """Return the edit in place of a kernel or of output code; None if the original is in place."""
        return self.edits.in_place_of((file, artifact.kernel or CALL))

    def _heeding_edits(self) -> AbstractContextManager[None]:
        """Warn of each edit in code that is not run inside the block.

        For a GPU you don't have there is no warning: a check interprets the trace's own code, and no other verb runs that code.
        """
        heeds = self.absent is None and bool(self.edits.standing)
        return self.edits.heeded(self.originals) if heeds else nullcontext()

    def reset(self, artifact: Artifact, file: str) -> bool:
        """Put the original of a kernel or of output code back; False if the original is in place."""
        was_edited = self.edits.reset((file, artifact.kernel or CALL))
        self.watchers.changed()
        return was_edited

    def tune(self, tune: Tune) -> Tuning:
        """Compare configs of a Triton kernel: see `Kernel.tune`."""
        self._compiled()
        self._needs_data("no config can be timed")
        return tuned(self, tune)

    def call_compiled(self, call: Call) -> Any:
        """Call the compiled function with the arguments of `call`, which it may change, as a trace does."""
        return run_call(self._compiled(), call, told=False)

    def time_kernels(self, trace: TraceData, repeats: int) -> Table:
        """Time each kernel and library call in runs of the compiled function on copies: see `live.kernel_times`."""
        compiled = self._compiled()
        self._needs_data("nothing can be timed")
        self._needs_its_device()

        def run() -> None:
            with on_copies(self.call) as call:  # for each run: a function may change its arguments
                run_call(compiled, call)

        from explorer.lab.live.kernel_times import time_kernels

        return time_kernels(trace, self.wrappers, partial(once_nothing_traces, run), repeats)

    def time_call(self, trace: TraceData, repeats: int) -> Table:
        """Time a warm call in parts, on copies of the arguments: see `t.live.cost`."""
        if repeats < 1:
            raise InputError(f"repeats must be at least 1, not {repeats}")
        compiled = self._compiled()
        self._needs_data("nothing can be timed")
        self._needs_its_device()
        from explorer.capture.splice.call_layers import time_layers
        from explorer.lab.live.call_parts import cost_rows

        texts = [a for a in trace.find("output_code") if a.data.get("file")]
        kernels = {str(a.data["file"]): [kernel.kernel for kernel in trace.find("kernel", a.frame, a.graph)] for a in texts}

        def timed() -> CallTimes:
            with on_copies(self.call) as call:

                def once(function: Callable[..., Any]) -> Any:
                    call.held.put_back()  # a call may change what its guards hold
                    return function(*call.args, **call.kwargs)

                def measure(*_: Any, **__: Any) -> CallTimes:
                    import torch

                    with torch.set_grad_enabled(call.train):
                        plain = partial(once, call.function)
                        within = partial(shielded, as_eager, guard_here(), "eager mode")
                        return time_layers(partial(once, compiled), plain, self.wrappers, kernels, repeats, eagerly=within)

                return cast("CallTimes", run_call(measure, replace(call, train=False), told=False)[0])

        own, of_trace = ([each.frame for each in guards] for guards in (self.guard_events, trace.find("guards")))
        frames = dict(zip(own, of_trace, strict=True)) if len(own) == len(of_trace) else {}
        return cost_rows(trace, once_nothing_traces(timed), frames)

    # A second trace ------------------------------------------------------------------------------------------------

    @property
    def trace_again(self) -> TraceAgain:
        """The function that traces the same call with changes."""
        if self.retrace is None:
            raise no_verb(
                "the call cannot be traced again",
                "explorer itself failed around it, as the trace's failures say",
                "call explorer.trace with the changes yourself",
            )
        return self.retrace

    def compare(self, other: Live) -> Table:
        """Compare this with another compiled function on copies of this one's inputs, with one seed, by the judge of a check."""
        self._needs_data("nothing can be compared")
        outcomes = self._outcomes(self), self._outcomes(_function(other))
        return Table(row.mapping() for row in compared(self.call, outcomes[0](0), outcomes[1](0), redo=outcomes))

    def _outcomes(self, live: LiveFunction) -> Callable[[int], Outcome]:
        """What calls the compiled function of `live` with the inputs of this trace and a seed."""
        compiled, call = live._compiled(), replace(self.call, function=live.call.function)

        def outcome(seed: int) -> Outcome:
            step("comparing the results")
            return once_nothing_traces(lambda: outcome_of(compiled, call, seed=seed))

        return outcome

    def race(self, other: Live, repeats: int) -> tuple[Seconds, Seconds]:
        """Time this and another compiled function in turn: the median seconds of a call of each, and their spread."""
        both = self, _function(other)
        for live in both:
            live._needs_its_device()
        with on_copies(self.call) as one, on_copies(both[1].call) as two:
            calls = [partial(run_call, live._compiled(), call) for live, call in zip(both, (one, two), strict=True)]
            first, second = median_seconds(calls, repeats)
        return first, second

    # The forms of a kernel -----------------------------------------------------------------------------------------

    def _launched_with(self, kernel: Artifact) -> Sequence[Any]:
        """The arguments of a kernel's first launch, when the program runs again."""
        files = [wrapper.file for wrapper in self.originals if kernel.kernel in wrapper.text]
        launches = [launch for file in files for launch in self.launches([(file, kernel.kernel)], most=1)]
        if not launches:
            raise LiveError(f"{kernel.kernel} was not launched when the program ran again, and JAX needs its arguments")
        return launches[0].before

    # Inductor's choices --------------------------------------------------------------------------------------------

    def choice(self, source: str) -> Ladder:
        """One of Inductor's choices, by its source's key, compiled down the ladder."""
        return self.ladders.choice(source)

    @property
    def choice_stages(self) -> tuple[str, ...]:
        """The stages below a choice's source that can be made for this trace's target."""
        return self.ladders.choice_stages

    def choice_passes(self, source: str) -> Table:
        """Each MLIR pass of one of Inductor's choices."""
        return self.ladders.choice_passes(source)

    def choice_source(self, source: str) -> Mapping[str, Plain]:
        """The name, language and text of one of Inductor's choices."""
        return self.ladders.choice_source(source)

    # What a verb needs ---------------------------------------------------------------------------------------------

    def _compiled(self) -> Callable[..., Any]:
        """Return the compiled function, to call it again; CompileError if the compile failed, NoVerbError with hooks."""
        if self.call.hooked:
            raise no_verb(
                "it is not called again",
                "hooks of DDP or FSDP2 exchange with other ranks in each call, and change what explorer cannot put back",
                "trace the module before it is wrapped",
            )
        if self.compiled is None:
            raise CompileError("the compile failed, so there is nothing to run") from self.error
        return self.compiled

    def _raise_error(self) -> None:
        """Raise what kept the call from having a result."""
        if isinstance(self.error, InterpretError):
            raise self.error
        if self.error is not None:
            raise CompileError(f"the compile failed: {type(self.error).__name__}: {self.error}") from self.error

    def _needs_data(self, consequence: str) -> None:
        """NoVerbError where the tensors have no data."""
        if self.empty:
            raise NoVerbError(NO_DATA.format(what=consequence))

    def _needs_its_device(self) -> None:
        """NoVerbError where the trace is for a GPU you don't have: nothing can be timed on it."""
        if self.absent is not None:
            raise no_verb(
                f"{self.absent.name!r} is not attached, so nothing can be timed on it",
                "the CPU's times would say nothing of it",
                "t.kernels.table estimates each kernel" + (ATTACHED if self.absent.device != "mps" else ""),
            )


def _function(live: Live) -> LiveFunction:
    """The compiled function that is compared with another; NoVerbError for a hand-written kernel."""
    if not isinstance(live, LiveFunction):
        raise no_verb(
            "the two traces cannot be compared",
            "one is of a compiled function, the other of a hand-written kernel",
            "t.check(expected=…) of the kernel compares what it writes with what the function returns",
        )
    return live
