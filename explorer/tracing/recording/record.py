"""record: every compile that happens in a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike

from explorer.analysis.questions.summary import counts
from explorer.capture.absent import target as target_room
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.observe.patch import ON_PURPOSE, Guard, shielded
from explorer.errors import BusyError, InputError, require_installed
from explorer.lab.live.kernel_forms import RecordedKernels
from explorer.model.guessed import NamesGuessed, guess
from explorer.model.stage import Stage
from explorer.model.values import Event, Failure, Plain
from explorer.process.progress import progress
from explorer.process.ranks import count_started_processes
from explorer.reference.gpus.figures import Target
from explorer.stages.plugged import with_plugged
from explorer.stages.replay import names_of
from explorer.stages.unread import read
from explorer.tracing.recording.arguments import absent_target, check_stages
from explorer.tracing.recording.compile_failures import note_failures, with_error_of_rank
from explorer.tracing.recording.finish import finished
from explorer.tracing.recording.kernels import recording_kernels
from explorer.tracing.recording.recorder import Recorder, recording
from explorer.tracing.traced import Trace


@dataclass(eq=False, repr=False)
class Recording(NamesGuessed):
    """What `record` gives: after the block, `trace` holds every compile that happened in it."""

    _recorder: Recorder | None = None
    _trace: Trace | None = None
    _so_far: Callable[[], Trace] | None = None
    _guards: list[Guard] = field(default_factory=list)  # what they lose after the block is read when the trace is asked for

    def __repr__(self) -> str:
        if self._trace is None:
            return "<Recording, under way: .trace has every compile after the with block, .so_far() those until now>"
        return f"<Recording: .trace is the trace of {counts(self._trace)}>"

    def _guess(self, name: str) -> str:
        return guess("Recording", name, f"recording.trace.{name}" if hasattr(Trace, name) else "")

    @property
    def events(self) -> list[Event]:
        """All that the probes saw in the block; empty while it still runs."""
        return [*read(self._recorder.events).events] if self._recorder is not None else []

    @property
    def failures(self) -> list[Failure]:
        """All that went wrong in the recording itself; empty while it still runs."""
        if self._recorder is None:
            return [*self._trace.failures] if self._trace is not None else []
        events = self._recorder.events
        return [*self._recorder.failures, *read(events, names_of(events)).failures]

    @property
    def trace(self) -> Trace:
        """The trace of the block; InputError while the block still runs.

        What was compiled in the block may run after it. What explorer loses there is a Failure from then on.
        """
        if self._trace is None:
            raise InputError("the recording is still under way: ask for its trace after the with block")
        for guard in self._guards:
            if guard.errors:
                self._trace = _with_losses(self._trace, guard)
        return self._trace

    def so_far(self) -> Trace:
        """The trace of what was compiled up to now, while the block still runs: for a thread that watches it.

        Without machine code of Triton kernels, which is recorded when the block ends. After the block it is `trace`.
        """
        if self._trace is None and self._so_far is not None:
            return self._so_far()
        return self.trace

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace to a file, or into a folder, where each rank of a distributed job has its own: see `Trace.save`."""
        self.trace.save(path)


def _with_losses(trace: Trace, guard: Guard) -> Trace:
    """Add a Failure for each loss of a guard; where that fails, one Failure says so, and the program that asks goes on."""
    try:
        late = guard.failures(trace.failures)
    except Exception as error:  # noqa: BLE001 the program asks for its trace, not for explorer's errors
        late = [Failure("record", "losses", f"{type(error).__name__}: {error}")]
    new = [failure for failure in late if failure not in trace.failures]
    return replace(trace, failures=(*trace.failures, *new)) if new else trace


