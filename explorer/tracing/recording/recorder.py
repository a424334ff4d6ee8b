"""Collect the events of the probes while something compiles. Nothing is parsed here and nothing is shown.

An error of explorer's becomes a `Failure` here, and goes no further.
"""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from explorer.capture.absent.generated import Generated
from explorer.capture.absent.retarget import retargeted
from explorer.capture.compilers.backend import offered
from explorer.capture.compilers.compilers import compilers, plugged_compilers
from explorer.capture.compilers.own import recorded
from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.fresh import cold_compile, every_lookup_misses, no_package_loaded, no_packages
from explorer.capture.observe.own_frames import own_frames_skipped, own_frames_unseen
from explorer.capture.observe.patch import Guard, guarding, shielded
from explorer.capture.observe.places import CallPaths
from explorer.capture.observe.probes import PROBES
from explorer.capture.observe.requests import Changes
from explorer.errors import BusyError
from explorer.model.context import Context
from explorer.model.events import CompileError
from explorer.model.stage import Facts, Stage, Unmade, Watch, watch_nothing
from explorer.model.values import Call, Event, Failure
from explorer.stages.plugged import plugged_stages
from explorer.stages.records import event_data
from explorer.stages.replay import renumber
from explorer.stages.unread import UnreadFacts
from explorer.tracing.recording.compiling_now import CompilingNow

if TYPE_CHECKING:
    from explorer.capture.absent.launches import Launches
    from explorer.reference.gpus.figures import Target

#: The most seconds that a recording waits for another thread's to end: that thread may wait for this one.
MAX_SECONDS_TO_WAIT = 60.0


class _Turn:
    """Taken by one recording at a time of those that have torch compile otherwise: cold, for an absent GPU, with changes.

    Recordings that only observe share their hooks, and need no turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait until no other thread's recording has the turn, then take it. BusyError where waiting is of no use.

        In the thread that has it, as in another asyncio task, waiting would keep that recording from ending.
        """
        seconds = 0.0 if self._thread == threading.get_ident() else MAX_SECONDS_TO_WAIT
        if not self._lock.acquire(timeout=seconds):
            where = f"in another thread, and did not end in {seconds:g} s" if seconds else "in this thread"
            raise BusyError(
                f"another recording is under way {where}, and only one at a time can change how torch compiles, as a trace and a "
                "recording for a GPU you don't have do: let the other one end before this one starts"
            )
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = None
            self._lock.release()


_TURN = _Turn()


#: What no part of torch makes, so that nobody asks for the calls that led to it: a walk up the stack for each is spared.
WITHOUT_MAKER = ("phase",)


