"""A verb under way: the open views are told what it does, one of them can stop it, and elsewhere nothing happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from explorer.process import under_way
from explorer.process.progress import progress
from explorer.process.stopping import interruptible
from explorer.process.under_way import Report, Watchers, knowing, step
from tests.facts import says


class View(list[Report | None]):
    """A view that remembers what it was told."""

    def hear(self, report: Report | None) -> None:
        self.append(report)

    def wait_for(self, holds: Callable[[Report], bool]) -> Report:
        """The first report for which something holds."""
        for _ in range(2000):
            for report in list(self):
                if report is not None and holds(report):
                    return report
            time.sleep(0.005)
        raise AssertionError(f"not told in 10 s: {self}")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb is long."""
    monkeypatch.setattr(under_way, "INTERVAL", 0.02)


@pytest.fixture
def watched() -> Iterator[tuple[Watchers, View]]:
    """The watchers of a trace, one of which is a view; at the end no thread is left."""
    watchers, view = Watchers(), View()
    watchers.add(view.hear)
    yield watchers, view
    assert not [thread for thread in threading.enumerate() if thread.name == "explorer-progress"]


def test_a_view_hears_each_step_and_the_end(watched: tuple[Watchers, View]) -> None:
    """What the verb does, how far it is and how long it has worked are told; None says that it has ended."""
    watchers, view = watched
    with watchers.verb("check()"):
        step("timing", 3, 30)
        told = view.wait_for(lambda report: report.phase == "timing")
    assert (told.what, told.done, told.of, told.stopping) == ("check()", 3, 30, False)
    assert told.seconds >= 0.02
    assert view[-1] is None and None not in view[:-1]


def test_a_first_result_stands_before_each_later_step(watched: tuple[Watchers, View]) -> None:
    """While the rest takes minutes, the reader knows what came of the first part; after the block it is not said again."""
    watchers, view = watched
    with watchers.verb("edit()"):
        with knowing("its launch is right"):
            step("interpreting")
            view.wait_for(lambda report: report.phase == "its launch is right; interpreting")
        step("timing")
        view.wait_for(lambda report: report.phase == "timing")


def test_an_error_ends_the_verb_too(watched: tuple[Watchers, View]) -> None:
    """The program's own error goes through, and the view shows nothing any more."""
    watchers, view = watched
    with pytest.raises(ZeroDivisionError), watchers.verb("run()"):
        view.wait_for(lambda report: report.what == "run()")
        _ = 1 // 0
    assert view[-1] is None


def test_a_short_verb_is_not_told(monkeypatch: pytest.MonkeyPatch, watched: tuple[Watchers, View]) -> None:
    """A loop of calls that take no time sends no messages."""
    monkeypatch.setattr(under_way, "INTERVAL", 10)
    watchers, view = watched
    for _ in range(20):
        with watchers.verb("run()"):
            step("calling it")
    assert view == []


def test_nobody_is_told_where_no_view_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a terminal: no thread is begun, and an interruption is what it always was."""
    watchers, view = Watchers(), View()
    watchers.add(view.hear)
    watchers.remove(view.hear)
    monkeypatch.setattr(under_way, "Thread", None)  # a thread would be an error
    with watchers.verb("check()"):
        assert under_way.under_way() is None
        step("calling it")
        watchers.stop()
        step("calling it again")
    assert view == []


def test_a_verb_inside_another_is_a_part_of_it(watched: tuple[Watchers, View]) -> None:
    """What a verb calls of another trace is told to the views of the first, under the first one's name."""
    watchers, view = watched
    other, other_view = Watchers(), View()
    other.add(other_view.hear)
    with watchers.verb("what_if()"), other.verb("check()"):
        step("comparing")
        assert view.wait_for(lambda report: report.phase == "comparing").what == "what_if()"
    assert other_view == []