@contextmanager
def record(
    target: str | Target = "auto", *, name: str = "recording", stages: Sequence[Stage] | None = None, fresh: bool = False
) -> Iterator[Recording]:
    """Record every compile that happens in the block, such as a training loop, without changing the program.

    After the block `recording.trace` is the Trace, also if the block ended with an exception, which goes through. Functions
    compiled before the block are not compiled again. `target` is as for `trace`; a recording leaves the program's own tensors
    where they are.

    Recordings may overlap, in threads, asyncio tasks and each other's blocks: each has every compile of the process while its
    block ran. Only one at a time can be for a GPU you don't have, or `fresh`, or a `trace`. A second one waits if another
    thread has the first. If waiting cannot help, as in the same thread, the block runs without being recorded: the trace
    has no artifacts, and a Failure says why, which `recording.trace.raise_for_failures()` raises.
    A recording that is never closed, as in a generator that nobody reads to its end, ends when it is collected.

    Caches are used as without the recording; `t.compiler.caches` has a row per lookup. For a cached graph, only the
    stages that the cache keeps are there; with `fresh`, caches are written but not read, so every stage is there.
    The forms of a kernel that are made on demand, such as assembly and SASS, are made as for a trace; what needs a call, such as
    `check`, is not there.
    For a GPU you don't have, Inductor's and AOTAutograd's caches of graphs are not used at all. `stages` are what is
    observed, all of `explorer.types.STAGES` and of plug-ins by default.
    """
    require_installed("torch", "explorer.record", "full")
    wanted = with_plugged(stages)
    result = Recording()
    lost: list[Failure] = []
    meta: dict[str, Plain] = {"name": name}
    absent_gpus: list[Target] = []

    def started() -> AbstractContextManager[None]:
        check_stages(wanted)
        device = target_room.resolve(target, (), lambda: None) if target != "auto" else "auto"
        absent = absent_target(device, "inductor", None)
        meta["target"] = absent.name if absent else str(device)
        absent_gpus.extend([absent] if absent else [])
        return _recorded(result, device, absent, meta, wanted, fresh)

    try:
        with ExitStack() as stack:
            try:
                result._guards.append(Guard(errors={}))
                stack.enter_context(shielded(started, result._guards[0], "set up", "take down"))
            except BusyError as error:
                lost.append(Failure("record", "set up", str(error), fatal=True))
                result._recorder = result._so_far = result._trace = None
            except ON_PURPOSE:
                raise
            except Exception as error:  # noqa: BLE001 what keeps explorer's errors from the program may be what failed
                lost.append(Failure("record", "set up", f"{type(error).__name__}: {error}"))
            yield result
    except Exception as error:
        if absent_gpus:
            _advise(error, result._guards[0])
        if result._trace is not None:
            result._trace = with_error_of_rank(result._trace, error, os.environ)
        raise
    finally:
        if result._trace is None:  # whatever failed in explorer, the program ran, and there is a trace that says so
            result._trace = Trace(meta=meta, failures=tuple(lost))


def _advise(error: Exception, guard: Guard) -> None:
    """Add to an error of the program's what to do where the GPU you don't have is missed."""
    try:
        note = compiling.needs_its_gpu(error)
    except Exception as failure:  # noqa: BLE001 the program's error goes through, also where explorer cannot explain it
        guard.lose("advice", failure)
        return
    if note:
        error.add_note(f"explorer: {note}")


@contextmanager
def _recorded(
    result: Recording,
    device: str | Target,
    absent: Target | None,
    meta: Mapping[str, Plain],
    stages: Sequence[Stage],
    fresh: bool,
) -> Iterator[None]:
    """Record what happens in the block, and give `result` its trace."""
    processes_before = count_started_processes()
    with progress(str(meta["name"])) as show:
        recorder = Recorder(show, every_thread=True)
        result._guards.append(recorder.guard)
        with recording_kernels(device, absent, recorder.guard) as kernels:
            start = partial(kernels.start, recorder)
            launches = kernels.launches
            result._so_far = partial(finished, recorder, meta, stages, None)
            record_it = partial(recording, stages, recorder, fresh=fresh, absent=absent, compiled=start, launches=launches)
            try:
                with shielded(record_it, recorder.guard, "set up", "take down"):
                    yield
            finally:
                ladders = kernels.finish(recorder)
                recorder.attempt("compile", "failures", lambda: note_failures(recorder, processes_before))
                result._recorder = recorder
                result._trace = finished(recorder, meta, stages, RecordedKernels(ladders))
