"""The end of a recording: its events become a Trace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.observe.process_groups import process_groups
from explorer.lab.live.protocol import MakesForms
from explorer.model.stage import Stage
from explorer.model.trace_data import TraceData
from explorer.model.values import Event, Failure, Plain, plain
from explorer.process.garbage import collection_paused
from explorer.process.ranks import rank_and_world
from explorer.stages.fx_graph import places_of
from explorer.stages.replay import names_of, replay
from explorer.tracing.recording.cells import with_cells
from explorer.tracing.recording.recorder import Recorder
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import lost, trace_of, trace_of_later


def finished(recorder: Recorder, meta: Mapping[str, Plain], stages: Sequence[Stage], live: MakesForms | None) -> Trace:
    """Make the trace of what was recorded up to now; it is replayed when the trace is first read.

    An error of explorer's gives a trace that has only this Failure, and the program's result.
    """
    failures = failures_of(recorder)
    try:
        date = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        events = with_cells([*recorder.events])  # in another thread than the program's, as it may be, a copy
        job = job_of(os.environ, recorder.events)
        whole_meta = plain({**job, **meta, **compiling.torch_versions(), "made": date, "cost": recorder.seconds})
    except Exception as error:  # noqa: BLE001 the program ran, and gets a trace that says so
        return trace_of(lost(error, meta, failures), live)
    make = partial(_replayed, replay, events, failures, whole_meta, tuple(stages))
    return trace_of_later(whole_meta, make, live, failures)


def job_of(environment: Mapping[str, str], events: Sequence[Event]) -> Mapping[str, Plain]:
    """What the trace of a rank says of its job; {} without one.

    `rank`, `world`, the ranks of its `process_groups`, and its `failed_compiles`, with which other ranks are compared.
    """
    place = rank_and_world(environment)
    groups = [*(event.data["groups"] for event in events if event.kind == "process_groups"), process_groups()]
    merged = {name: tuple(ranks) for group in groups for name, ranks in group.items()}
    failed = _failed_compiles(events) if place else []
    return {
        **({"rank": place[0], "world": place[1]} if place else {}),
        **({"failed_compiles": failed} if failed else {}),
        **({"process_groups": merged} if merged else {}),
    }


def _failed_compiles(events: Sequence[Event]) -> list[Mapping[str, Plain]]:
    """The compiles of frames that ended with an error which reached the program, each with the program's line."""
    swallowed = {event.frame for event in events if event.kind == "compile_swallowed"}
    failed = [event for event in events if event.kind == "compile_error" and event.frame and event.frame not in swallowed]
    names = names_of(events) if failed else {}
    return [_failed_compile(event, names.get(event.frame, event.frame)) for event in failed]


def _failed_compile(event: Event, frame: str) -> Mapping[str, Plain]:
    """Return the facts of one failed compile; if torch's message has no line of the program, the line is the function's."""
    data = event.data
    message = str(data["message"])
    places = places_of(message.partition("from user code:")[2])
    at = (places[-1].file, places[-1].line, places[-1].code) if places else (data["file"], data["line"], "")
    said = f"{data['error']}: {message.partition(chr(10))[0]}"
    return {"frame": frame, "function": data["function"], "error": said, "file": at[0], "line": at[1], "code": at[2]}


def failures_of(recorder: Recorder) -> tuple[Failure, ...]:
    """All that went wrong in a recording up to now."""
    return (*recorder.failures, *recorder.guard.failures(recorder.failures))


def _replayed(
    replay: Callable[..., TraceData],
    events: Sequence[Event],
    failures: Sequence[Failure],
    meta: Mapping[str, Plain],
    stages: Sequence[Stage],
) -> TraceData:
    """Make the data of the trace of all events."""
    with collection_paused():
        return replay(events, failures, meta, stages)
