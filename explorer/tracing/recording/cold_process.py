"""The process that compiles one call from nothing: see `explorer.tracing.traced.cold_compile`.

python -m explorer.tracing.recording.cold_process FOLDER
"""

from __future__ import annotations

import json
import linecache
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from explorer.analysis.advice.advise import advise
from explorer.analysis.questions.compile_seconds import seconds_by_part
from explorer.capture.compilers.settings import changed_settings
from explorer.errors import ExplorerError
from explorer.lab.live.regions import compiled_once
from explorer.model.syntax import definitions
from explorer.model.values import text_lines
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced import what_if
from explorer.tracing.traced.cold_compile import ANSWER, JOB, MAIN, Answer, Job
from explorer.tracing.traced.trace import Trace


def main(folder: Path) -> None:
    """Compile the job in the folder."""
    import torch

    try:
        if (folder / MAIN).exists():
            _define_main(json.loads((folder / MAIN).read_text(encoding="utf-8")))
        answer = _compiled(torch.load(folder / JOB, weights_only=False))
    except Exception as error:  # noqa: BLE001 the process that asked must get an answer
        answer = Answer(error=f"{type(error).__name__}: {error}".partition("\n")[0])
    (folder / ANSWER).write_text(json.dumps(asdict(answer)), encoding="utf-8")


def _define_main(sources: Sequence[tuple[str, str]]) -> None:
    """Define what the program's `__main__` defines, and run nothing else of it."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    for file, source in sources:
        try:
            text = definitions(source)
        except SyntaxError:
            continue  # a cell that failed
        linecache.cache[file] = (len(text), None, text_lines(text, ends=True), file)
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))


def _compiled(job: Job) -> Answer:
    with ExitStack() as stack:
        stack.enter_context(changed_settings(job.settings))
        if job.regions:
            stack.enter_context(compiled_once(job.function, job.regions))
        found = trace(job.function, *job.args, kwargs=job.kwargs, check=False, **job.arguments)
        result = "" if job.limit is None else result_of(found, job.limit)
    if fatal := next((failure for failure in found.failures if failure.fatal), None):
        return Answer(error=f"the compile fails: {fatal.message}")
    compiles = len({str(row["frame"]) for row in found.table("phase") if row["depth"] == 0})
    kinds = tuple(verdict.kind for verdict in advise(found))
    return Answer(sum(seconds_by_part(found).values()), len(found.kernels), compiles, kinds, result)


def result_of(trace: Trace, limit: float) -> str:
    """Say whether a trace computes what eager does."""
    try:
        return what_if.judgement(trace.check(limit), "beside eager")[1]
    except (ExplorerError, NotImplementedError, RuntimeError) as error:
        return f"not checked: {error}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
