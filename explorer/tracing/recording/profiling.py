"""Profile a program while it is recorded, and read the profile into its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from explorer.analysis.timing.profile import profiled
from explorer.capture.observe.patch import Guard, shielded
from explorer.errors import ExplorerError
from explorer.model.values import Failure
from explorer.tracing.traced import Trace

NO_CALL = (
    "the profile has no call of a compiled function: none was called, or the program used a profiler itself, which ends the one "
    "around it; leave --profile out then, and read in the program's own by t.attach(prof)"
)


@contextmanager
def profiling() -> Iterator[Callable[[Trace], Trace]]:
    """Profile the block with torch.profiler; gives a function that, after it, returns a trace with the profile's times.

    The calls are the program's own. None is added, so ranks stay in step. Where there is no profile, the trace has a Failure that
    says why.
    """
    guard = Guard(errors={}, stage="run_times")
    with shielded(_profiler, guard, "start the profiler", "stop the profiler") as profiler:
        yield lambda trace: _with_times(trace, profiler, guard)


def _profiler() -> Any:
    """The profiler of torch, of the CPU and the GPU that is there."""
    from torch.profiler import profile

    return profile(acc_events=True)  # without it torch 2.11 warns, though there is one cycle


def _with_times(trace: Trace, profiler: Any, guard: Guard) -> Trace:
    failures = guard.failures(trace.failures)
    if not failures:
        try:
            trace = profiled(trace, profiler, or_bare=True)
            failures = [] if trace.find("run_times") else [Failure("run_times", "read the profile", NO_CALL)]
        except ExplorerError as error:
            failures = [Failure("run_times", "read the profile", str(error))]
    return replace(trace, failures=(*trace.failures, *failures)) if failures else trace
