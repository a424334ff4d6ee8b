"""The recorder: nothing of it stays, nothing in it breaks the user's compile, and recordings do not mix."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.observe.patch import Guard, guard_here
from explorer.capture.observe.places import CallPaths, in_package
from explorer.capture.observe.probes import PROBES
from explorer.stages import STAGES
from explorer.tracing.recording import finish
from explorer.tracing.recording import record as record_room
from explorer.tracing.recording import trace as tracing
from explorer.tracing.recording.kernels import KernelRecorder
from explorer.tracing.recording.recorder import Recorder, recording
from tests.facts import says, untold

#: Kinds that a probe emits and `provoke` reaches by none of its programs: tests of their own do.
UNPROVOKED = {"attention", "cache", "eager_collective", "piece", "recompile", "symbol"}

#: What a compile changes in torch without explorer too.
OF_ANY_COMPILE = {"sizes seen"}


@pytest.fixture
def state(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """`tests/state.py` as a module."""
    return module_at(Path(__file__).parents[2] / "state.py")


def program(a: torch.Tensor) -> torch.Tensor:
    return torch.sin(a).relu() * 2


def two_passes(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A program in which a pattern fires and a pass changes the graph: two views that cancel."""
    return (a.view(-1).view(a.shape) @ w).permute(1, 0).permute(1, 0).sin()


@pytest.mark.compile
def test_a_trace_leaves_torch_as_it_was(state: ModuleType) -> None:
    """Configuration, environment, loggers, hooks and replaced functions are the same before and after a trace."""
    x = torch.randn(8, requires_grad=True)
    explorer.trace(program, x, train=True)  # what torch imports lazily is imported now
    before = state.snapshot()
    explorer.trace(program, x, train=True)
    assert state.difference(before, state.snapshot()) == {}


@pytest.fixture(scope="module")
def imported() -> None:
    """What torch imports when it first compiles is imported."""
    explorer.trace(program, torch.randn(8))


@pytest.mark.compile
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_trace_that_raises_leaves_torch_as_it_was(error: type[BaseException], state: ModuleType, imported: None) -> None:
    """After an exception, Ctrl-C or sys.exit inside the traced function everything is as before, and it goes through."""

    @torch.compiler.disable
    def stop() -> None:
        raise error("stop")

    def raising(a: torch.Tensor) -> torch.Tensor:
        b = a.sin()
        stop()
        return b

    before = state.snapshot()
    with pytest.raises(error, match="stop"):
        explorer.trace(raising, torch.randn(8))
    assert state.difference(before, state.snapshot()) == {}
    assert explorer.trace(program, torch.randn(8)).kernels, "a trace after it works"


def test_the_state_test_notices_what_is_left_behind(state: ModuleType) -> None:
    """The snapshot itself sees a handler, a setting and a replaced function that stay."""
    before = state.snapshot()
    log, handler = logging.getLogger("torch.__trace"), logging.NullHandler()
    log.addHandler(handler)
    with torch._inductor.config.patch({"max_autotune": True}):
        changed = state.difference(before, state.snapshot())
    log.removeHandler(handler)
    assert set(changed) == {"loggers", "torch._inductor.config"}


def provoked_kinds() -> list[str]:
    """The kinds of events that the programs below produce: a stage's that a probe emits, a frame, and what was assumed."""
    probed = {kind for probe in PROBES for kind in probe.kinds}
    return sorted({stage.name for stage in STAGES} & probed - UNPROVOKED | {"frame", "assumption"})


