"""Worker processes for triton's passes, LLVM and ptxas: a crash there is an error here and nothing more."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from explorer.errors import CompileError
from explorer.model.values import text_lines
from explorer.process import scratch

#: A kernel that takes longer than this, in seconds, is given up.
PATIENCE = 600.0
#: A kernel compiles in a fraction of a second: more processes than these cost more to start than they save.
MOST_WORKERS = 4


class StageError(CompileError):
    """A stage of the compiler failed or crashed; `said` is all that the worker printed."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


class Worker:
    """One worker process, started when first asked or before, and again after a crash."""

    def __init__(self, environment: Mapping[str, str] | None = None, patience: float = PATIENCE) -> None:
        self._environment = dict(environment or {})
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The worker's answer; CompileError, with what the compiler said, where a stage failed or the process died."""
        process = self._process or self.start()
        began = self._errors.tell()
        timer = threading.Timer(self._patience, process.kill)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            pickle.dump(dict(job), process.stdin)
            process.stdin.flush()
            answer: dict[str, Any] = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = process.wait()
            said = self._said(began)
            self.close()
            raise StageError(died(code, said), said) from None
        finally:
            timer.cancel()
        answer["stderr"] = self._said(began)
        if "error" in answer:
            raise StageError(refused(answer), answer["stderr"])
        return answer

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process, which imports triton while nobody waits for it."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed with the worker
        path = os.pathsep.join([str(_home()), *filter(None, sys.path)])
        environment = {**os.environ, "TMPDIR": str(scratch.home()), **self._environment, "PYTHONPATH": path}
        command = [sys.executable, "-c", "from explorer.ladder.triton_worker import main; main()"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
        )
        return self._process

    def _said(self, began: int) -> str:
        self._errors.seek(began)
        return str(self._errors.read().decode(errors="replace"))

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Pool:
    """Several workers, all started at once; jobs are taken in order, by whichever worker is free."""

    def __init__(self, size: int, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._threads = ThreadPoolExecutor(MOST_WORKERS, thread_name_prefix="explorer-triton")
        self._free: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self.grow(size)

    def grow(self, size: int) -> None:
        """Have at least that many workers, and no more than MOST_WORKERS; a new one starts at once, and is waited for by none."""
        while len(self._workers) < min(size, MOST_WORKERS):
            worker = Worker(self._environment)
            worker.start()
            self._workers.append(worker)
            self._free.put(worker)

    def submit(self, job: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """A future of the job's answer."""
        return self._threads.submit(self._ask, job)

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        worker = self._free.get()
        try:
            return worker.ask(job)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """Wait for the jobs under way and end the workers."""
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def died(code: int, said: str) -> str:
    """What to tell of a worker that died: how, at which stage, and its last words."""
    stage = said.rpartition("-- explorer stage ")[2].partition("\n")[0] if "-- explorer stage " in said else "start"
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"the compiler crashed in stage {stage} ({how}); nothing else was harmed{_words(said)}"


def refused(answer: Mapping[str, Any]) -> str:
    """What to tell of a stage that failed: the stage, the error, and what MLIR, LLVM or ptxas printed."""
    said = f"{answer['stderr']}\n{answer['said']}" if answer["stage"] != "cubin" else ""
    error = str(answer["error"]).partition("Repro command:")[0].strip()
    return f"the compiler failed in stage {answer['stage']}: {error}{_words(said)}"


def _words(said: str, most: int = 30) -> str:
    """The last lines that the compiler itself printed, indented; "" for none."""
    lines = [line for line in text_lines(said) if line.strip() and not line.startswith("-- explorer stage ")]
    first: Sequence[str] = [line for line in lines if "error:" in line or "LLVM ERROR" in line or "Assertion" in line][:3]
    shown = [*first, *(line for line in lines[-most:] if line not in first)] if len(lines) > most else lines
    return "".join(f"\n    {line}" for line in shown)


def _home() -> Path:
    """The folder that holds the explorer package."""
    return Path(__file__).parents[2]
