"""Each kernel timed in its place while the compiled function runs, on this CPU."""

from __future__ import annotations

from collections import defaultdict
from ctypes.util import find_library
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.codecache import DLLWrapper

import explorer
from explorer.capture.splice.launches import Intercepted
from explorer.capture.splice.wrappers import LoadedWrapper, replaced_kernels
from explorer.errors import InputError, NoVerbError
from explorer.lab.live import kernel_times
from explorer.lab.live.protocol import live_of
from explorer.tracing.traced import Trace
from tests.facts import says

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]

SLOW = 3600.0


class _Clock:
    """Stands for the module of the clock: it goes on by a second at each look, so that no load of the machine is in a time."""

    now = 0.0

    def perf_counter(self) -> float:
        """The seconds that this clock shows."""
        self.now += 1
        return self.now


def mlp(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.layer_norm(x, (64,), b, b)
    z = F.gelu(y @ w + b)
    return (z @ w).softmax(-1)


@pytest.fixture(scope="module")
def traced() -> Trace:
    torch.manual_seed(0)
    trace = explorer.trace(mlp, torch.randn(128, 64), torch.randn(64, 64), torch.randn(64))
    trace.raise_for_failures()
    return trace


def test_each_kernel_and_call_is_timed_in_its_order(traced: Trace) -> None:
    """The rows are the wrapper's calls in order, with a median between the quartiles; the first waits for nothing."""
    rows = traced.live.profile(5)
    kinds = [row["kind"] for row in rows]
    assert kinds == ["kernel", "library call", "kernel", "library call", "kernel"]
    assert [row["kernel"] for row in rows if row["kind"] == "kernel"] == [kernel.name for kernel in traced.kernels]
    assert all(0 < row["low"] <= row["seconds"] <= row["high"] and row["repeats"] == 5 for row in rows)
    assert rows[0]["idle"] == 0 and all(row["idle"] > 0 for row in rows[1:])


def test_a_kernel_that_is_slow_is_the_one_that_is_slow(traced: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel during which the clock goes on by an hour takes that much longer, in its own row and in no other."""
    assert live_of(traced) is not None
    (wrapper,) = live_of(traced).wrappers
    name = traced.kernels[1].name
    clock = _Clock()
    monkeypatch.setattr(kernel_times, "time", clock)

    def slow(launch: Any, args: Any, keywords: Any) -> Any:
        clock.now += SLOW
        return launch(*args, **keywords)

    with replaced_kernels([(wrapper, name, lambda kernel: Intercepted(kernel, slow))]):
        rows = {row["kernel"]: row for row in traced.live.profile(3)}
    assert rows.pop(name)["seconds"] == SLOW + 1
    assert len(rows) == 4 and all(row["seconds"] == 1 for row in rows.values())


def test_the_program_and_its_wrapper_are_left_as_they_were(traced: Trace) -> None:
    """Afterwards the wrapper has its own kernels and libraries again, and random numbers and the inputs are untouched."""
    assert live_of(traced) is not None
    (wrapper,) = live_of(traced).wrappers
    assert isinstance(wrapper, LoadedWrapper)
    before, state = dict(vars(wrapper.module)), torch.get_rng_state()
    traced.live.profile(2)
    assert {key for key, value in vars(wrapper.module).items() if before.get(key) is not value} == set()
    assert torch.equal(state, torch.get_rng_state()) and all(row["equal"] for row in traced.check())


def test_the_times_are_shown_like_those_of_a_profile(traced: Trace) -> None:
    """with_profile takes the rows: tables and lines say "measured", with the same sum."""
    rows = traced.live.profile(2)
    shown = traced.attach(rows)
    measured = [*shown.kernels.table, *shown.inductor.extern_calls]
    assert {row["timed"] for row in measured} == {"measured"} and "t.live.profile()" in measured[0]["seconds_known"]
    whole = sum(row["seconds"] for row in rows)
    assert sum(row["seconds"] for row in measured) == pytest.approx(whole)
    assert sum(row["seconds"] for row in shown.profile.lines) == pytest.approx(whole)
    with pytest.raises(InputError, match=says("t.live.profile()", "seconds")):
        traced.attach(traced.compiler.phases)


def test_a_kernel_in_a_shared_library_is_timed_by_the_name_of_its_function() -> None:
    """The wrapper calls a kernel of CUTLASS as a function of the library that torch loaded for it."""
    name = find_library("c")
    if not name:
        pytest.skip("no C library is found, which stands for that of a kernel")
    module = ModuleType("wrapper")  # abs(0) is 0, which says that a launch succeeded
    vars(module).update(__file__="wrapper.py", abs=DLLWrapper(name), extern_kernels=None)
    watch = kernel_times._Stopwatch(None, defaultdict(lambda: 1))
    with kernel_times._timed([LoadedWrapper(module)], {"wrapper.py": ["abs"]}, watch):
        vars(module)["abs"].abs(0)
    assert [(launch.file, launch.name) for launch in watch.launches] == [("wrapper.py", "abs")]


def test_a_run_that_launches_nothing_from_python_says_what_to_do(traced: Trace) -> None:
    """Where the wrapper makes no launch that can be timed, as in C++, the message names the profile and the whole."""
    from explorer.lab.live.kernel_times import time_kernels

    with pytest.raises(NoVerbError, match=r"t\.attach"):
        time_kernels(traced, (), lambda: None, 1)
    with pytest.raises(InputError, match=says("repeats", "1", "0")):
        time_kernels(traced, (), lambda: None, 0)


def test_each_run_has_the_values_of_the_call() -> None:
    """A function that changes its argument computes on the same values in every run, not on what the last run left."""
    trace = explorer.trace(lambda x: x.mul_(3), torch.full((8,), 2.0))
    assert live_of(trace) is not None
    (wrapper,) = live_of(trace).wrappers
    seen: list[float] = []

    def noting(launch: Any, args: Any, keywords: Any) -> Any:
        seen.append(args[0][0].item())
        return launch(*args, **keywords)

    with replaced_kernels([(wrapper, trace.kernels[0].name, lambda kernel: Intercepted(kernel, noting))]):
        trace.live.profile(3)
    assert seen == [2.0] * 4


def test_a_wrapper_in_cpp_says_what_to_do() -> None:
    """Inductor's C++ wrapper calls its kernels itself: none can be timed from Python, and the message says what can."""
    trace = explorer.trace(lambda x: x.sin() * 3, torch.ones(8), options={"cpp_wrapper": True})
    with pytest.raises(NoVerbError, match=r"t\.attach"):
        trace.live.profile(1)


@pytest.mark.parametrize("verb", ["benchmark", "live.profile"])
def test_nothing_is_timed_for_a_gpu_you_dont_have(verb: str) -> None:
    """Timing refuses, since the CPU's times would say nothing of that GPU, and says what gives an estimate."""
    trace = explorer.trace(partial(torch.add, torch.ones(8)), torch.ones(8), target="h100")
    with pytest.raises(NoVerbError, match=says("'h100'", "attached", "t.kernels.table")):
        attrgetter(verb)(trace)()