class Recorder:
    """Collects the events of one recording; it is the `emit` that every probe is given.

    A trace is of one call: a compile in another thread is not part of it. Backward graphs on a GPU compile in autograd's
    own threads: an event counts when it comes from the trace's thread or belongs to a frame begun there. With
    `every_thread`, as in a recording of a program, each compile counts, whichever thread it is in; Dynamo compiles in
    one thread at a time.
    """

    def __init__(self, progress: Callable[[str], None] | None = None, *, every_thread: bool = False) -> None:
        self.events: list[Event] = []
        self.failures: list[Failure] = []
        self.compile_errors: list[BaseException] = []
        self.generated = Generated()  # what was compiled for a GPU you don't have
        self.seconds = 0.0  # what the explorer itself cost
        self._began = clock.perf_counter()
        self._thread = threading.get_ident()
        self._every_thread = every_thread
        self._frames: dict[str, None] = {}  # in the order they began
        self._here = _Here()
        self.guard = Guard(self.covers, {}, here=True)
        self._deferred: list[tuple[str, str, Callable[[], Facts | Unmade], float]] = []
        self._now = CompilingNow(progress)
        self._paths = CallPaths()

    def __call__(self, kind: str, facts: Callable[[], Facts | Unmade], *, time: float | None = None) -> None:
        """Record an event of `kind` now; where `facts` gives a function, what that gives when the recording is first read."""
        began = clock.perf_counter()
        frame = self._frame()
        if frame is not None and not self._here.muted:
            path = () if kind in WITHOUT_MAKER else self._paths.here()
            self._append(kind, frame, facts, began - self._began if time is None else time, path)
        self.seconds += clock.perf_counter() - began

    def later(self, kind: str, facts: Callable[[], Facts]) -> None:
        """Record an event of `kind` when the recording ends."""
        frame = self._frame()
        if frame is not None and not self._here.muted:
            self._deferred.append((kind, frame, facts, clock.perf_counter() - self._began))

    @contextmanager
    def during(self, graph: str) -> Iterator[None]:
        """Name the graph that events inside belong to."""
        self._here.graphs.append(graph)
        try:
            yield
        finally:
            self._here.graphs.pop()

    @contextmanager
    def within(self, frame: str) -> Iterator[None]:
        """Count events inside to a frame whose compile is over, or that Dynamo did not begin."""
        outer, self._here.within = self._here.within, frame
        try:
            yield
        finally:
            self._here.within = outer

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Record nothing of what this thread does inside."""
        outer, self._here.muted = self._here.muted, True
        try:
            yield
        finally:
            self._here.muted = outer

    @contextmanager
    def at(self, section: str, path: str) -> Iterator[None]:
        """Name the round of passes, and the graph in it, that is under way inside."""
        outer, self._here.round = self._here.round, (section, path)
        try:
            yield
        finally:
            self._here.round = outer

    def here(self) -> Context:
        """Where the compile of this thread is."""
        return Context(self._here.within or current_compile_id(), self._here.graph, *self._here.round)

    def place(self) -> tuple[str, str]:
        """The frame and graph under way, by the names that the trace will have for them."""
        here = Event("place", clock.perf_counter() - self._began, self._frame() or "", self._here.graph)
        return renumber([*self.events, here])[-1].frame, here.graph

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Name what the phase under way works on inside, in the progress and in the note on a Ctrl+C."""
        return self._now.doing(what)

    def attempt(self, kind: str, step: str, action: Callable[[], object]) -> None:
        """Run the explorer's own work; an error in it is recorded and goes no further."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 rule 5: an error in the explorer never breaks the user's compile
            self.fail(kind, step, error)

    def compile_failed(self, error: BaseException, failed: CompileError) -> None:
        """Record an error of a compile, and keep it to tell it from the program's own."""
        if self._frame() is not None:
            number = len(self.compile_errors)
            self.compile_errors.append(error)
            self("compile_error", lambda: replace(failed, number=number))

    def fail(self, stage: str, step: str, error: BaseException, *, fatal: bool = False) -> None:
        """Add a Failure for an error, once."""
        failure = Failure(stage, step, f"{type(error).__name__}: {error}".strip(), fatal)
        if failure not in self.failures:
            self.failures.append(failure)

    def seconds_since_last(self) -> float:
        """The seconds since the last event: of a call that is over, those after its last compile."""
        return clock.perf_counter() - self._began - max((event.time for event in self.events), default=0.0)

    def finish(self) -> None:
        """Record the events that `later` put off until the compile was over, and let go of the code that ran.

        What a backend compiled may hold this recorder. Dynamo frees it when its code is gone, so this must not hold that code.
        """
        deferred, self._deferred = self._deferred, []
        for kind, frame, facts, time in deferred:
            self._append(kind, frame, facts, time, ())
        self._paths = CallPaths()

    def _append(self, kind: str, frame: str, facts: Callable[[], Facts | Unmade], time: float, path: tuple[Call, ...]) -> None:
        def add() -> None:
            made = facts()
            data = UnreadFacts(made) if callable(made) else event_data(kind, made)
            if kind == "phase":
                data = {**data, "cost": self.seconds}
            self.events.append(Event(kind, time, frame, self._here.graph, data, path))
            if kind == "frame":
                self._now.compile_began(self.events[-1], tuple(self._frames))
            elif kind == "phase":
                self._now.phase(self.events[-1])

        self.attempt(kind, "record", add)

    def _frame(self) -> str | None:
        """Return the compile id under way; None where the event is not this recording's."""
        frame = self._here.within or current_compile_id()
        if threading.get_ident() == self._thread or (self._every_thread and frame):
            self._frames[frame] = None
            return frame
        return frame if frame in self._frames and frame else None

    def covers(self) -> bool:
        """Whether what is asked now is asked by a compile that is recorded, or by the thread that records."""
        return threading.get_ident() == self._thread or self._frame() is not None


