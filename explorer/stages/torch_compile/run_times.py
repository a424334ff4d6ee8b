"""What each call of a compiled frame took in a profile, and where it waited in collectives, read in by `Trace.with_profile`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from explorer.model.artifacts import RunTimes
from explorer.model.records import typed
from explorer.model.rows import CallTime, ExchangeTime
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event


def render(event: Event, id: str) -> Artifact:
    """A line a frame and a collective, with the seconds of all runs and the median."""
    data = typed(RunTimes, event.data)
    head = [f"{data.source}: {summary_of(data)}", f"{'ms in all':>12} {'runs':>6} {'median ms':>10}  what"]
    return text_artifact(event, id, "Run times", "text", text="\n".join([*head, *_calls(data), *_exchanges(data)]), data=data)


def _calls(data: RunTimes) -> Iterator[str]:
    calls: dict[tuple[str, bool], list[CallTime]] = {}
    for call in data.calls:
        calls.setdefault((call.frame, call.backward), []).append(call)
    for (frame, backward), own in calls.items():
        yield _line([call.seconds for call in own], f"{frame or 'an unknown frame'}{', its backward' if backward else ''}")


def _exchanges(data: RunTimes) -> Iterator[str]:
    exchanges: dict[tuple[str, str, str], list[ExchangeTime]] = {}
    for one in data.exchanges:
        exchanges.setdefault((one.artifact, one.node, one.operator), []).append(one)
    for (artifact, node, operator), own in exchanges.items():
        seconds = [one.seconds for one in own if one.seconds is not None]
        name = f"{artifact}  {node}" if node else f"{operator}, of an unknown graph"
        yield _line(seconds, f"in {name}") if seconds else f"{'':30}  in {name}: not known how long"


def _line(seconds: Sequence[float], what: str) -> str:
    return f"{sum(seconds) * 1e3:12.3f} {len(seconds):6} {median(seconds) * 1e3:10.3f}  {what}"


def kinds(artifact: Artifact) -> Sequence[str]:
    """No line computes."""
    return ["times"] * len(artifact.lines)


def summary_of(data: RunTimes) -> str:
    """How often compiled frames were called, and what that took."""
    outer = [call.seconds for call in data.calls if call.outer]
    waited = sum(one.seconds or 0.0 for one in data.exchanges)
    said = f"{len(outer)} calls of compiled frames took {sum(outer) * 1e3:.4g} ms"
    return said + (f", {waited * 1e3:.4g} ms in collectives" if data.exchanges else "")


def summary(artifacts: Sequence[Artifact]) -> str:
    """The same for the stage table."""
    return summary_of(typed(RunTimes, artifacts[0].data))


STAGE = Stage(
    name="run_times",
    title="Run times",
    language="text",
    render=render,
    kinds=kinds,
    summary=summary,
    why_absent=(
        "no profile was read in: explorer trace --profile takes one of a program, t.with_profile(prof) reads a "
        "torch.profiler.profile or an exported Chrome trace"
    ),
    about="What each call of a compiled frame took in a profile, and where it waited in collectives.",
)
