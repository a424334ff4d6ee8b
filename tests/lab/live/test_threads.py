"""Another thread does not see what explorer does: its compiles work as without explorer."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import torch

import explorer
from explorer.capture.interpret.interpreter import interpreting
from explorer.errors import BusyError, InputError
from explorer.lab.live.other_threads import once_nothing_traces
from explorer.lab.live.protocol import needs_live
from tests.facts import says

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

ROUNDS = 2


def total(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x).sum()


@triton.jit
def kernel(p, n, B: tl.constexpr, K: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    o = tl.arange(0, B) + tl.program_id(0) * B
    x = tl.load(p + o, mask=o < n)
    for _ in tl.static_range(2):
        x = x * K + tl.sum(tl.exp(x), 0)
    tl.static_assert(B > 1)
    tl.store(p + o, tl.maximum(x, 0.0), mask=o < n)


def compiled_by_triton(number: int) -> str:
    """The TTIR of a kernel that was never compiled before."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(kernel, {"p": "*fp32", "n": "i32", "B": "constexpr", "K": "constexpr"}, {(2,): 64, (3,): number})
    return str(triton.compile(source, target=GPUTarget("cuda", 90, 32), options={}).asm["ttir"])


def beside(action: Callable[[], object], work: Callable[[], None]) -> None:
    """Do something again and again in another thread, while this one works."""
    stop, begun = threading.Event(), threading.Event()

    def again() -> None:
        while not stop.is_set():
            with suppress(InputError):  # a check is refused, in its own thread, once Dynamo has forgotten the function
                action()
            begun.set()

    thread = threading.Thread(target=again)
    thread.start()
    begun.wait()
    try:
        work()
    finally:
        stop.set()
        thread.join()


@pytest.mark.compile
def test_a_check_in_one_thread_does_not_disturb_compiles_in_another() -> None:
    """torch.compile, triton.compile and a trace for a GPU you don't have, while a check interprets kernels."""
    trace = explorer.trace(total, torch.randn(20000), target="h100")
    alone = compiled_by_triton(1000)

    def work() -> None:
        for number in range(ROUNDS):
            assert compiled_by_triton(1001 + number).count("\n") == alone.count("\n")
            made = torch.compile(lambda x, n=number: torch.cos(x) + n, backend="aot_eager")(torch.ones(3))
            assert torch.allclose(made, torch.cos(torch.ones(3)) + number)
            assert explorer.trace(total, torch.randn(100 + number), target="h100").failures == ()

    beside(trace.check, work)
    assert not torch.cuda.is_available() or torch.version.cuda


def test_another_thread_finds_tritons_own_functions_while_kernels_are_interpreted() -> None:
    """The modules are plain modules, and what is in them is equal to what was there, for every thread but the one."""
    names = [name for name in dir(tl) if not name.startswith("_")]
    before = {name: getattr(tl, name) for name in names}
    found: list[bool] = []
    with interpreting():
        thread = threading.Thread(target=lambda: found.append(all(getattr(tl, n) == before[n] for n in names)))
        thread.start()
        thread.join()
        assert type(tl) is type(threading) and tl.load is not before["load"]
    assert found == [True]
    assert all(getattr(tl, name) is before[name] for name in names)


@pytest.mark.compile
def test_threads_that_compile_in_a_recording_for_a_gpu_are_recorded() -> None:
    """Each thread's compile is for that GPU and in the trace; after the recording they compile for the CPU, with nothing left."""
    from torch._inductor import compile_fx

    seen: list[str] = []
    results: list[torch.Tensor] = []

    def work(number: int) -> None:
        function = torch.compile(lambda x: torch.cos(x) + number)
        results.append(function(torch.full((4,), float(number))))
        seen.append(f"{torch.cuda.is_available()} {torch.version.cuda}")

    before = f"{torch.cuda.is_available()} {torch.version.cuda}"
    original = compile_fx.compile_fx
    with explorer.record("h100") as recording:
        for number in (1, 2):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            thread.join()
    assert recording.trace.failures == () and len(recording.trace.find("ptx")) == 2
    assert [r[0].item() for r in results] == pytest.approx([number + math.cos(number) for number in (1, 2)])
    assert set(seen) == {before} and compile_fx.compile_fx is original


@contextmanager
def traced_by_fx_elsewhere() -> Iterator[threading.Event]:
    """Another thread traces a function with torch.fx until the event is set, or the block ends."""
    begun, over = threading.Event(), threading.Event()

    def slow(x: torch.Tensor) -> torch.Tensor:
        begun.set()
        over.wait()
        return x + 1

    thread = threading.Thread(target=lambda: torch.fx.symbolic_trace(slow))
    thread.start()
    begun.wait()
    try:
        yield over
    finally:
        over.set()
        thread.join()


@pytest.mark.compile
@pytest.mark.parametrize("target", ["h100", "cpu"])
def test_a_check_waits_while_another_thread_traces_with_fx(target: str) -> None:
    """torch calls no compiled function meanwhile: a check and a run wait for the end, and give the same."""
    x = torch.randn(200)
    trace = explorer.trace(total, x, target=target)
    plain = torch.compile(lambda x: x.sin(), backend="eager")
    plain(x)
    for ask in (lambda: trace.check()[0]["equal"], lambda: torch.allclose(trace.live.run(), total(x), atol=1e-4)):
        with traced_by_fx_elsewhere() as over:
            with pytest.raises(RuntimeError, match="using FX to symbolically trace"):
                plain(x)
            threading.Timer(0.5, over.set).start()
            assert ask() and over.is_set()


@pytest.mark.compile
def test_timing_waits_while_another_thread_traces_with_fx() -> None:
    """`benchmark` and the race of a what-if wait for the end of the other thread's trace, and the wait is in no time."""
    trace = explorer.trace(total, torch.randn(200), backend="aot_eager")
    live = needs_live(trace, "the test")
    for ask in (
        lambda: [row["seconds"] for row in trace.benchmark(1)],
        lambda: [seconds.clock for seconds in live.race(live, 1)],
    ):
        with traced_by_fx_elsewhere() as over:
            threading.Timer(1.0, over.set).start()
            times = ask()
            assert over.is_set() and len(times) == 2 and max(times) < 0.9


@pytest.mark.compile
def test_what_is_never_allowed_is_refused_with_its_reason() -> None:
    """Where torch.fx goes on tracing, the call is refused in explorer's words; another error is raised as it is, at once."""
    compiled = torch.compile(lambda x: x.cos(), backend="eager")
    compiled(torch.ones(2))
    with traced_by_fx_elsewhere(), pytest.raises(BusyError, match=says("torch.fx", "0.1 s")):
        once_nothing_traces(lambda: compiled(torch.ones(2)), seconds=0.1)
    calls = []

    def failing() -> None:
        calls.append(1)
        raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match="of its own"):
        once_nothing_traces(failing)
    assert calls == [1]
