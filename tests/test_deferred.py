"""A trace is replayed when it is first read, and is a frozen value all the same."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from pathlib import Path

import pytest

import explorer
from explorer.model.stage import Emit
from explorer.model.trace_data import TraceData
from explorer.stages.replay import replay
from explorer.tracing.recording.finish import finished
from explorer.tracing.recording.recorder import Recorder
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of, trace_of_later
from explorer.types import Event, Failure
from tests.facts import says

Recorded = tuple[list[Event], list[Failure], Mapping[str, object]]
Read = Callable[[str], Recorded]

PROGRAM = "sin_cos-torch2.13-cpu"


class Counted:
    """Replays a recording, and counts how often."""

    def __init__(self, recorded: Read) -> None:
        self.events, self.failures, self.meta = recorded(PROGRAM)
        self.times = 0

    def __call__(self) -> TraceData:
        self.times += 1
        time.sleep(0.01)  # so that other threads come by meanwhile
        return replay(self.events, self.failures, self.meta)

    def trace(self) -> Trace:
        """A trace that is replayed when it is read."""
        return trace_of_later(replay((), (), self.meta).meta, self)


@pytest.fixture
def counted(recorded: Read) -> Counted:
    return Counted(recorded)


@pytest.mark.parametrize("name", ["artifacts", "links", "failures", "_stages"])
def test_each_field_is_there_when_it_is_read(name: str, counted: Counted, replayed: Callable[[str], Trace]) -> None:
    """The first field that is read replays the trace; before that nothing is replayed."""
    trace = counted.trace()
    assert trace.meta == replayed(PROGRAM).meta and counted.times == 0
    assert getattr(trace, name) == getattr(replayed(PROGRAM), name)
    assert [getattr(trace, field.name) for field in fields(trace) if field.name != "_live"] == [
        getattr(replayed(PROGRAM), field.name) for field in fields(trace) if field.name != "_live"
    ]
    assert counted.times == 1


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda trace, path: replace(trace, meta=trace.meta), id="replace"),
        pytest.param(lambda trace, path: pickle.loads(pickle.dumps(trace)), id="pickle"),
        pytest.param(lambda trace, path: (trace.save(path), explorer.load(path))[1], id="save"),
        pytest.param(lambda trace, path: trace_of(trace), id="of"),
    ],
)
def test_what_is_made_of_an_unread_trace_is_equal_to_it(
    read: Callable[[Trace, Path], Trace], counted: Counted, replayed: Callable[[str], Trace], tmp_path: Path
) -> None:
    """Equality, pickling, saving and copies read the trace first: they are of the whole value."""
    made = read(counted.trace(), tmp_path / "trace.json.gz")
    assert made.artifacts and made.links
    assert made == counted.trace() == replayed(PROGRAM)
    assert made != replace(counted.trace(), links=())


def test_an_unread_trace_cannot_be_changed(counted: Counted) -> None:
    """It is frozen, and an attribute that no trace has is an AttributeError that names it."""
    trace = counted.trace()
    with pytest.raises(FrozenInstanceError):
        trace.links = ()  # type: ignore[misc]
    with pytest.raises(AttributeError, match=says("Trace", "'arty'")):
        trace.arty  # type: ignore[attr-defined]  # noqa: B018
    assert counted.times == 0 and trace.links


def test_threads_that_read_it_at_once_get_the_same(counted: Counted) -> None:
    """It is replayed once, and no thread sees a part of it."""
    trace, read = counted.trace(), list[object]()
    start = threading.Barrier(4)

    def reader(name: str) -> None:
        start.wait()
        read.append((getattr(trace, name), trace.links))

    threads = [threading.Thread(target=reader, args=(name,)) for name in ("artifacts", "links", "failures", "artifacts")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.times == 1 and len(read) == 4
    assert all(links is trace.links for _, links in read)  # type: ignore[misc]


def test_a_reader_that_is_interrupted_reads_again(recorded: Read) -> None:
    """An error that ends the first reading, such as ctrl-C, leaves the trace as it was."""
    events, failures, meta = recorded(PROGRAM)
    interrupts = [KeyboardInterrupt()]

    def make() -> TraceData:
        if interrupts:
            raise interrupts.pop()
        return replay(events, failures, meta)

    trace = trace_of_later({}, make)
    with pytest.raises(KeyboardInterrupt):
        len(trace.artifacts)
    assert trace.artifacts and trace.links


def test_a_recording_is_replayed_as_it_was_when_it_ended(recorded: Read) -> None:
    """What is recorded or lost after that is not part of the trace."""
    events, _, meta = recorded(PROGRAM)
    recorder = Recorder()
    recorder.events[:] = events
    recorder.failures.append(Failure("kernel", "compile", "lost"))
    trace = finished(recorder, meta, explorer.types.STAGES, None)
    recorder.events.clear()
    recorder.failures.clear()
    assert trace.failures == (Failure("kernel", "compile", "lost"),)
    assert trace.artifacts == replay(events, (), meta).artifacts


def test_an_error_of_a_stage_is_among_the_failures(recorded: Read) -> None:
    """A stage that raises when the trace is read is named there, whichever field was read first."""
    events, _, meta = recorded(PROGRAM)

    def boom(*_: object) -> object:
        raise RuntimeError("boom")

    recorder = Recorder()
    recorder.events[:] = events
    stage = replace(next(stage for stage in explorer.types.STAGES if stage.name == "dynamo"), render=boom)
    trace = finished(recorder, meta, (*explorer.types.STAGES, stage), None)
    assert trace.artifacts and not trace.find("dynamo")
    assert [(failure.stage, failure.step) for failure in trace.failures] == [("dynamo", "render")]


def test_an_error_of_the_replay_gives_a_trace_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace has no artifacts then, and a fatal Failure."""

    def boom(*_: object) -> object:
        raise RuntimeError("boom")

    monkeypatch.setattr("explorer.tracing.recording.finish.replay", boom)
    trace = finished(Recorder(), {"name": "f"}, explorer.types.STAGES, None)
    assert trace.artifacts == () and trace.meta["name"] == "f"
    assert [(f.step, f.message, f.fatal) for f in trace.failures] == [("replay", "RuntimeError: boom", True)]