@pytest.mark.compile
@pytest.mark.parametrize("kind", provoked_kinds())
def test_a_hook_that_raises_is_a_failure_and_the_result_is_right(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hook in turn raises while it copies: the program's result is eager's, and the Failure names the hook."""
    original, raised = Recorder.__call__, []

    def injected(name: str) -> object:
        def fail() -> dict[str, object]:
            raised.append(name)
            raise RuntimeError(f"injected into {name}")

        return fail

    def failing(self: Recorder, name: str, facts: object, **more: object) -> None:
        original(self, name, injected(name) if name == kind else facts, **more)  # type: ignore[arg-type]

    def failing_later(self: Recorder, name: str, facts: object) -> None:
        failing(self, name, facts)

    monkeypatch.setattr(Recorder, "__call__", failing)
    monkeypatch.setattr(Recorder, "later", failing_later)
    trace, expected = provoke(kind)
    failures = trace.failures
    if kind == "decompiled" and not raised:
        pytest.skip("depyf is not installed")
    assert raised, f"no hook of kind {kind} ran"
    assert torch.allclose(trace.live.result, expected, atol=1e-5)
    assert [f for f in failures if f.stage == kind and "injected" in f.message]
    assert not trace.find(kind)


#: Kinds that Dynamo's and AOTAutograd's hooks produce. Inductor and g++ need not run for them, which saves seconds.
BEFORE_INDUCTOR = {
    "frame",
    "source",
    "compile_call",
    "bytecode",
    "dynamo",
    "dynamo_bytecode",
    "decompiled",
    "guards",
    "aot_metadata",
    "forward",
    "phase",
    "compilation_metrics",
    "setting",
}


def provoke(kind: str) -> tuple[explorer.Trace, torch.Tensor]:
    """A trace in which a hook of `kind` runs, and eager's result."""
    torch.manual_seed(0)
    if kind in ("joint", "backward"):
        x = torch.randn(8, requires_grad=True)
        return explorer.trace(program, x, train=True), program(x)
    if kind == "graph_break":

        def breaking(a: torch.Tensor) -> torch.Tensor:
            return a.sin() if a.sum() > 0 else a.cos()

        x = torch.randn(8)
        return explorer.trace(breaking, x, backend="aot_eager"), breaking(x)
    if kind in ("assumption", "autotune"):
        pytest.importorskip("triton")
        x, w = torch.randn(512, 512), torch.randn(512, 512)
        return explorer.trace(lambda a, b: a @ b, x, w, target="h100", mode="max-autotune"), x @ w
    if kind == "cuda_graph":
        x = torch.randn(8)
        return explorer.trace(program, x, mode="reduce-overhead"), program(x)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    backend = "aot_eager" if kind in BEFORE_INDUCTOR else "inductor"
    return explorer.trace(two_passes, x, w, backend=backend), two_passes(x, w)


@pytest.mark.compile
def test_the_probe_of_a_stage_of_ones_own_that_cannot_be_put_on_is_a_failure() -> None:
    """explorer's own probes still observe, and the Failure names the stage."""

    @contextmanager
    def broken(emit: object):  # type: ignore[no-untyped-def]
        raise AttributeError("this torch has no such hook")
        yield

    x = torch.randn(4, 4)
    mine = replace(STAGES[0], name="mine", watch=broken)
    trace = explorer.trace(program, x, stages=(*STAGES, mine), backend="aot_eager")
    assert torch.allclose(trace.live.result, program(x), atol=1e-5)
    assert [(f.stage, f.step) for f in trace.failures] == [("mine", "watch")] and trace.find("guards")


@pytest.mark.compile
def test_render_and_link_that_raise_are_failures() -> None:
    """A stage whose render or link raises loses its own view only."""

    def broken(*anything: object) -> None:
        raise ZeroDivisionError("broken on purpose")

    x = torch.randn(4)
    for step in ("render", "link"):
        stages = tuple(replace(s, **{step: broken}) if s.name == "dynamo" else s for s in STAGES)
        trace = explorer.trace(program, x, stages=stages, backend="eager")
        assert [(f.stage, f.step) for f in trace.failures] == [("dynamo", step)]
        assert torch.equal(trace.live.result, program(x))
        assert trace.find("bytecode")


@pytest.mark.compile
def test_a_trace_inside_a_recording_is_made_and_the_recording_goes_on() -> None:
    """A recording that only observes keeps no trace from being made, in its thread or another, and has the compile too."""
    traces: list[explorer.Trace] = []

    def trace() -> None:
        traces.append(explorer.trace(program, torch.randn(4), backend="eager"))

    with explorer.record() as outer:
        trace()
        thread = threading.Thread(target=trace)
        thread.start()
        thread.join()
        torch.compile(two_passes, backend="eager")(torch.randn(4, 4), torch.randn(4, 4))
    assert len(traces) == 2 and all(t.find("dynamo") and not t.failures for t in traces)
    assert len(outer.trace.find("dynamo")) == 3 and not outer.failures


@pytest.mark.compile
def test_nested_recordings_see_what_one_alone_sees() -> None:
    """Each of two nested recordings has the stages that a recording alone has, and both have the same texts.

    But for seconds, and names that are counted through the process.
    """

    def stages(trace: explorer.Trace) -> list[str]:
        return [artifact.stage for artifact in trace.artifacts]

    def texts(trace: explorer.Trace) -> list[str]:
        return [artifact.text for artifact in trace.artifacts if artifact.stage not in ("phase", "decompiled")]

    def compile_it() -> None:
        torch._dynamo.reset()
        torch.compile(two_passes, backend="aot_eager")(torch.ones(4, 4), torch.ones(4, 4))

    compile_it()
    with explorer.record() as alone:
        compile_it()
    with explorer.record() as outer:
        with explorer.record() as inner:
            compile_it()
    assert stages(alone.trace) == stages(outer.trace) == stages(inner.trace) != []
    assert texts(outer.trace) == texts(inner.trace)
    assert not outer.failures and not inner.failures


@pytest.mark.compile
def test_recordings_of_asyncio_tasks_end_in_any_order(state: ModuleType) -> None:
    """Of two overlapping recordings in one thread the first ends first; each has its compiles, and torch is as before."""
    first_ended = asyncio.Event()
    second_began = asyncio.Event()
    recordings: list[explorer.Recording] = []

    async def first() -> None:
        with explorer.record() as recorded:
            await second_began.wait()
            torch.compile(program, backend="eager")(torch.randn(4))
        recordings.append(recorded)
        first_ended.set()

    async def second() -> None:
        with explorer.record() as recorded:
            second_began.set()
            await first_ended.wait()
            torch.compile(two_passes, backend="eager")(torch.randn(4, 4), torch.randn(4, 4))
        recordings.append(recorded)

    async def both() -> None:
        await asyncio.gather(first(), second())

    torch.compile(program, backend="eager")(torch.randn(4))  # torch takes a handler of its own off at the first compile
    torch._dynamo.reset()
    before = state.snapshot()
    with ThreadPoolExecutor(1) as thread:  # in this one a loop may run already, that of a browser test before
        thread.submit(lambda: asyncio.run(both())).result()
        assert thread.submit(lambda: guard_here().errors).result() is None
    assert state.difference(before, state.snapshot()).keys() <= OF_ANY_COMPILE
    assert [len(recorded.trace.find("dynamo")) for recorded in recordings] == [1, 2]
    assert not any(recorded.failures for recorded in recordings)


@pytest.mark.compile
def test_a_recording_that_cannot_be_ends_no_program() -> None:
    """In a recording for a GPU you don't have another one and a trace run the program and say why they are empty."""
    x = torch.randn(4)
    with explorer.record("h100") as outer:
        with explorer.record("h100") as inner:
            result = torch.compile(program, backend="eager")(x)
        trace = explorer.trace(program, x, backend="eager")
    for empty in (inner.trace, trace):
        assert not empty.artifacts and [f.fatal for f in empty.failures] == [True]
        with pytest.raises(explorer.ExplorerError, match=says("recording", "this thread")):
            empty.raise_for_failures()
    assert [*inner.failures] == [*inner.trace.failures]
    assert torch.equal(result, program(x)) and torch.equal(trace.live.result, program(x))
    assert outer.trace.find("dynamo") and not outer.failures


@pytest.mark.compile
def test_a_trace_waits_for_one_in_another_thread() -> None:
    """Two threads that trace at once: the second waits for its turn, and both are whole."""
    inside, may_end = threading.Event(), threading.Event()

    def slow(a: torch.Tensor) -> torch.Tensor:
        inside.set()
        assert may_end.wait(60)
        return a + 1

    traces: dict[str, explorer.Trace] = {}

    def trace(fn: Callable[..., torch.Tensor]) -> None:
        traces[fn.__name__] = explorer.trace(fn, torch.randn(4), backend="eager")

    threads = [threading.Thread(target=trace, args=(fn,)) for fn in (torch._dynamo.disable(slow, recursive=False), program)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join()
    assert traces["program"].find("dynamo") and not traces["program"].failures


@pytest.mark.compile
def test_a_trace_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a recording waits for the thread that would trace, the trace gives up and says why nothing was traced."""
    monkeypatch.setattr("explorer.tracing.recording.recorder.MAX_SECONDS_TO_WAIT", 0.01)
    traces: list[explorer.Trace] = []
    x = torch.randn(4)
    with explorer.record("h100"):
        thread = threading.Thread(target=lambda: traces.append(explorer.trace(program, x, backend="eager")))
        thread.start()
        thread.join()
    assert torch.equal(traces[0].live.result, program(x))
    assert not untold(traces[0].failures[0].message, "nothing was traced", "another thread", "0.01 s")


@pytest.mark.compile
@pytest.mark.parametrize("target", ["auto", "h100"])
def test_a_recording_that_was_never_closed_ends_when_it_is_collected(state: ModuleType, target: str) -> None:
    """torch is as before, the trace is there, and the next recording is made."""

    def left() -> Iterator[explorer.Recording]:
        with explorer.record(target) as recorded:
            torch.compile(program, backend="eager")(torch.randn(4))
            yield recorded

    torch.compile(program, backend="eager")(torch.randn(4))  # torch takes a handler of its own off at the first compile
    torch._dynamo.reset()
    before = state.snapshot()
    blocks = left()
    recorded = next(blocks)
    del blocks
    gc.collect()
    assert state.difference(before, state.snapshot()).keys() <= OF_ANY_COMPILE and recorded.trace.find("dynamo")
    with explorer.record(target) as another:
        pass
    assert not another.failures


@pytest.mark.compile
def test_another_threads_compile_is_recorded() -> None:
    """A torch.compile in another thread during a recording of a program is part of it, with every stage."""

    def elsewhere(a: torch.Tensor) -> torch.Tensor:
        return a.cos() + 1

    results: list[torch.Tensor] = []
    x = torch.randn(4)

    def other() -> None:
        results.append(torch.compile(elsewhere, backend="aot_eager")(x))

    with explorer.record() as recorded:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        torch.compile(program, backend="aot_eager")(x)
    assert torch.allclose(results[0], elsewhere(x))
    graphs = {a.frame: a.text for a in recorded.trace.find("dynamo")}
    assert len(graphs) == 2 and not recorded.trace.failures
    first, second = graphs.values()
    assert "cos" in first and "sin" in second and "cos" not in second
    stages = [{a.stage for a in recorded.trace.artifacts if a.frame == frame} for frame in graphs]
    assert stages[0] == stages[1] - {"recompile"} >= {"source", "bytecode", "guards", "forward"}


@pytest.mark.compile
def test_a_trace_leaves_another_threads_compile_alone() -> None:
    """A trace is of one call: a compile that another thread starts meanwhile is not in it, and is not changed."""
    begun, results = threading.Event(), list[torch.Tensor]()

    def elsewhere(a: torch.Tensor) -> torch.Tensor:
        return a.cos() + 1

    def other() -> None:
        begun.wait()
        results.append(torch.compile(elsewhere, backend="aot_eager")(torch.ones(4)))

    def waiting(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        begun.set()
        return graph

    thread = threading.Thread(target=other)
    thread.start()
    trace = explorer.trace(program, torch.randn(4), backend=waiting)
    thread.join()
    assert torch.allclose(results[0], elsewhere(torch.ones(4)))
    assert trace.failures == () and "cos" not in trace.text("dynamo")


@pytest.mark.compile
def test_call_path_names_files_of_torch_only() -> None:
    """The call path of an event holds files relative to the torch or triton package, outermost first."""
    trace = explorer.trace(program, torch.randn(4), backend="eager")
    path = trace.find("dynamo")[0].path
    assert path[0][0] == "torch/_dynamo/eval_frame.py"
    assert all(file.startswith(("torch/", "triton/")) for file, _, _ in path)
    assert CallPaths().here() == ()


@pytest.mark.compile
def test_a_call_path_is_what_the_stack_says() -> None:
    """Each call has the line it is at now, also where the same function was on the way to an earlier event."""
    paths, seen = CallPaths(), list[bool]()

    def backend(gm: torch.fx.GraphModule, inputs: object) -> Any:
        for path in (paths.here(), paths.here()):
            stack = traceback.extract_stack()
            calls = [(in_package(frame.filename), frame.lineno, frame.name) for frame in stack if in_package(frame.filename)]
            seen.append([(file, line, name.rpartition(".")[2]) for file, line, name in path] == calls and len(path) > 10)
        return gm.forward

    for function in (program, lambda x: torch._dynamo.graph_break() or x.sin()):
        torch.compile(function, backend=backend)(torch.randn(4))
    assert len(seen) >= 4 and all(seen)


def test_an_error_while_recording_ends_still_releases_the_lock() -> None:
    """A recording whose block raises lets the next one begin."""
    with pytest.raises(ZeroDivisionError), recording(STAGES, Recorder()):
        raise ZeroDivisionError
    with recording(STAGES, Recorder()):
        pass


@pytest.mark.compile
def test_an_error_in_setting_up_or_taking_down_leaves_the_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs as without explorer, its own errors go through, and the trace says what was lost."""
    x = torch.randn(4)
    of_recorder = [(Recorder, name) for name in ("__init__", "finish", "_frame", "__call__")]
    for owner, name in [*of_recorder, (Guard, "__init__"), (Guard, "of"), (record_room, "shielded")]:
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, boom)
            torch._dynamo.reset()
            with explorer.record() as recorded:
                result = torch.compile(program, backend="eager")(x)
        assert torch.equal(result, program(x))
        assert any("boom" in failure.message for failure in recorded.trace.failures), name


@pytest.mark.compile
def test_a_trace_around_which_explorer_fails_has_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be recorded, the call is made all the same; it is made once."""
    calls: list[int] = []

    def counted(a: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        calls.append(1)
        return a.sin()

    x = torch.randn(4)
    for owner, name in ((Recorder, "__init__"), (KernelRecorder, "finish"), (finish, "replay"), (tracing, "recording")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, boom)
            calls.clear()
            trace = explorer.trace(counted, x, backend="eager")
        assert torch.equal(trace.live.result, x.sin()) and calls == [1]
        assert any("boom" in failure.message for failure in trace.failures)


def boom(*args: object, **kwargs: object) -> None:
    raise RuntimeError("boom")
