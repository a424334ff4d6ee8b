"""Stopping: a call in another thread ends where it may be interrupted, and nothing else is disturbed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from explorer.process.stopping import Stopped, Stopping, interruptible


def worked(action: Callable[[], None], stopping: Stopping, ask: threading.Event) -> list[str]:
    """What a thread came to that does `action` and is asked to stop as soon as the event is set."""
    ended: list[str] = []

    def work() -> None:
        try:
            with stopping.during():
                action()
            ended.append("done")
        except Stopped:
            ended.append("stopped")

    thread = threading.Thread(target=work)
    thread.start()
    assert ask.wait(10)
    stopping.ask()
    thread.join(30)
    assert not thread.is_alive()
    return ended


def test_a_call_is_interrupted() -> None:
    """A loop of Python ends at the next step, with its own clean-up done."""
    ready, cleaned = threading.Event(), []

    def loop() -> None:
        with interruptible():
            try:
                ready.set()
                while True:
                    time.sleep(0.001)
            finally:
                cleaned.append(True)

    assert worked(loop, Stopping(), ready) == ["stopped"]
    assert cleaned == [True]


def test_what_must_not_be_interrupted_is_not() -> None:
    """Outside of the calls that allow it the question waits, and the next such call is not begun."""
    ready, steps = threading.Event(), []

    def protected() -> None:
        ready.set()
        for step in range(100):
            time.sleep(0.002)
            steps.append(step)
        with interruptible():
            steps.append("called")

    assert worked(protected, Stopping(), ready) == ["stopped"]
    assert steps == list(range(100))


def test_a_question_counts_once() -> None:
    """What is done after it is not stopped, and neither is what runs where nobody can ask."""
    stopping = Stopping()
    stopping.ask()
    with stopping.during(), interruptible():
        assert not stopping.asked
    with interruptible():
        pass


def test_many_questions_at_any_moment_leave_nothing_behind() -> None:
    """However the question falls, a thread ends done or stopped, and no later step of it is interrupted."""
    for number in range(60):
        stopping, ready = Stopping(), threading.Event()

        def short(ready: threading.Event = ready, number: int = number) -> None:
            for step in range(20):
                with interruptible():
                    if step == number % 20:
                        ready.set()
                    sum(range(50))

        assert worked(short, stopping, ready)[0] in ("done", "stopped")


def test_an_error_of_the_call_is_its_own() -> None:
    """Where nobody asks, an error goes through as it is."""
    with pytest.raises(ValueError, match="mine"), Stopping().during(), interruptible():
        raise ValueError("mine")
