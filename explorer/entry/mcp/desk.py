"""The traces that a server has open, by name: files in its own process, programs each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.entry.mcp import questions, verbs
from explorer.entry.mcp.answer import Answer
from explorer.errors import InputError, LiveError, unknown_name
from explorer.process import regular_files
from explorer.process.children import command, environment
from explorer.process.descendants import Descendants
from explorer.tracing.traced.ranks import Ranks, load
from explorer.tracing.traced.trace import Trace
from explorer.tracing.traced.trace import load as load_trace

#: The seconds after which a process that gives no answer is ended.
PATIENCE = 900.0
#: How what is offered begins that a trace from a file cannot do.
NEEDS_PROCESS = (*(f"{verb}(" for verb in verbs.__all__), "t.what_if(")
#: The characters of what a process printed that an error quotes.
QUOTED = 1500


class Worker:
    """A process that traced a program."""

    def __init__(self, folder: Path) -> None:
        self._printed = (folder / "printed.txt").open("w+b")
        self._started = Descendants()
        self._process = subprocess.Popen(
            command("explorer.entry.mcp.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
            encoding="utf-8",
            env=environment(**self._started.environment),
            start_new_session=True,
        )
        self._started.add(self._process)
        self._reader = ThreadPoolExecutor(1, "explorer-mcp")
        self._turn = threading.Lock()

    def ask(self, question: str, trace: str, arguments: Mapping[str, Any], seconds: float = PATIENCE) -> dict[str, Any]:
        """Ask a question; LiveError where the process has ended or gives no answer in time, which ends it."""
        with self._turn:
            self._send({"question": question, "trace": trace, "arguments": dict(arguments)})
            answer = self._read(seconds)
        if "error" in answer:
            raise InputError(answer["error"])
        return dict(answer["answer"])

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            raise LiveError("the process of this trace was ended, because it gave no answer in time; trace the program again")
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        reading = self._reader.submit(self._process.stdout.readline)
        try:
            line = reading.result(seconds)
        except TimeoutError:
            self.end()
            raise LiveError(f"there was no answer in {seconds:g} s, so its process was ended; trace the program again") from None
        if not line.endswith("\n"):
            raise self._ended()
        return dict(json.loads(line))

    def _ended(self) -> LiveError:
        """The error for a process that is gone."""
        status = self._process.wait(10)
        self._printed.seek(max(0, self._printed.seek(0, os.SEEK_END) - 4 * QUOTED))  # it may have printed gigabytes
        printed = self._printed.read().decode(errors="replace")[-QUOTED:].strip()
        said = f"It printed:\n{printed}" if printed else "It printed nothing."
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return LiveError(f"the process of this trace has ended {how}; trace the program again. {said}")

    def kill(self) -> None:
        """End the process and all that it started; who waits for its answer learns that it has ended."""
        self._started.end()

    def end(self) -> None:
        """End the process and all that it started, and close what leads to it."""
        self.kill()
        self._process.wait()
        self._reader.shutdown()
        for pipe in (self._process.stdin, self._process.stdout, self._printed):
            if pipe is not None and not pipe.closed:
                _closed(pipe)


def _closed(pipe: Any) -> None:
    """Close a pipe to a process that may be gone, with what was not yet read by it."""
    with suppress(BrokenPipeError):
        pipe.close()


class Cancelling:
    """Ends the process of a request when the request is cancelled, or as soon as there is one."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._end: Callable[[], None] | None = None
        self._cancelled = False

    def ends_by(self, end: Callable[[], None] | None) -> None:
        """Say what ends the process, None once it has answered; LiveError where the request was cancelled before."""
        with self._turn:
            if self._cancelled:
                raise LiveError("the request was cancelled")
            self._end = end

    def cancel(self) -> None:
        """End the process now."""
        with self._turn:
            self._cancelled = True
            if self._end is not None:
                self._end()


@dataclass(frozen=True)
class RankOf:
    """A rank of a job, which is read when it is asked for: `Ranks` keeps two at a time, however many there are."""

    ranks: Ranks
    rank: int


