"""The process in which an edited kernel is compiled, launched and timed first: it may crash, or never end.

    python -m explorer.capture.splice.trial_process FOLDER SECONDS

It reads a `Job` from the folder and writes an `Answer` beside it. What it says last in `phase` tells what it was doing.
"""

from __future__ import annotations

import faulthandler
import pickle
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from explorer.capture.absent.generated import Wrappers
from explorer.capture.interpret.interpreter import interpreting
from explorer.capture.splice.fences import Fences
from explorer.capture.splice.job import ANSWER, JOB, PHASE, Answer, Job
from explorer.capture.splice.kernels import KernelText, compiled
from explorer.capture.splice.launches import copied
from explorer.capture.splice.pricing import priced
from explorer.capture.splice.wrapper_text import WrapperText, called, loaded
from explorer.errors import ExplorerError
from explorer.model.values import text_lines

#: The seconds for which the two kernels are launched in turn to be timed, and the fewest launches of each.
SECONDS, FEWEST = 0.3, 5


def main(folder: Path) -> None:
    """Try the job in the folder."""
    import torch

    job: Job = torch.load(folder / JOB, weights_only=False)
    torch.set_num_threads(job.threads)
    answer = Answer(within=(job.edited.source, 1))
    try:
        _try(job, answer, lambda phase: (folder / PHASE).write_text(phase, encoding="utf-8"))
    except Exception as error:  # noqa: BLE001 the process that asked must get an answer
        source, first = answer.within
        line = _line_in(error, source, job.edited.file if isinstance(job.edited, WrapperText) else "")
        answer.error = "" if isinstance(error, ExplorerError) else type(error).__name__, str(error)
        answer.line = line + first - 1 if line else 0
    with open(folder / ANSWER, "wb") as file:
        torch.save(answer, file, pickle_module=pickle)


def _try(job: Job, answer: Answer, begin: Callable[[str], object]) -> None:
    """Compile the edited text, launch it, and time it beside the original."""

    def compiling(source: str, line: int) -> None:
        answer.within = source, line

    if job.edited.target is not None:
        begin("compile")
        answer.price = priced(job, compiling)
    if isinstance(job.edited, WrapperText):
        return _try_wrapper(job, answer, begin, compiling)
    if answer.price.same_at:
        return None  # its launch gives what the original's gives
    if job.edited.target is not None and job.edited.form:
        return None  # nothing here runs it
    with interpreting() if job.edited.target else nullcontext() as interpreter:
        begin("compile")
        edited = compiled(job.edited, Wrappers(interpreter) if interpreter else None)
        _launched(job, launcher(edited), answer, begin)
    if job.edited.target is None and job.launches:
        assert isinstance(job.original, KernelText)
        begin("time")
        answer.seconds = timed(launcher(edited), launcher(compiled(job.original)), *job.launches[0])
    return None


def _try_wrapper(job: Job, answer: Answer, begin: Callable[[str], object], compiling: Callable[[str, int], None]) -> None:
    """Compile the edited wrapper, call it, and time it beside the original."""
    assert isinstance(job.edited, WrapperText) and isinstance(job.original, WrapperText)
    with interpreting() if job.edited.target else nullcontext() as interpreter:
        begin("compile")
        original = loaded(job.original)
        edited = loaded(job.edited, original, compiling)
        wrappers = Wrappers(interpreter) if interpreter else None
        _launched(job, called(edited, wrappers), answer, begin)
    if job.edited.target is None and job.launches:
        begin("time")
        answer.seconds = timed(called(edited, None), called(original, None), *job.launches[0], anew=True)


def _launched(job: Job, launch: Callable[..., Any], answer: Answer, begin: Callable[[str], object]) -> None:
    """Launch the edited kernel or wrapper once with the arguments of each recorded launch."""
    for args, keywords in job.launches:
        begin("launch")
        # the interpreter of a kernel for a GPU you don't have looks at each address, and a wrapper allocates what it writes to
        fences = Fences(copied(args)) if job.edited.target is None and isinstance(job.edited, KernelText) else None
        mine = fences.args if fences is not None else copied(args)
        returned = launch(*mine, **keywords)
        synchronize(mine)
        if fences is not None:
            fences.raise_if_written()
        answer.after.append((*mine, *copied(tuple(returned))) if isinstance(job.edited, WrapperText) else mine)


