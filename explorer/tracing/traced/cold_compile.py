"""Compile a traced call from nothing, in a process of its own: one that compiled before has kernels and modules in memory.

`explorer.tracing.recording.cold_process` is that process. Its folder has a `Job`, as torch.save writes it, and gets an `Answer`
as JSON. Of `__main__` it has the definitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.capture.compilers.child import run
from explorer.capture.observe.settings import plain_settings
from explorer.lab.live.function import LiveFunction
from explorer.process.children import command, environment
from explorer.process.notebook import main_sources
from explorer.process.scratch import folder as scratch_folder

#: The module that compiles a job.
PROCESS = "explorer.tracing.recording.cold_process"
JOB, MAIN, ANSWER = "job.pt", "main.json", "answer.json"
#: The most seconds that one compile may take in its process.
LIMIT = 3600.0
#: The arguments of `trace` that a process has itself, or gets apart.
APART = ("stages", "kwargs", "check")


@dataclass(frozen=True)
class Job:
    """A call to compile, with arguments of `trace`, torch's settings, and modules to compile once.

    With `limit`, its result is checked for so many seconds at most.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    arguments: Mapping[str, Any]
    settings: Mapping[str, object]
    regions: Sequence[str] = ()
    limit: float | None = None


@dataclass(frozen=True)
class Answer:
    """The seconds, kernels and compiles of a cold compile, the kinds of its verdicts, and what its check says.

    `error` says why there are none.
    """

    seconds: float = 0.0
    kernels: int = 0
    compiles: int = 0
    kinds: tuple[str, ...] = ()
    result: str = ""
    error: str = ""


def job_of(
    live: LiveFunction,
    *,
    arguments: Mapping[str, Any],
    settings: Mapping[str, object],
    regions: Sequence[str] = (),
    limit: float | None = None,
) -> Job:
    """Make the job of a traced call, with the settings of this process and these changes."""
    call = live.call
    given = {name: value for name, value in live.trace_arguments.items() if name not in APART}
    both = {**plain_settings(), **settings}
    return Job(call.function, call.args, dict(call.kwargs), {**given, **arguments}, both, regions, limit)


def compiled_cold(job: Job) -> Answer:
    """Compile a job in a new process with empty caches; the answer's error says why it could not be."""
    import torch

    with scratch_folder() as name:
        folder = Path(name)
        try:
            torch.save(job, folder / JOB)
        except Exception as error:  # noqa: BLE001 pickling runs code of the program's classes
            why = f"another process cannot be given the call: {error}"
            return Answer(error=f"{why}; define the function at the top level of a file, and leave out what cannot be pickled")
        if b"__main__" in (folder / JOB).read_bytes():
            (folder / MAIN).write_text(json.dumps(main_sources()), encoding="utf-8")
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
        said = run(command(PROCESS, name), folder, "the process that compiles", LIMIT, environment(**caches))
        if said:
            return Answer(error=said)
        return Answer(**json.loads((folder / ANSWER).read_text(encoding="utf-8")))
