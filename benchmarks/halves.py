"""The halves of `fidelity.py`: one process for each half of each workload and dtype, several at a time.

A finished half is saved in a folder as soon as it ends. The next run reads it from there, so a run can be cut off, resumed, and
split over machines. Each process has Inductor's and triton's caches to itself, and for a GPU by name it sees no GPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Cases = dict[str, Any]


@dataclass(frozen=True)
class Half:
    """One workload in one dtype, inference and training, on the attached GPU ("cuda") or for a GPU by name.

    Without `forms` only what stands in the output code.
    """

    device: str
    workload: str
    dtype: str
    forms: bool = True

    @property
    def file_name(self) -> str:
        """The name of its files, without their endings."""
        return f"{self.device}-{self.workload}-{self.dtype}{'' if self.forms else '-sources'}"

    def without_trace(self, error: str) -> Cases:
        """Its cases where there is no trace, each with the reason."""
        return {f"{self.workload} {self.dtype} {mode}": {"error": error} for mode in ("inference", "training")}


@dataclass(frozen=True)
class Limits:
    """How many processes run at a time, how many of them use the GPU, and the seconds for one process and for all."""

    jobs: int = 1
    on_the_gpu: int = 1
    each: float = 600.0
    all: float = float("inf")


@dataclass
class Running:
    """A process that makes a half."""

    half: Half
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.began

    def stop(self) -> None:
        """Kill the process and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def make_halves(
    halves: Sequence[Half], command: Callable[[Half, Path], list[str]], folder: Path, limits: Limits
) -> Iterator[tuple[Half, Cases]]:
    """Yield each half as soon as it is there: the saved ones first, then those of processes, in the order given.

    `command` gives what a process runs to write a half to a file. A half that takes longer than the limits, or whose process
    ends with an error, has its reason in place of a trace and is not saved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    saved = [half for half in halves if (folder / f"{half.file_name}.json").exists()]
    for half in saved:
        yield half, json.loads((folder / f"{half.file_name}.json").read_text())
    ends = time.monotonic() + limits.all
    waiting, running = [half for half in halves if half not in saved], list[Running]()
    with tempfile.TemporaryDirectory() as caches:
        try:
            while waiting or running:
                while time.monotonic() < ends and (half := next_half(waiting, running, limits)):
                    waiting.remove(half)
                    running.append(start(half, command, folder, Path(caches)))
                time.sleep(0.05)
                for job in list(running):
                    cases = outcome(job, folder, limits, time.monotonic() >= ends)
                    if cases is not None:
                        running.remove(job)
                        shutil.rmtree(Path(caches) / job.half.file_name, ignore_errors=True)
                        yield job.half, cases
                if time.monotonic() >= ends:
                    for half in waiting:
                        yield half, half.without_trace("not finished: not begun in the time for all")
                    waiting.clear()
        finally:
            for job in running:
                job.stop()


def next_half(waiting: Sequence[Half], running: Sequence[Running], limits: Limits) -> Half | None:
    """The first half that may run now."""
    if len(running) >= limits.jobs:
        return None
    gpu_is_free = sum(job.half.device == "cuda" for job in running) < limits.on_the_gpu
    return next((half for half in waiting if half.device != "cuda" or gpu_is_free), None)


def start(half: Half, command: Callable[[Half, Path], list[str]], folder: Path, caches: Path) -> Running:
    """Start making a half, in a group of processes that can be killed together; its output goes to a log in the folder."""
    own = caches / half.file_name
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(own), "TRITON_CACHE_DIR": str(own / "triton")}
    environment |= {"OMP_NUM_THREADS": "1"}
    if half.device != "cuda":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    with (folder / f"{half.file_name}.log").open("wb") as log:
        process = subprocess.Popen(
            command(half, folder / f"{half.file_name}.part"),
            env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    return Running(half, process)


def outcome(job: Running, folder: Path, limits: Limits, ends: bool) -> Cases | None:
    """What a process made, once it has ended or has to be stopped; None while it runs."""
    half, status = job.half, job.process.poll()
    if status is None:
        if job.seconds < limits.each and not ends:
            return None
        job.stop()
        why = "the time for all is over" if ends else f"more than {limits.each:.0f} s"
        print(f"{half.file_name}: stopped after {job.seconds:.0f} s", file=sys.stderr, flush=True)
        return half.without_trace(f"not finished: {why}")
    print(f"{half.file_name}: {job.seconds:.0f} s", file=sys.stderr, flush=True)
    if status:
        lines = (folder / f"{half.file_name}.log").read_text(errors="replace").strip().splitlines()
        return half.without_trace(f"the process ended with {status}: {lines[-1] if lines else 'it printed nothing'}")
    written = folder / f"{half.file_name}.part"
    cases: Cases = json.loads(written.read_text())
    written.rename(folder / f"{half.file_name}.json")
    return cases
