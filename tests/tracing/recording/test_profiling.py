"""A program profiled while it is recorded."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.tracing.recording.profiling import profiling
from explorer.tracing.traced import Trace
from tests.facts import untold

pytestmark = pytest.mark.compile


def program() -> None:
    """Three calls of a compiled function."""
    torch._dynamo.reset()
    function = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")
    for _ in range(3):
        function(torch.ones(8))


def recorded(profile_itself: bool) -> Trace:
    """The trace of the program with the times of its calls; it may use a profiler too."""
    with explorer.record() as recording, profiling() as read:
        program()
        if profile_itself:
            with torch.profiler.profile() as own:
                program()
            assert own.events(), "the program's own profile is what it is without explorer"
    return read(recording.trace)


def test_the_calls_of_the_program_have_times() -> None:
    """Those that it makes, and no other; a backend without kernels has them too."""
    trace = recorded(profile_itself=False)
    (artifact,) = trace.find("run_times")
    assert [(call.frame, call.outer) for call in artifact.data.calls] == [("0/0", True)] * 3
    assert all(call.seconds > 0 for call in artifact.data.calls)
    assert not trace.failures


def test_a_program_that_uses_a_profiler_itself_is_told() -> None:
    """torch has one profiler at a time: the program keeps its own, and a Failure says why there are no times."""
    trace = recorded(profile_itself=True)
    assert not trace.find("run_times")
    (failure,) = trace.failures
    assert failure.stage == "run_times" and not untold(failure.message, "profile", "profiler")
