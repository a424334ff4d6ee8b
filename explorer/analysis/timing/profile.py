"""Read a profile into a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from explorer.analysis.timing.joined import joined
from explorer.analysis.timing.measured_kernels import profile_of_rows
from explorer.analysis.timing.run_times import run_times
from explorer.analysis.timing.sources import timeline_of
from explorer.analysis.timing.timeline import Timeline, own_by_name
from explorer.errors import InputError
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Event, Table
from explorer.stages.replay import extended, rendered, without
from explorer.stages.torch_compile.profile import UNJOINED, Profile
from explorer.stages.torch_compile.run_times import CallPart, RunTimes

T = TypeVar("T", bound=TraceData)

#: The most names of a profile that a message lists.
MAX_NAMES = 5


def profiled(trace: T, source: object, *, or_bare: bool = False) -> T:
    """Return the trace with a profile in place of the one that it may have; see `Trace.attach`.

    With `or_bare` a profile that has nothing of the trace leaves it without one, in place of the InputError.
    """
    if isinstance(source, Table) and "part" in source.columns:
        return _with_parts(trace, source)
    if isinstance(source, Table):
        return _with(trace, profile_of_rows(trace, source))
    return with_timeline(trace, timeline_of(source), or_bare=or_bare)


def with_timeline(trace: T, timeline: Timeline, *, or_bare: bool = False) -> T:
    """Return the trace with the times of a timeline in place of the profile that it may have; see `profiled`."""
    profile, times = joined(trace, timeline), run_times(trace, timeline)
    nothing = all(row.kind == UNJOINED for row in profile.rows)
    if nothing and not times.exchanges and not or_bare:
        raise InputError(_nothing_joined(trace, timeline, profile))
    return _with(trace, None if nothing else profile, times)


def _with(trace: T, profile: Profile | None, times: RunTimes | None = None) -> T:
    """Return the trace with a profile's texts, which replace another profile's."""
    bare = without(trace, ("profile", "run_times"))
    events = [Event(kind="profile", time=0.0, data=profile)] if profile else []
    if times is not None and (times.calls or times.exchanges):
        events.append(Event(kind="run_times", time=0.0, data=times))
    return extended(bare, list(rendered(bare, events)))


def _with_parts(trace: T, rows: Table) -> T:
    """Return the trace with the rows of `t.live.cost()`, beside a profile that it may have."""
    parts = [typed(CallPart, {name: row[name] for name in CallPart.__annotations__}) for row in rows]
    before = [typed(RunTimes, artifact.data) for artifact in trace.find("run_times")]
    times = (
        replace(before[-1], parts=tuple(parts))
        if before
        else RunTimes(source="t.live.cost()", calls=(), exchanges=(), parts=tuple(parts))
    )
    event = Event(kind="run_times", time=0.0, data=times)
    bare = without(trace, ("run_times",))
    return extended(bare, list(rendered(bare, [event])))


def _nothing_joined(trace: TraceData, timeline: Timeline, profile: Profile) -> str:
    """Say that nothing of a profile is of this trace, what it has, and what to do."""
    kernels = [a.kernel for a in trace.find("kernel")]
    if not kernels and not trace.find("output_code"):
        return "the profile cannot be joined: the trace has no generated code whose times it could have"
    longest = sorted(own_by_name(timeline).items(), key=lambda pair: -pair[1])
    has = ", ".join(name for name, _ in longest[:MAX_NAMES]) or "nothing that took time"
    why = f"the profile has {has}; the trace has {', '.join(kernels[:MAX_NAMES]) or 'library calls only'}"
    cpp = not timeline.gpu and any(a.language == "cpp" for a in trace.find("kernel"))
    hint = (
        "trace and profile with options={'cpp.enable_kernel_profile': True}, which has C++ kernels write their names"
        if cpp
        else "profile a few calls of the same function, compiled with the same options and shapes"
    )
    return f"nothing of the profile is a kernel or library call of this trace: {why}; {hint}"
