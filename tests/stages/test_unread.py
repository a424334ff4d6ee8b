"""Facts that are made when a recording is first read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from explorer.model.records import blank
from explorer.model.values import Event
from explorer.stages.records import EVENTS
from explorer.stages.replay import replay
from explorer.stages.unread import UnreadFacts, read


def test_an_event_that_is_copied_keeps_the_facts_that_it_will_have() -> None:
    """They go with the event's data, not with the one object that was recorded; both copies are read, the facts made once."""
    asked: list[str] = []

    def facts() -> dict[str, str]:
        asked.append("asked")
        return {"text": "made"}

    event = Event("own", 0.0, "0/0", data=UnreadFacts(facts))
    renamed = replace(event, frame="1/0")
    assert dict(event.data) == {} and not asked
    assert [(e.frame, dict(e.data)) for e in read([event, renamed]).events] == [
        ("0/0", {"text": "made"}),
        ("1/0", {"text": "made"}),
    ]
    assert asked == ["asked"]


def test_two_events_without_facts_are_not_equal() -> None:
    """What they will say is not known yet."""
    make = partial(dict, text="made")
    assert Event("own", 0.0, data=UnreadFacts(make)) != Event("own", 0.0, data=UnreadFacts(make))


def test_facts_that_cannot_be_made_are_one_failure() -> None:
    """However often they are read; the other events are there."""
    bad, good = Event("own", 0.0, data=UnreadFacts(lambda: dict([()]))), Event("own", 1.0)  # type: ignore[list-item]
    for _ in range(2):
        found = read([bad, bad, good])
        assert found.events == (good,)
        assert [(f.stage, f.step) for f in found.failures] == [("own", "record")]


def test_facts_that_cannot_be_made_name_their_frame_and_graph() -> None:
    """As the trace calls the frame; the same facts of two frames are lost in both."""

    def facts() -> dict[str, str]:
        raise RuntimeError("boom")

    event = Event("post_grad", 1.0, "7/0", "forward", data=UnreadFacts(facts))
    events = [Event("phase", 0.0, "7/0"), event, replace(event, time=2.0, frame="9/1", graph="")]
    messages = ["0/0 forward: RuntimeError: boom", "1/0: RuntimeError: boom"]
    assert [f.message for f in replay(events).failures if f.stage == "post_grad"] == messages
    assert [f.message for f in read(events).failures] == ["7/0 forward: RuntimeError: boom", "9/1: RuntimeError: boom"]


def test_a_failure_names_a_frame_that_no_other_has() -> None:
    """Of a frame whose only event cannot be read the number is not given to the next one."""

    def facts() -> dict[str, str]:
        raise RuntimeError("boom")

    events = [
        Event("post_grad", 1.0, "7/0", "forward", data=UnreadFacts(facts)),
        Event("recompile", 2.0, "9/1", data=blank(EVENTS["recompile"])),
    ]
    trace = replay(events)
    assert [f.message for f in trace.failures] == ["0/0 forward: RuntimeError: boom"]
    assert [a.frame for a in trace.artifacts] == ["1/0"]