@pytest.mark.compile
def test_facts_that_are_made_when_read_are_made_once() -> None:
    """They join a recording's events and its trace's; facts that cannot be made are a Failure, and the rest is there."""
    import torch

    asked: list[str] = []

    def facts(text: str) -> dict[str, object]:
        asked.append(text)
        if text == "bad":
            raise RuntimeError("boom")
        return {"text": text}

    @contextmanager
    def watch(emit: Emit) -> Iterator[None]:
        for text in ("first", "bad", "last"):
            emit("fx_graph_runnable", partial(partial, facts, text))
        yield

    mine = replace(next(stage for stage in explorer.types.STAGES if stage.name == "fx_graph_runnable"), watch=watch)
    with explorer.record(stages=(*explorer.types.STAGES, mine)) as recording:
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
    assert asked == []
    assert [a.text for a in recording.trace.find("fx_graph_runnable")] == ["first", "last"]
    assert [event.data["text"] for event in recording.events if event.kind == "fx_graph_runnable"] == ["first", "last"]
    assert [f.message for f in recording.failures] == [f.message for f in recording.trace.failures] == ["RuntimeError: boom"]
    assert asked == ["first", "bad", "last"]


@pytest.mark.compile
def test_a_trace_asks_for_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explorer.trace` and the trace's live part work without a replay."""
    import torch

    replays: list[object] = []
    monkeypatch.setattr("explorer.tracing.recording.finish.replay", lambda *given: replays.append(given) or replay(*given))
    x = torch.randn(4)
    # a function of its own: the code around torch.sin is left alone once an earlier test's compile of it failed
    trace = explorer.trace(lambda x: x.sin(), x, backend="eager")
    assert torch.equal(trace.live.result, x.sin()) and torch.equal(trace.live.run(x), x.sin())
    assert not replays
    assert trace.find("dynamo") and not trace.failures and len(replays) == 1
