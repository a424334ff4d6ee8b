"""A process ends with all that it started, also with what left its group, its session and its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Timer

import pytest

from explorer.process import descendants
from explorer.process.children import environment
from explorer.process.descendants import Descendants
from tests.processes import is_running

pytestmark = [pytest.mark.compile, pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")]

#: Starts a child with an environment, one in a session of its own, and a daemon whose parent has ended; then it waits, or ends.
PROGRAM = """
import json, os, subprocess, sys, time
from explorer.process.descendants import end_this_process

waits = [sys.executable, "-c", "import time; time.sleep(600)"]
child, apart = (subprocess.Popen(waits, env=env, stdout=2, start_new_session=True) for env in ({env}, None))
daemon = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2).pid)"
orphan = subprocess.run([sys.executable, "-c", daemon, *waits], stdout=subprocess.PIPE, text=True, start_new_session=True)
print(json.dumps([os.getpid(), child.pid, apart.pid, int(orphan.stdout)]), flush=True)
{then}
"""

#: Starts others all the time, but never more than the system allows: where it fails to, it ends, and its children are nobody's.
STARTS_OTHERS = 'while True: subprocess.Popen(["sleep", "5"], stdout=2, start_new_session=True); time.sleep(0.01)'


@contextmanager
def started(then: str, env: str = "None") -> Iterator[tuple[Descendants, subprocess.Popen[str], list[int]]]:
    """Start the program: what ends it, its process, and the numbers of all its processes."""
    all_of_it = Descendants()
    command = [sys.executable, "-c", PROGRAM.format(then=then, env=env)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(**all_of_it.environment),
        start_new_session=True,
    )
    try:
        all_of_it.add(process)
        assert process.stdout is not None
        yield all_of_it, process, json.loads(process.stdout.readline())
    finally:
        all_of_it.end()
        process.communicate()


@pytest.fixture(params=["cgroup", "proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which way processes are found; skipped where this process may make no cgroup."""
    if request.param == "proc":
        monkeypatch.setattr(descendants, "_group_of", lambda _: None)
    return str(request.param)


@pytest.mark.parametrize(
    ("then", "env"),
    [
        ("time.sleep(600)", "{}"),
        (STARTS_OTHERS, "{}"),
        ("os.abort()", "None"),  # its child is found by the mark alone
    ],
)
def test_all_end(then: str, env: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the process waits, has ended itself or starts others all the time: once `end` returns, none of them runs."""
    with started(then, env) as (all_of_it, process, numbers):
        if way == "cgroup" and all_of_it._group is None:
            pytest.skip("this process may make no cgroup")
        if then == "os.abort()":
            process.wait()
        assert all(is_running(number) for number in numbers[1:])
        with monkeypatch.context() as only:
            if way == "cgroup":
                only.setattr(descendants, "_end_family", lambda *_: None)
            all_of_it.end()
        assert [number for number in numbers if is_running(number)] == []
        assert descendants._family(None, all_of_it._mark) == {}
        assert all_of_it._group is None


def test_a_killed_process_has_ended_when_end_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that takes a moment to end, and that neither its parent, which has ended, nor a mark tells any more."""
    monkeypatch.setattr(descendants, "_group_of", lambda _: None)
    with started("time.sleep(600)", "{}") as (all_of_it, _, (_, child, *_)):

        def kill_the_child_later(number: int, what: signal.Signals) -> None:
            if (number, what) == (child, signal.SIGKILL):
                Timer(0.3, os.kill, (number, what)).start()
            else:
                os.kill(number, what)

        def send(numbers: Iterable[int], what: signal.Signals) -> None:
            as_it_is(numbers, what, kill_the_child_later)

        as_it_is = descendants._send
        monkeypatch.setattr(descendants, "_send", send)
        all_of_it.end()
        assert not is_running(child)


def test_a_process_ends_itself_with_all_that_it_started() -> None:
    """It is the one that knows when nobody else is left who would end it."""
    with started("sys.stdin.read()\nend_this_process()") as (_, process, numbers):
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        assert process.wait(60) != 0
        assert [number for number in numbers if is_running(number)] == []


def test_nobody_else_ends() -> None:
    """Another process that was started in the same way goes on."""
    with started("time.sleep(600)") as (_, _, others), started("time.sleep(600)") as (all_of_it, _, _):
        all_of_it.end()
        assert all(is_running(number) for number in others)
