"""Work in child processes: each step has a time limit, and one that kills its process takes no other with it.

A script hands `rows` a list of items and the command of its child; the child calls `serve` with what to do for an item: steps,
each with a name and a function that gives a row. A row comes as soon as it is there. A step at which the process ends, or
that takes too long, has a row of the kind "died", and another process goes on behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

#: A step: its name, and the function that gives its row.
Step = tuple[str, Callable[[], dict[str, Any]]]
#: Seconds that a process may take to start, to import torch and to prepare an item.
START = 120.0


def add_arguments(parser: argparse.ArgumentParser, seconds: float) -> None:
    """Add --part, --jobs, --seconds and --within."""
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts of the work")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=seconds, help="that one step may take")
    parser.add_argument("--within", type=float, help="seconds after which nothing more is begun")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)


def part(items: Sequence[Any], which: str) -> list[Any]:
    """Take the I-th of N parts of the items, in turn: "2/3" is every third from the second on."""
    number, count = (int(n) for n in which.split("/"))
    if not 1 <= number <= count:
        raise SystemExit(f"--part {which}: the first number is one of 1 to {count}")
    return list(items)[number - 1 :: count]


def rows(items: Sequence[Any], command: Sequence[str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows of all items in the order in which they come; each says its `item` and the `name` of its step.

    Items that were not begun within `options.within` seconds have a row of the kind "not tried".
    """
    until = time.monotonic() + options.within if options.within else None
    given: queue.SimpleQueue[Any] = queue.SimpleQueue()
    made: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    for item in items:
        given.put(item)
    count = max(1, min(options.jobs, len(items)))
    threads = [threading.Thread(target=_thread, args=(given, made, command, options, until), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    while count:
        row = made.get()
        if row is None:
            count -= 1
        else:
            yield row


def _thread(given: Any, made: Any, command: Sequence[str], options: argparse.Namespace, until: float | None) -> None:
    """Hand one item after another to a process of its own."""
    child = _Child(command, options)
    try:
        while True:
            item = given.get_nowait()
            if until is not None and time.monotonic() > until:
                made.put({"item": item, "name": "", "kind": "not tried"})
                continue
            for row in child.rows(item, until):
                made.put({"item": item, **row})
    except queue.Empty:
        pass
    except Exception as error:  # noqa: BLE001 what is wrong with the script itself is a row too, and no hang
        made.put({"item": None, "name": "", "kind": "died", "why": f"{type(error).__name__}: {error}"})
    finally:
        child.close()
        made.put(None)


class _Child:
    """A process that is started when it is first needed, and again after it ended."""

    def __init__(self, command: Sequence[str], options: argparse.Namespace) -> None:
        self._command, self._seconds = command, options.seconds
        single = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"} if options.jobs > 1 else {}
        self._environment = {**os.environ, **single}
        self._process: subprocess.Popen[str] | None = None
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 it lives as long as the object

    def rows(self, item: Any, until: float | None) -> Iterator[dict[str, Any]]:
        """Yield the rows of an item. A step that ended the process has one too, and another process goes on after it."""
        skip = 0
        while True:
            begun, why = "", ""
            for word, value in self._lines(item, skip):
                if word == "end":
                    return
                if word == "begin":
                    if until is not None and time.monotonic() > until:
                        self.end()
                        yield {"name": value, "kind": "not tried", "why": "nor is the rest of the item"}
                        return
                    begun, skip = value, skip + 1
                elif word == "row":
                    yield {"name": begun, **value}
                    begun = ""
                else:
                    why = value
            yield {"name": begun, "kind": "died", "why": why}
            if not begun:  # outside of every step: another process would end there too
                return

    def _lines(self, item: Any, skip: int) -> Iterator[tuple[str, Any]]:
        """Yield what the process says of an item; last that the process ended ("died", why) or the item ("end", None)."""
        process = self._started()
        assert process.stdin and process.stdout
        with contextlib.suppress(BrokenPipeError):  # it ended: the next line says so
            print(json.dumps([item, skip]), file=process.stdin, flush=True)
        limit = START + self._seconds
        while True:
            late = threading.Event()
            timer = threading.Timer(limit, lambda late=late: (late.set(), self._kill()))
            timer.start()
            line = process.stdout.readline()
            timer.cancel()
            if not line:
                status = process.wait()
                why = f"more than {limit:.0f} s" if late.is_set() else f"exit status {status}: {self._said()}"
                self.end()
                yield "died", why
                return
            word, _, value = line.rstrip("\n").partition(" ")
            if word in ("begin", "row", "end"):
                limit = self._seconds if word == "begin" else START + self._seconds
                yield word, json.loads(value)
                if word == "end":
                    return

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._log.truncate(0)
            self._process = subprocess.Popen(
                list(self._command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=self._environment,
                start_new_session=True,
            )
        return self._process

    def _said(self) -> str:
        """The end of what the process wrote to its stderr."""
        self._log.seek(0)
        return " ".join(self._log.read()[-300:].split())

    def _kill(self) -> None:
        """End the process and what it started: a compiler runs on otherwise."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()  # type: ignore[union-attr]
            self._process = None

    def close(self) -> None:
        """End the process and forget what it wrote."""
        self.end()
        self._log.close()


def serve(steps: Callable[[Any], Iterator[Step]]) -> None:
    """In the child: do the steps of each item that is read from stdin, without those that were begun before."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed is none of the rows

    def say(word: str, value: Any) -> None:
        print(word, json.dumps(value, default=str), file=out, flush=True)

    for line in sys.stdin:
        item, skip = json.loads(line)
        for number, (name, run) in enumerate(steps(item)):
            if number >= skip:
                say("begin", name)
                began = time.perf_counter()
                row = run()
                say("row", {**row, "seconds": round(time.perf_counter() - began, 1)})
        say("end", None)