def launcher(kernel: Any) -> Callable[..., Any]:
    """What launches a kernel: `run` of a Triton kernel, on the current stream of an attached GPU; a C++ kernel itself."""
    run = getattr(kernel, "run", None)
    if run is None:
        return kernel  # type: ignore[no-any-return]

    def launch(*args: Any, **keywords: Any) -> Any:
        return run(*args, **{**keywords, "stream": _stream()})

    return launch


def _stream() -> Any:
    """The current stream of the attached GPU; 0 where none is."""
    import torch

    return torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else 0


def synchronize(args: Sequence[Any]) -> None:
    """Wait for the GPU that has a tensor: an error of the kernel is raised here."""
    import torch

    if any(isinstance(a, torch.Tensor) and a.is_cuda for a in args):
        torch.cuda.synchronize()


def timed(
    edited: Callable[..., Any],
    original: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    *,
    anew: bool = False,
) -> tuple[float, float]:
    """The median seconds of a launch of each, launched in turn on the same copies; `anew` copies them for each launch.

    A wrapper may use the memory of its arguments again.
    """
    import torch

    mine = copied(args)
    on_gpu = any(isinstance(a, torch.Tensor) and a.is_cuda for a in mine)
    once = _by_events(mine) if on_gpu else _by_clock
    times: tuple[list[float], list[float]] = ([], [])
    for kernel in (edited, original):
        once(kernel, copied(args) if anew else mine, keywords)
    end = time.perf_counter() + SECONDS
    while len(times[0]) < FEWEST or time.perf_counter() < end:
        for kernel, seconds in zip((edited, original), times, strict=True):
            seconds.append(once(kernel, copied(args) if anew else mine, keywords))
    return statistics.median(times[0]), statistics.median(times[1])


def _by_clock(kernel: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> float:
    began = time.perf_counter()
    kernel(*args, **keywords)
    return time.perf_counter() - began


def _by_events(args: tuple[Any, ...]) -> Callable[..., float]:
    """What times one launch by the GPU's own events, with a cache that holds nothing of its arguments."""
    import torch

    flush = torch.empty(256 * 2**20, dtype=torch.int8, device=next(a.device for a in args if isinstance(a, torch.Tensor)))

    def once(kernel: Callable[..., Any], mine: tuple[Any, ...], keywords: Mapping[str, Any]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        kernel(*mine, **keywords)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return once


def _line_in(error: BaseException, source: str, file: str = "") -> int:
    """The line of the source that an error of Python's or of triton's names; 0 where it names none.

    `file` is the name under which Python runs the source.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SyntaxError) and cause.lineno:
            return cause.lineno
        node = getattr(cause, "node", None)
        if node is not None and hasattr(node, "lineno"):
            return _of_function(source) + int(node.lineno) - 1
        cause = cause.__cause__ or cause.__context__
    frames = traceback.extract_tb(error.__traceback__)
    lines = text_lines(source)
    if file and (of_file := [frame.lineno for frame in frames if frame.filename == file and frame.lineno]):
        return of_file[-1]
    places = [(frame.lineno, frame.line) for frame in frames if frame.lineno and frame.lineno <= len(lines)]
    return next((number for number, line in reversed(places) if line and lines[number - 1].strip() == line), 0)


def _of_function(source: str) -> int:
    """The line on which a Triton kernel's function begins, from which triton counts."""
    return next((n for n, line in enumerate(text_lines(source), 1) if line.startswith("def ")), 1)


if __name__ == "__main__":
    # a thread of C's, which also ends a process whose kernel never gives the interpreter back
    faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
    main(Path(sys.argv[1]))
