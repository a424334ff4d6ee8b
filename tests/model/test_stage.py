"""A stage itself says what is shown of it: a stage that the package does not know is shown like explorer's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from explorer.errors import InputError
from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event, Failure
from explorer.stages import STAGES
from explorer.stages.replay import extended, replay
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import says, untold

Recorded = Callable[[str], tuple[list[Event], list[Failure], dict[str, object]]]


@record
class Mine(Record):
    """What the artifacts of a stage of a test hold."""

    size: int


@record
class MineText(Mine):
    """What its events hold."""

    text: str


def stage(**fields: object) -> Stage:
    """A stage that the package does not know."""

    def render(event: Event, id: str) -> Artifact:
        return text_artifact(event, id, "Mine", "text", text="one\ntwo")

    return Stage(name="mine", title="Mine", language="text", about="A stage of a test.", render=render, **fields)  # type: ignore[arg-type]


def no_text(trace: Trace) -> str:
    """What the trace says of a stage that it lacks."""
    with pytest.raises(InputError) as told:
        trace.text("mine")
    return str(told.value)


def test_a_stage_says_why_a_trace_lacks_it(recorded: Recorded) -> None:
    """By `why_absent`; a stage of another backend alone names that backend, which is what to trace with."""
    events, failures, meta = recorded("sin_cos-torch2.13-cpu")
    absent = stage(why_absent="the program has no loop; add one")
    assert "no loop; add one" in no_text(trace_of_events(events, failures, meta, (*STAGES, absent)))
    other = stage(backend="tvm", why_absent="never said")
    told = no_text(trace_of_events(events, failures, meta, (*STAGES, other)))
    assert not untold(told, "'mine'", "backend='tvm'") and "never said" not in told


@pytest.mark.parametrize("of_inductor", [s.name for s in STAGES if s.backend == "inductor"])
def test_a_stage_that_only_inductor_has_names_it(of_inductor: str, recorded: Recorded) -> None:
    """A trace with another backend says to trace with Inductor."""
    events, _, meta = recorded("sin_cos-torch2.13-cpu")
    dynamo = [event for event in events if event.kind == "dynamo"]
    with pytest.raises(InputError, match=says(repr(of_inductor), "'eager'", "backend='inductor'")):
        trace_of_events(dynamo, (), {**meta, "backend": "eager"}).text(of_inductor)


def test_a_stage_names_the_links_that_it_cannot_make() -> None:
    """`unlinked` of an artifact that is made on demand are failures of the trace, each once."""

    def unlinked(artifact: Artifact) -> Iterable[Failure]:
        yield Failure("mine", "link", f"{artifact.language} states no lines")

    mine = trace_of_events([], stages=(*STAGES, stage(unlinked=unlinked)))
    texts = [Artifact(f"a{n}", "mine", "0/0", "", "Mine", "text", "x") for n in range(2)]
    assert extended(mine, texts).failures == (Failure("mine", "link", "text states no lines"),)


def test_a_launch_counts_as_linked_over_its_whole_kernel(recorded: Recorded) -> None:
    """Only for a stage with `over_wholes`: the same text under a stage without it has fewer lines that lead to the user's."""
    events, failures, meta = recorded("sin_cos-torch2.13-cpu")
    whole = next(s for s in STAGES if s.name == "output_code")
    assert whole.over_wholes
    plain = Stage(**{f: getattr(whole, f) for f in Stage.__slots__ if f != "over_wholes"})
    traces = [trace_of_events(events, failures, meta, (*STAGES, used)) for used in (whole, plain)]
    linked = [{row["linked"] for row in trace.coverage() if row["stage"] == "output_code"} for trace in traces]
    assert linked[0] != linked[1]


def test_the_events_and_artifacts_of_a_stage_of_ones_own_are_its_records() -> None:
    """What its probe emits is read by its `event`, its artifact by its `artifact`; an event that does not fit is a Failure."""
    events = [
        Event("mine", 1.0, "0/0", data={"text": "a", "size": 3}),
        Event("mine", 2.0, "0/0", data={"text": "b", "size": "x"}),
    ]
    seen: list[int] = []

    def render(event: Event, id: str) -> Artifact:
        seen.append(typed(MineText, event.data).size)
        return text_artifact(event, id, "Mine", "text")

    mine = Stage("mine", "Mine", "text", "", render, event=MineText, artifact=Mine)
    trace = replay(events, stages=(*STAGES, mine))
    (artifact,) = trace.find("mine")
    assert seen == [3] and artifact.data == Mine(size=3) and isinstance(artifact.data, Mine)
    (failure,) = trace.failures
    assert (failure.stage, failure.step) == ("mine", "record") and not untold(failure.message, "size", "int", "str")