class Desk:
    """All open traces. Use it as a context: at the end the processes are ended and what they wrote is removed."""

    def __init__(self, readable: Sequence[Path] | None = None) -> None:
        """`readable` are the folders below which clients may have files read; None for all."""
        self._readable = readable
        self._held: dict[str, Trace | Worker | RankOf] = {}
        self._said: dict[str, str] = {}
        self._count = 0
        self._turn = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="explorer-mcp-", ignore_cleanup_errors=True)

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in {id(held): held for held in self._held.values() if isinstance(held, Worker)}.values():
            worker.end()
        self._folder.cleanup()

    def _next_name(self) -> str:
        with self._turn:
            self._count += 1
            return f"t{self._count}"

    def open(self, path: str) -> tuple[str, dict[str, Any]]:
        """Open a trace file or a log; its name and its stages. Of several ranks each is a trace."""
        with self._below():
            loaded = load(path)
        if not isinstance(loaded, Ranks):
            return self._held_as(loaded, path), questions.stages(loaded).sent()
        loaded.raise_if_none_is_readable()
        names = {rank: self._held_as(RankOf(loaded, rank), f"rank {rank} of {path}") for rank in loaded}
        rows = [{"trace": name, "rank": rank} for rank, name in names.items()]
        return next(iter(names.values())), Answer(repr(loaded), rows, ("compare(traces) of two ranks",)).sent()

    def _below(self) -> AbstractContextManager[None]:
        """Read only what clients may."""
        return regular_files.below(self._readable, "start `explorer mcp --root FOLDER` with a folder that has it")

    def _held_as(self, trace: Trace | RankOf, of: str) -> str:
        name = self._next_name()
        self._held[name], self._said[name] = trace, of
        return name

    def trace(
        self, code: str, path: str, call: str, seconds: float, cancelling: Cancelling | None = None, **settings: Any
    ) -> tuple[str, dict[str, Any]]:
        """Trace a call of a program, given as text or by its file, in a process of its own; its name and its stages."""
        if bool(code) == bool(path):
            raise InputError("give the program either as code or by its path")
        if path:
            with self._below():
                regular_files.opened(path).close()
        cancelling = cancelling or Cancelling()
        name = self._next_name()
        folder = Path(self._folder.name) / name
        folder.mkdir()
        if code:
            path = str(folder / "program.py")
            Path(path).write_text(code, encoding="utf-8")
        worker = Worker(folder)
        with ExitStack() as failing:
            failing.callback(worker.end)
            cancelling.ends_by(worker.kill)
            answer = worker.ask("trace", name, {"path": path, "call": call, **settings}, seconds)
            cancelling.ends_by(None)
            failing.pop_all()
        self._held[name], self._said[name] = worker, f"{call} of {Path(path).name}"
        return name, answer

    def ask(self, trace: str, question: str, seconds: float = PATIENCE, **arguments: Any) -> dict[str, Any]:
        """Ask a question of an open trace."""
        held = self._opened(trace)
        if isinstance(held, Worker):
            return held.ask(question, trace, arguments, seconds)
        if question in verbs.__all__:
            needs = f"{trace} was read from a file, and {question} needs the process that compiled it"
            raise LiveError(f"{needs}: trace the program with trace")
        answer: dict[str, Any] = getattr(questions, question)(held, **arguments).sent()
        return {**answer, "next": [asking for asking in answer["next"] if not asking.startswith(NEEDS_PROCESS)]}

    def what_if(self, trace: str, seconds: float = PATIENCE, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Trace a call with something changed; the new trace's name, and what changed."""
        held, name = self._get_open(trace), self._next_name()
        if not isinstance(held, Worker):
            return name, self.ask(trace, "what_if")
        answer = held.ask("what_if", trace, {**arguments, "name": name}, seconds)
        self._held[name], self._said[name] = held, f"{self._said[trace]}, changed"
        return name, answer

    def compare(self, traces: Sequence[str], offset: int = 0) -> dict[str, Any]:
        """Compare open traces."""
        if len(traces) < 2:
            raise InputError("name two traces or more to compare")
        return questions.compared([self._data(name) for name in traces], list(traces), offset).sent()

    def _data(self, name: str) -> Trace:
        """The data of a trace, from its process where it has one."""
        held = self._opened(name)
        if not isinstance(held, Worker):
            return held
        path = Path(self._folder.name) / f"{name}.trace"
        held.ask("save", name, {"path": str(path)})
        return load_trace(path)

    def _opened(self, name: str) -> Trace | Worker:
        """The trace of that name, a rank's read now, or the process that has it."""
        held = self._get_open(name)
        if not isinstance(held, RankOf):
            return held
        with self._below():
            return held.ranks[held.rank]

    def _get_open(self, name: str) -> Trace | Worker | RankOf:
        if name not in self._held:
            raise unknown_name("trace", name, list(self._held) or ["none is open: call load or trace"])
        return self._held[name]

    def listed(self) -> list[dict[str, str]]:
        """One row per open trace: name, what it is of, and whether it can be run."""
        kinds = {name: "live" if isinstance(held, Worker) else "file" for name, held in self._held.items()}
        return [{"trace": name, "of": self._said[name], "kind": kind} for name, kind in kinds.items()]

    def close(self, name: str) -> str:
        """Close a trace; its process ends with its last trace."""
        held = self._get_open(name)
        del self._held[name]
        if isinstance(held, Worker) and not any(other is held for other in self._held.values()):
            held.end()
        return f"{name} is closed"
