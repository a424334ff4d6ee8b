"""Stopping: a call in another thread ends where it may be interrupted, and nothing else is disturbed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from explorer.process.stopping import Stopped, Stopping, interruptible


def worked(action: Callable[[], None], stopping: Stopping, ask: threading.Event) -> list[str]:
    """Run `action` in a thread that is asked to stop as soon as the event is set; return what it came to."""
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
    """Outside of the calls that allow it a request waits, and the next such call does not begin."""
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
    """What runs after the stopped call is not stopped, nor what runs where nobody can ask."""
    stopping = Stopping()
    stopping.ask()
    with stopping.during(), interruptible():
        assert not stopping.asked
    with interruptible():
        pass


def test_many_questions_at_any_moment_leave_nothing_behind() -> None:
    """Whenever the request comes, the thread ends done or stopped, and no later step of it is interrupted."""
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


@pytest.mark.compile
@pytest.mark.parametrize("asked", ["never", "in a call", "at a moment when the program swallows it"])
def test_a_debugger_goes_on_after_a_call_that_could_be_stopped(asked: str) -> None:
    """A trace function in another thread is called to the end: CPython does not wait for an error that nobody gets."""
    program = f"""
import sys, threading, time
from explorer.process.stopping import Stopped, Stopping, interruptible

stopping, inside, asked, over = Stopping(), threading.Event(), {asked!r}, threading.Event()

def call():
    with interruptible():
        inside.set()
        if asked != "never":
            try:
                while True:
                    time.sleep(0.001)
            except Stopped:
                if asked == "in a call":
                    raise

def work():
    try:
        with stopping.during():
            call()
    except Stopped:
        print("stopped")
    over.set()
    time.sleep(60)

threading.Thread(target=work, daemon=True).start()
inside.wait()
if asked != "never":
    stopping.ask()
over.wait()
lines = []
sys.settrace(lambda *event: lines.append(event[1]))
(lambda: None)()
sys.settrace(None)
print(lines)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == ["stopped"] * (asked == "in a call") + ["['call']"]