class _Here(threading.local):
    """The place of a thread in its compile."""

    def __init__(self) -> None:
        self.graphs: list[str] = []
        self.round = ("", "")
        self.within = ""
        self.muted = False

    @property
    def graph(self) -> str:
        """The graph under way, "" where none is."""
        return self.graphs[-1] if self.graphs else ""


@contextmanager
def recording(
    stages: Sequence[Stage],
    recorder: Recorder,
    *,
    cold: bool = False,
    fresh: bool = False,
    absent: Target | None = None,
    changes: Changes | None = None,
    compiled: Callable[[], object] = lambda: None,
    launches: Launches | None = None,
) -> Iterator[Recorder]:
    """Record every compile of this thread inside the block; after it every hook and setting is as before.

    The same is observed for any `stages`; a stage of the user's own may bring its own probe. With `cold`, as for a trace, what
    earlier compiles left is set aside; with `fresh` caches are written but not read; else they are the program's own affair. With
    `absent` Inductor compiles for that GPU, which need not be there, and the program runs on the CPU; `compiled` is then called
    whenever a graph has been, and `launches` notes the Triton kernels that are launched outside of the graphs. `changes` change
    the compile.

    Any number of recordings may be under way that only observe, in any threads, and end in any order. A recording that is `cold`,
    `fresh`, for an `absent` GPU or has `changes` waits for another thread's. BusyError where it would wait for its own thread, or
    did for `MAX_SECONDS_TO_WAIT`.
    """
    only_observes = not (cold or fresh or absent or changes)
    try:
        with ExitStack() as stack:
            if not only_observes:
                stack.enter_context(_TURN.taken())
            guard = stack.enter_context(guarding(recorder.guard))
            probes = (*((probe.name, probe.watch) for probe in PROBES), *_of_compilers(cold), *_probes_of_users(stages))
            stack.enter_context(shielded(own_frames_skipped, guard, "own frames"))
            stack.enter_context(shielded(own_frames_unseen, guard, "own frames"))
            if cold:
                stack.enter_context(shielded(cold_compile, guard, "cold compile"))
            elif fresh:
                stack.enter_context(shielded(every_lookup_misses, guard, "fresh"))
            if cold or absent is not None:
                stack.enter_context(shielded(no_packages, guard, "packages"))
            elif fresh:
                stack.enter_context(shielded(no_package_loaded, guard, "packages"))
            if absent is not None:
                begin = partial(recorder.attempt, "kernel", "compile", compiled)
                retarget = partial(retargeted, absent, recorder, begin, recorder.generated, launches)
                if stack.enter_context(shielded(retarget, guard, "retarget")) is None:
                    probes = ()  # what is compiled is not for that GPU
            if changes is not None:
                stack.enter_context(shielded(partial(changes.applied, recorder), guard, "changes"))
            for name, watch in probes:
                stack.enter_context(_probing(name, watch, recorder))
            try:
                yield recorder
            finally:
                stack.close()
    finally:
        recorder.failures += recorder.guard.failures(recorder.failures)
        recorder.failures += (*plugged_stages().failures, *plugged_compilers().failures)
        recorder.finish()


def _of_compilers(cold: bool) -> Iterator[tuple[str, Watch]]:
    """What offers the compilers other than Inductor to the program, and their own probes.

    A trace, which is `cold`, observes the backend that it is given itself.
    """
    yield "execution", offered
    if not cold:
        yield "compiled_fn", recorded
    yield from ((c.kinds[-1], c.watch) for c in compilers() if c.watch is not watch_nothing and not c.missing)


def _probes_of_users(stages: Sequence[Stage]) -> Iterator[tuple[str, Watch]]:
    """List the probes that the user's own stages bring."""
    return ((stage.name, stage.watch) for stage in stages if stage.watch is not watch_nothing)


@contextmanager
def _probing(name: str, watch: Watch, recorder: Recorder) -> Iterator[None]:
    """Put a probe on; where it cannot be put on or taken off, a Failure that names it."""
    with ExitStack() as stack:
        with guarding(recorder.guard.of(name)) as guard:
            stack.enter_context(shielded(lambda: watch(recorder), guard, "watch", "unwatch"))
        yield
