"""Worker processes for triton's passes, LLVM and ptxas, so that a crash there is only an error here."""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from explorer.errors import CompileError
from explorer.model.values import text_lines
from explorer.process import scratch
from explorer.process.children import command, environment
from explorer.process.undebugged import undebugged

#: Seconds after which a kernel's compile is given up.
PATIENCE = 600.0
#: A kernel compiles in a fraction of a second: more processes than these cost more to start than they save.
MAX_WORKERS = 4


class StageError(CompileError):
    """A stage of the compiler failed or crashed; `printed` is all that the worker printed."""

    def __init__(self, message: str, printed: str) -> None:
        super().__init__(message)
        self.printed = printed


class Worker:
    """A worker process, started by the first job or by `start`, and again after a crash."""

    def __init__(self, environment: Mapping[str, str] | None = None, patience: float = PATIENCE) -> None:
        self._environment = dict(environment or {})
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Send a job and return the answer; CompileError, with the compiler's output, if a stage failed or the process died."""
        process = self._process or self.start()
        start = self._errors.tell()
        timer = threading.Timer(self._patience, process.kill)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            pickle.dump(dict(job), process.stdin)
            process.stdin.flush()
            answer: dict[str, Any] = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = process.wait()
            printed = self._printed_since(start)
            self.close()
            raise StageError(crash_message(code, printed), printed) from None
        finally:
            timer.cancel()
        answer["stderr"] = self._printed_since(start)
        if "error" in answer:
            raise StageError(failure_message(answer), answer["stderr"])
        return answer

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process, which imports triton at once, before the first job."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed with the worker
        given = environment(TMPDIR=str(scratch.home()), **self._environment)
        with undebugged():
            self._process = subprocess.Popen(
                command("explorer.capture.ladder.triton_worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=given,
            )
        return self._process

    def _printed_since(self, start: int) -> str:
        self._errors.seek(start)
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
    """Several workers, started at once; the next free worker takes the next job."""

    def __init__(self, size: int, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._threads = ThreadPoolExecutor(MAX_WORKERS, thread_name_prefix="explorer-triton")
        self._free: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self.grow(size)

    def grow(self, size: int) -> None:
        """Start workers until there are `size`, at most MAX_WORKERS; returns without waiting for them."""
        while len(self._workers) < min(size, MAX_WORKERS):
            worker = Worker(self._environment)
            worker.start()
            self._workers.append(worker)
            self._free.put(worker)

    def submit(self, job: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Queue a job and return a future of its answer."""
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


def crash_message(code: int, printed: str) -> str:
    """Return the message for a worker that died: the stage, its signal or exit code, and its last output."""
    stage = printed.rpartition("-- explorer stage ")[2].partition("\n")[0] if "-- explorer stage " in printed else "start"
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"the compiler crashed in stage {stage} ({how}); nothing else was harmed{_compiler_output(printed)}"


def failure_message(answer: Mapping[str, Any]) -> str:
    """The message for a stage that failed: the stage, the error, and what MLIR, LLVM or ptxas printed."""
    printed = f"{answer['stderr']}\n{answer['printed']}" if answer["stage"] != "cubin" else ""
    error = str(answer["error"]).partition("Repro command:")[0].strip()
    return f"the compiler failed in stage {answer['stage']}: {error}{_compiler_output(printed)}"


def _compiler_output(printed: str, most: int = 30) -> str:
    """The compiler's errors and last lines, indented; "" for none."""
    lines = [line for line in text_lines(printed) if line.strip() and not line.startswith("-- explorer stage ")]
    first: Sequence[str] = [line for line in lines if "error:" in line or "LLVM ERROR" in line or "Assertion" in line][:3]
    shown = [*first, *(line for line in lines[-most:] if line not in first)] if len(lines) > most else lines
    return "".join(f"\n    {line}" for line in shown)