def test_phases_that_a_terminal_is_shown_are_told_to_a_view(watched: tuple[Watchers, View]) -> None:
    """`progress` tells the verb under way, whether or not somebody watches the terminal too."""
    watchers, view = watched
    with watchers.verb("what_if()"), progress("f") as show:
        assert view.wait_for(lambda report: bool(report.phase)).phase == "compiling f"
        assert show is not None
        show("build_guards")
        view.wait_for(lambda report: report.phase == "compiling f: build_guards")


@pytest.mark.parametrize("where", ["call", "step"])
def test_a_view_stops_a_verb(watched: tuple[Watchers, View], where: str) -> None:
    """Asked by a view in another thread the verb ends, inside the user's function or before its next step, as if interrupted."""
    watchers, view = watched
    cleaned: list[bool] = []

    def stop() -> None:
        view.wait_for(lambda report: report.what == "check()")
        watchers.stop()

    def work() -> None:
        if where == "call":
            with interruptible():
                time.sleep(0.01)
        else:
            time.sleep(0.01)
            step("the next part")

    asking = threading.Thread(target=stop)
    asking.start()
    with pytest.raises(KeyboardInterrupt, match=says("check()", "stopped", "view")), watchers.verb("check()"):
        end = time.monotonic() + 10
        try:
            while time.monotonic() < end:
                work()
        finally:
            cleaned.append(True)
    asking.join()
    assert cleaned == [True] and view[-1] is None
    with watchers.verb("check()"):
        step("what is called afterwards is not stopped")


def test_a_view_hears_that_its_wish_has_arrived(watched: tuple[Watchers, View]) -> None:
    """Until the verb can end, the report says that it was asked to."""
    watchers, view = watched
    with pytest.raises(KeyboardInterrupt), watchers.verb("check()"):
        watchers.stop()
        view.wait_for(lambda report: report.stopping)
        step("the next part")


def test_a_verb_of_another_thread_is_its_own(watched: tuple[Watchers, View]) -> None:
    """A step of a thread that works for no verb changes nothing of what is told."""
    watchers, view = watched
    with watchers.verb("check()"):
        step("here")
        other: Any = threading.Thread(target=step, args=("elsewhere",))
        other.start()
        other.join()
        view.wait_for(lambda report: report.phase == "here")
    assert "elsewhere" not in {report.phase for report in view if report is not None}


def test_a_view_that_raises_does_not_silence_the_others() -> None:
    """It hears nothing more; the others hear of the verb and of its end, and the verb goes on."""
    watchers, heard = Watchers(), View()

    def refuse(report: Report | None) -> None:
        raise OSError("the comm is closed")

    watchers.add(refuse)
    watchers.add(heard.hear)
    with watchers.verb("check()"):
        heard.wait_for(lambda report: report.what == "check()")
    assert [report.what if report else None for report in heard] == ["check()", None]


def test_the_end_of_one_verb_leaves_the_other_in_sight() -> None:
    """Of two verbs in two threads the one that goes on is told again when the other has ended."""
    watchers, heard, over = Watchers(), View(), threading.Event()
    watchers.add(heard.hear)

    def long() -> None:
        with watchers.verb("long"):
            over.wait(30)

    thread = threading.Thread(target=long)
    thread.start()
    try:
        heard.wait_for(lambda report: report.what == "long")
        with watchers.verb("short"):
            heard.wait_for(lambda report: report.what == "short")
        assert [report.what if report else None for report in heard] == ["long", "short", "long"]
    finally:
        over.set()
        thread.join()
    assert heard[-1] is None


def test_an_interrupt_while_a_verb_begins_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error from the start of the thread that tells the views ends the verb; the next one is heard of."""
    watchers, heard = Watchers(), View()
    watchers.add(heard.hear)

    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during, pytest.raises(KeyboardInterrupt):
        during.setattr(threading.Thread, "start", interrupted)
        with watchers.verb("check()"):
            pass
    assert under_way.under_way() is None
    with watchers.verb("run()"):
        heard.wait_for(lambda report: report.what == "run()")
    assert [report.what if report else None for report in heard] == ["run()", None]
