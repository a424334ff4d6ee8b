"""A trace of some of its compiles, and what of a large one a view opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer.analysis.questions import compiles
from explorer.errors import InputError
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.protocol import live_of
from explorer.model.deferred import is_deferred
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import Artifact, Link
from explorer.sources.files import trace_file
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from explorer.view.widget import Explorer
from tests.facts import says, untold

FRAMES = ("0/0", "1/0", "1/1", "2/0")
LINES = 10


def text_of(frame: str, stage: str) -> Artifact:
    """A text of ten lines."""
    return Artifact(f"{frame}:{stage}", stage, frame, "", stage, "text", "\n".join(f"{frame} {n}" for n in range(LINES)))


@pytest.fixture
def many() -> Trace:
    """Four compiles of two texts of ten lines each, linked, and a text that belongs to none."""
    artifacts = [text_of("", "settings"), *(text_of(frame, stage) for frame in FRAMES for stage in ("one", "two"))]
    links = [Link(f"{frame}:one", (1,), f"{frame}:two", (2,), "mine") for frame in FRAMES]
    across = Link("1/0:one", (1,), "2/0:one", (1,), "mine")
    return Trace({"name": "many"}, tuple(artifacts), (*links, across))


def ids(trace: TraceData) -> Sequence[str]:
    """The ids of a trace's texts."""
    return [artifact.id for artifact in trace.artifacts]


def test_a_part_has_its_compiles_and_what_belongs_to_none(many: Trace) -> None:
    """Texts stay in order; a link stays where both of its ends do."""
    part = many.only("2/0", "1/0")
    assert ids(part) == [":settings", "1/0:one", "1/0:two", "2/0:one", "2/0:two"]
    assert [(link.source, link.target) for link in part.links] == [
        ("1/0:one", "1/0:two"),
        ("2/0:one", "2/0:two"),
        ("1/0:one", "2/0:one"),
    ]
    assert [(link.source, link.target) for link in many.only("1/0").links] == [("1/0:one", "1/0:two")]
    assert many.only(*FRAMES) == many


def test_an_unknown_compile_is_refused(many: Trace) -> None:
    """The message offers those that there are."""
    with pytest.raises(InputError, match=says("compile", "'3/0'", "'2/0'")):
        many.only("0/0", "3/0")


def test_a_part_of_a_large_file_does_not_read_its_links(many: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links are read when they are asked for, and a text of another compile never."""
    monkeypatch.setattr(trace_file, "LARGE", 0)
    many.save(tmp_path / "t.json.gz")
    loaded = explorer.load(tmp_path / "t.json.gz")
    part = loaded.only("1/1")
    assert is_deferred(part, "links") and is_deferred(loaded, "links")
    assert part == many.only("1/1")
    assert is_deferred(artifact_of(loaded, "0/0:one"), "text")


@pytest.mark.parametrize(("most", "shown"), [(90, 4), (89, 3), (50, 2), (49, 1), (1, 1)])
def test_a_view_opens_as_many_compiles_as_fit(many: Trace, monkeypatch: pytest.MonkeyPatch, most: int, shown: int) -> None:
    """At least one is opened, whatever its size; what is left out is named, with the call that has it."""
    monkeypatch.setattr(compiles, "MAX_LINES", most)
    part = compiles.opened(many)
    assert part.compile_ids == FRAMES[:shown] and part.artifacts[0].frame == ""
    if shown == len(FRAMES):
        assert part is many
        return
    (said,) = part.failures
    assert not untold(said.what, str(shown), "4") and not said.fatal
    assert not untold(said.message, str(shown), "4 compiles", f"t.only({FRAMES[shown]!r})")
    assert many.only(*many.compile_ids[shown:]).compile_ids == FRAMES[shown:]  # as the message says


def test_one_large_compile_is_opened_whole(many: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a compile is left out."""
    monkeypatch.setattr(compiles, "MAX_LINES", 1)
    one = many.only("1/0")
    assert compiles.opened(one) is one


def test_the_widget_opens_the_part_and_says_so(many: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python asks of the view is that part, and the chip is in its payload; the page has all."""
    monkeypatch.setattr(compiles, "MAX_LINES", 50)
    view = Explorer(many)
    try:
        assert view.trace.compile_ids == FRAMES[:2]
        with pytest.raises(InputError, match="2/0:one"):
            view.select("2/0:one", 1)
        shown = payload(view.trace)
        (failure,) = shown["failures"]
        assert failure["title"] == "compiles" and not untold(failure["what"], "2", "4")
        assert "failure" not in shown["counts"]
    finally:
        view.close()
    assert len(payload(many)["artifacts"]) == 9


def test_what_is_live_stays_with_the_view(many: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of a part runs the same function; a part that is asked for has none."""
    monkeypatch.setattr(compiles, "MAX_LINES", 50)
    live = LiveFunction(None)  # type: ignore[arg-type]
    view = Explorer(replace(many, _live=live))
    try:
        assert live_of(view.trace) is live and view.is_live
    finally:
        view.close()
    assert live_of(replace(many, _live=live).only("0/0")) is None
