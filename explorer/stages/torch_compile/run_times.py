"""What each call of a compiled frame took in a profile, and where it waited in collectives, read in by `Trace.attach`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.model.wording import quantity


@record
class CallTime(Record):
    """A call of a compiled frame in a profile, or its backward: `seconds` from its begin to its end, as the CPU sees it.

    `frame` is "" where it is not clear which one it is. `outer` is False for a call inside another one; its seconds are part of
    the outer call's. `device` is the time, in seconds, that a GPU worked on the call's launches; None where the profile is of the
    CPU.
    """

    frame: str
    backward: bool
    outer: bool
    seconds: float
    device: float | None


@record
class ExchangeTime(Record):
    """One run of a collective: `node` is its node in the graph `artifact`, "" if that is unclear.

    Of one that was sent outside of the graphs, `artifact` is the text that lists them, and `line` its line there, None if that is
    unclear. `run` counts the calls of its frame; outside, the collective's own runs from 1, and 0 for a run that a compile may
    have delayed. `seconds` is the time of its kernel on a GPU, which waits there for the other ranks; on the CPU, the time that
    the call waited for it, outside of the graphs the time of gloo's own span. None where it is not known. `overlapped` is the
    part during which a GPU ran another kernel; None on the CPU.
    """

    artifact: str
    node: str
    operator: str
    run: int
    seconds: float | None
    overlapped: float | None
    line: int | None = None


@record
class CallPart(Record):
    """A row of `t.live.cost()`: the seconds of a warm call, compiled or in eager mode, of a part of it, or of one guard.

    `kind` is one of `KINDS`; the parts add up to the call. `count` is how often the part happens, or how many guards one source
    has. `how` says how it was measured. `file`, `line` and `code` are the user line of a guard, "" and 0 where none is known.
    """

    kind: str
    part: str
    seconds: float
    count: int
    how: str
    frame: str
    file: str
    line: int
    code: str


#: The kinds of the rows of `t.live.cost()`.
CALL, EAGER, PART, GUARD = KINDS = ("call", "eager", "part", "guard")
#: The parts of a call, in the order in which they happen.
GUARDS, MISSES, DYNAMO, WRAPPERS = "guards", "cache misses", "Dynamo frames", "AOTAutograd's wrappers"
CHECKING, ALLOCATING, KERNELS, CODE = "argument checks", "allocations", "kernel calls", "output code"
FREEING, REST = "freed results", "not attributed"


@record
class RunTimes(Record):
    """The calls of compiled frames in a profile, and the collectives of the program, both in the order of time.

    `source` is what recorded it. `parts` has the rows of `t.live.cost()`; None where no call was measured in parts. `unmatched`
    says for which collectives outside of the graphs it is unclear which of them took how long.
    """

    source: str
    calls: tuple[CallTime, ...]
    exchanges: tuple[ExchangeTime, ...]
    parts: tuple[CallPart, ...] | None = None
    unmatched: tuple[str, ...] = ()


def render(event: Event, id: str) -> Artifact:
    """A line a frame and a collective, with the seconds of all runs and the median."""
    data = typed(RunTimes, event.data)
    head = [f"{data.source}: {summary_of(data)}", f"{'ms in all':>12} {'runs':>6} {'median ms':>10}  what"]
    return text_artifact(
        event,
        id,
        "Run times",
        "text",
        text="\n".join([*head, *_calls(data), *_exchanges(data), *data.unmatched, *_parts(data)]),
        data=data,
    )


def _calls(data: RunTimes) -> Iterator[str]:
    calls: dict[tuple[str, bool], list[CallTime]] = {}
    for call in data.calls:
        calls.setdefault((call.frame, call.backward), []).append(call)
    for (frame, backward), own in calls.items():
        yield _line([call.seconds for call in own], f"{frame or 'an unknown frame'}{', its backward' if backward else ''}")


def _exchanges(data: RunTimes) -> Iterator[str]:
    exchanges: dict[tuple[str, str, str, int | None], list[ExchangeTime]] = {}
    for one in data.exchanges:
        exchanges.setdefault((one.artifact, one.node, one.operator, one.line), []).append(one)
    for (artifact, node, operator, line), own in exchanges.items():
        seconds = [one.seconds for one in own if one.seconds is not None]
        where = "outside the graphs" if artifact else "of an unknown graph"
        name = f"{artifact}  {node}" if node else f"{operator}, {where}"
        if line is not None:
            name += f", line {line} of {artifact}"
        yield _line(seconds, f"in {name}") if seconds else f"{'':30}  in {name}: not known how long"


def _parts(data: RunTimes) -> Iterator[str]:
    for row in data.parts or ():
        at = f", {row.file}:{row.line}" if row.file else ""
        yield _line([row.seconds], f"{row.kind}: {row.part} ({row.count}){at}: {row.how}")


def _line(seconds: Sequence[float], what: str) -> str:
    return f"{sum(seconds) * 1e3:12.3f} {len(seconds):6} {median(seconds) * 1e3:10.3f}  {what}"


def kinds(artifact: Artifact) -> Sequence[str]:
    """No line computes."""
    return ["times"] * len(artifact.lines)


def summary_of(data: RunTimes) -> str:
    """How often compiled frames were called, and what that took."""
    if data.parts and not data.calls:
        return f"a warm call takes {data.parts[0].seconds * 1e3:.4g} ms"
    outer = [call.seconds for call in data.calls if call.outer]
    said = f"{quantity(len(outer), 'call')} of compiled frames took {sum(outer) * 1e3:.4g} ms"
    sent = [one for one in data.exchanges if one.artifact and not one.node]
    inside = [one for one in data.exchanges if not one.artifact or one.node]
    said += f", {_seconds(inside) * 1e3:.4g} ms in collectives" if inside else ""
    return said + (f"; collectives outside the graphs took {_seconds(sent) * 1e3:.4g} ms" if sent else "")


def _seconds(exchanges: Sequence[ExchangeTime]) -> float:
    return sum(one.seconds or 0.0 for one in exchanges)


def summary(artifacts: Sequence[Artifact]) -> str:
    """The same for the stage table."""
    return summary_of(typed(RunTimes, artifacts[0].data))


STAGE = Stage(
    name="run_times",
    title="Run times",
    language="text",
    event=RunTimes,
    artifact=RunTimes,
    render=render,
    kinds=kinds,
    summary=summary,
    why_absent=(
        "no profile was read in: explorer trace --profile takes one of a program, t.attach(prof) reads a "
        "torch.profiler.profile or an exported Chrome trace; t.attach(t.live.cost()) measures one call in parts"
    ),
    about="What each call of a compiled frame took, where it waited in collectives, and the parts of one warm call.",
)
