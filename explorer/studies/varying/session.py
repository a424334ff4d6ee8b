"""A session: one compiled function, called again and again, with what Dynamo did at each call."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.capture.absent.in_place_of_gpu import in_place_of_gpu
from explorer.capture.absent.torch_cuda import torch_cuda_answers
from explorer.capture.compilers import backend as backends
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.observe.patch import ON_PURPOSE
from explorer.capture.observe.recompiles import CallsOfDynamo, CompileAttempt, SizesSeen, calls_of_dynamo, limits_kept
from explorer.capture.observe.torch_logs import torch_logs_kept_from_terminal
from explorer.lab.live.outcome import on_copies
from explorer.model.records import typed
from explorer.model.values import Event, Plain
from explorer.process.garbage import full_collections_paused
from explorer.stages import STAGES
from explorer.stages.dynamo.source import SourceText
from explorer.stages.fx_graph import short
from explorer.stages.replay import names_of
from explorer.studies.varying.failing import FailedGuard, failed_guards
from explorer.studies.varying.varied_call import varied
from explorer.studies.varying.vary import UNCHANGED, Vary
from explorer.tracing.recording.arguments import check_names, check_settings
from explorer.tracing.recording.cells import with_cells
from explorer.tracing.recording.recorder import Recorder, recording
from explorer.tracing.recording.trace import Plan
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events

#: The stances in which a failed guard compiles nothing.
RUNS_ONLY = ("force_eager", "eager_on_recompile")


@dataclass(frozen=True)
class Observed:
    """What Dynamo did at one call: its compiles, the graphs that ran, the guards that failed, and the error that ended it.

    `compiled`, `ran` and the attempts' frames are compile ids of the session. `entries` is how many the fullest cache of a frame
    has after the call. `apart` says that a different torch.compile was called than in the first call.
    """

    number: int
    vary: Vary
    outcome: str
    compiled: tuple[str, ...]
    ran: tuple[str, ...]
    attempts: tuple[CompileAttempt, ...]
    failed: tuple[FailedGuard, ...]
    entries: int
    seconds: float
    note: str
    error: Exception | None
    apart: bool
    events: Sequence[Event] = field(repr=False)


class Session:
    """One function compiled afresh, with a cache of its own, and its calls in order.

    The function's own cache in Dynamo is left alone. Each call is on copies of the arguments, and what the function changes
    besides is put back.
    """

    def __init__(self, plan: Plan, limits: dict[str, int]) -> None:
        self.plan = plan
        self.calls: list[Observed] = []
        self.recorder = Recorder()
        self.limits = limits
        self._compiled: dict[tuple[tuple[str, Any], ...], Any] = {}
        self._noted = CallsOfDynamo()
        self._sizes = SizesSeen()
        self._exceeded: dict[str, int] = {}  # frames whose limit was reached, with the number of the call
        self._entries: dict[str, int] = {}  # of the cache of each frame

    def call(self, vary: Vary = UNCHANGED) -> Observed:
        """Call the function as `vary` says. An error of the program's, or of the compiler's, is part of what is returned.

        InputError where the call has no such argument.
        """
        with on_copies(self.plan.call) as copied:
            change = varied(copied, vary)
            start = len(self.recorder.events)
            self._noted.ran.clear()
            self._noted.attempts.clear()
            began, error = time.perf_counter(), None
            with self._recorded():
                compiled = self._function(change.settings)
                try:
                    with change.in_force(), self._in_place_of_gpu():
                        compiled(*change.call.args, **change.call.kwargs)
                except ON_PURPOSE:
                    raise
                except Exception as raised:  # noqa: BLE001 what a variation raises is what the probe shows of it
                    error = raised
            seconds = time.perf_counter() - began
        observed = self._observed(vary, with_cells(self.recorder.events[start:]), seconds, error)
        self.calls.append(observed)
        return observed

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Record the call with all probes; Dynamo goes on from the session's earlier calls, with the program's own limits."""
        absent = self.plan.absent
        with ExitStack() as stack:
            stack.enter_context(full_collections_paused())
            stack.enter_context(torch_logs_kept_from_terminal())
            stack.enter_context(recording(STAGES, self.recorder, cold=True, absent=absent))
            stack.enter_context(limits_kept(self.limits))
            stack.enter_context(self._sizes.in_use())
            stack.enter_context(calls_of_dynamo(self._noted))
            yield

    @contextmanager
    def _in_place_of_gpu(self) -> Iterator[None]:
        """Let the CPU do what a GPU you don't have would, and torch.cuda answer for it."""
        absent, ambient = self.plan.absent, self.plan.call.ambient
        with ExitStack() as stack:
            if absent is not None:
                stack.enter_context(in_place_of_gpu(device=absent.device))
                stack.enter_context(torch_cuda_answers(absent))
                if ambient is not None:
                    stack.enter_context(ambient.again())
            yield

    def _function(self, settings: Any) -> Any:
        """The compiled function with these settings of torch.compile in place of the probe's; compiled afresh once."""
        key = tuple(sorted(settings.items()))
        if key not in self._compiled:
            request = self.plan.request
            asked = replace(request, **settings)
            check_settings(asked)
            check_names(asked)
            chosen = {**request.compile_settings(), **settings}
            backend, options = backends.given_to_torch(
                request.backend, self.recorder, chosen, absent=self.plan.absent is not None
            )
            self._compiled[key] = compiling.compiled_apart(self.plan.call.function, backend, options)
        return self._compiled[key]

    def _observed(self, vary: Vary, events: Sequence[Event], seconds: float, error: Exception | None) -> Observed:
        """Put what was noted of the call into words of the session."""
        names = names_of(self.recorder.events)
        attempts = tuple(replace(a, frame=names.get(a.frame, a.frame)) for a in self._noted.attempts)
        compiled = tuple(dict.fromkeys(names.get(e.frame, e.frame) for e in events if e.kind == "guards"))
        ran = tuple(names.get(frame, frame) for frame in self._noted.ran)
        failed = tuple(failed_guards(events, self.recorder.events, names))
        number = len(self.calls)
        for attempt in attempts:
            if attempt.exceeded:
                self._exceeded.setdefault(_frame(attempt.frame), number)
            self._entries[_frame(attempt.frame)] = attempt.entries + (attempt.frame in compiled)
        outcome, note = self._outcome(vary, compiled, ran, attempts, error)
        entries, apart = max(self._entries.values(), default=0), self._apart(vary)
        return Observed(
            number, vary, outcome, compiled, ran, attempts, failed, entries, seconds, note, error, apart, tuple(events)
        )

    def _outcome(
        self,
        vary: Vary,
        compiled: Sequence[str],
        ran: Sequence[str],
        attempts: Sequence[CompileAttempt],
        error: Exception | None,
    ) -> tuple[str, str]:
        """Say in one word what became of the call, and in a sentence what the word leaves open."""
        if error is not None:
            return "raises", in_words(error)
        again = [a for a in attempts if a.entries and a.frame in compiled]
        over = next((a for a in attempts if a.exceeded), None)
        note = self._limit_note(over) if over else ""
        if again:
            return "recompiled", note
        if over:
            return "eager", note
        if compiled:
            return "compiled", "another mode, or dynamic, is another torch.compile, with a cache of its own" * self._apart(vary)
        if ran:
            return "served", ""
        return self._without_graph(vary)

    def _without_graph(self, vary: Vary) -> tuple[str, str]:
        """Say why a call compiled nothing and ran no graph."""
        stance = next((change.value for change in vary.of("stance")), "default")
        if stance in RUNS_ONLY:
            why = "a guard failed, and " if stance != "force_eager" else ""
            return "eager", f"{why}the stance {stance!r} runs the function as it is"
        if self._exceeded:
            number = min(self._exceeded.values())
            return "eager", f"no compiled code fits, and none is added since the recompile limit was reached at call {number}"
        if any(call.ran for call in self.calls):
            return "eager", "no graph ran"
        return "served", "there is no graph in the compiled code"

    def _apart(self, vary: Vary) -> bool:
        return bool(self.calls) and any(vary.of("mode", "dynamic"))

    def _limit_note(self, over: CompileAttempt) -> str:
        """Say which limit was reached, and what that means for the calls to come."""
        limit = self.limits[over.exceeded]
        return (
            f"{over.exceeded} ({limit}) is reached: frame {_frame(over.frame)} is compiled no more, and runs eagerly whenever "
            "the guards of all its compiled code fail"
        )

    # What the calls compiled ---------------------------------------------------------------------------------------

    def meta(self) -> dict[str, Plain]:
        """What the traces of the session say of it."""
        return {**self.plan.meta(), **compiling.torch_versions()}

    def cells(self) -> dict[str, str]:
        """The notebook cells that define the session's functions, by the files that stand for them."""
        sources = [typed(SourceText, e.data) for call in self.calls for e in call.events if e.kind == "source"]
        return {short(source.file): source.cell for source in sources if source.cell}

    def trace_of(self, observed: Observed) -> Trace:
        """The trace of what one call compiled; it is replayed when it is first read."""
        return trace_of_events(observed.events, meta=self.meta())

    def first_of(self, observed: Observed) -> Trace:
        """The trace of the first call, with only those frames that the other call compiled again."""
        names = names_of(self.recorder.events)
        frames = {_frame(frame) for frame in observed.compiled}
        first = self.calls[0].events
        of_frames = [e for e in first if not e.frame or _frame(names.get(e.frame, e.frame)) in frames]
        return trace_of_events(first if observed.apart else of_frames, meta=self.meta())


def _frame(compile_id: str) -> str:
    """The frame of a compile id: "0" of "0/1"."""
    return compile_id.rpartition("/")[0]


def in_words(error: Exception) -> str:
    """An error in one line: its type, its first line, and the points that torch lists of a violated constraint."""
    lines = str(error).strip().split("\n")
    points = [line.strip().removeprefix("- ") for line in lines[1:] if line.startswith("  - ")]
    return f"{type(error).__name__}: {' '.join([lines[0].strip(), *points])}".strip()
