"""Time each kernel and library call of a compiled function while the function runs, launch by launch.

On the CPU the clock is read around each call, so that the caches are as the run left them. On a GPU events of the device stand
around each launch; before it a buffer larger than L2 is written, so that no kernel finds its inputs in L2, and the device is busy
while the launch is prepared. Where the device was through with that too early, the run is made again with more of it.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.analysis.questions.target import compiled_for
from explorer.analysis.timing.launch_names import launches_of
from explorer.analysis.timing.measured_kernels import COLUMNS
from explorer.capture.splice.launches import LIBRARY, Intercepted, InterceptedLibrary
from explorer.capture.splice.wrappers import Wrapper, replaced_kernels
from explorer.errors import InputError
from explorer.lab.live.protocol import no_verb
from explorer.model.trace_data import TraceData
from explorer.model.values import Table
from explorer.process.under_way import step
from explorer.stages.torch_compile.profile import CALL, KERNEL

#: What stands in the text of a wrapper in C++, whose launches are not seen from Python.
IN_CPP = "AtenTensorHandle"
#: torch's type of a kernel in CUDA C++, a shared library: the wrapper calls the function of the kernel's name in it.
LIBRARY_OF_KERNEL = "DLLWrapper"
#: The least bytes that are written between two launches on a GPU, and how often L2 fits in what is written.
FLUSHED, FLUSHES = 1 << 28, 2
ON_CPU = "the clock around each call, with the caches as the run left them"
#: The most times that the buffer is written before one launch, about 7 ms on an H100.
MAX_WRITES = 64
ON_GPU = "device events around each launch; L2 was overwritten before it"
WAITED = "; the time includes the wait of the device for the host"


@dataclass(frozen=True)
class TimedLaunch:
    """One launch: its wrapper's file, its name there, and its begin and end, in seconds or as events of the device.

    `waited` says that the device was idle while the launch was prepared, so that the measured time is too long.
    """

    file: str
    name: str
    begin: Any
    end: Any
    waited: bool = False

    @property
    def seconds(self) -> float:
        """How long it took; on a device only once that has come to its end."""
        return float(self.end - self.begin if isinstance(self.begin, float) else self.begin.elapsed_time(self.end) / 1000)


@dataclass
class _Stopwatch:
    """Times launches, in order. On a GPU `buffer` is written before each launch; on the CPU it is None.

    `writes` says how often `buffer` is written, by the wrapper's file and the name of the launch.
    """

    buffer: Any
    writes: defaultdict[tuple[str, str], int]
    launches: list[TimedLaunch] = field(default_factory=list)

    def again(self) -> bool:
        """Return whether more preceding work would hide the wait of a launch. If so, its number of writes is doubled."""
        late = {(launch.file, launch.name) for launch in self.launches if launch.waited}
        more = {key for key in late if self.writes[key] < MAX_WRITES}
        for key in more:
            self.writes[key] *= 2
        return bool(more)

    def time(self, file: str, name: str, launch: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Launch, and note when it began and ended."""
        if self.buffer is None:
            begin: Any = time.perf_counter()
            result = launch(*args, **keywords)
            self.launches.append(TimedLaunch(file, name, begin, time.perf_counter()))
            return result
        import torch

        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(self.writes[file, name]):
            self.buffer.zero_()
        begin.record()
        result = launch(*args, **keywords)
        end.record()
        self.launches.append(TimedLaunch(file, name, begin, end, waited=begin.query()))
        return result


@contextmanager
def _timed(wrappers: Sequence[Wrapper], names: Mapping[str, Sequence[str]], watch: _Stopwatch) -> Iterator[None]:
    """Time the launches of kernels, by the wrapper's file, and the calls of libraries inside the block."""

    def kernel(file: str, name: str, original: Any) -> Any:
        if type(original).__name__ == LIBRARY_OF_KERNEL:
            return InterceptedLibrary(original, partial(watch.time, file))
        return Intercepted(original, partial(watch.time, file, name))

    def library(file: str, original: Any) -> Any:
        return InterceptedLibrary(original, partial(watch.time, file))

    replacements = []
    for wrapper in wrappers:
        replacements += [(wrapper, name, partial(kernel, wrapper.file, name)) for name in names.get(wrapper.file, ())]
        replacements.append((wrapper, LIBRARY, partial(library, wrapper.file)))
    with replaced_kernels(replacements):
        yield


def time_kernels(trace: TraceData, wrappers: Sequence[Wrapper], run: Callable[[], object], repeats: int) -> Table:
    """Run a compiled function `repeats` times and time its launches; see `t.live.profile`.

    `run` gives each run the same values: a function may change its arguments.
    """
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, not {repeats}")
    texts = {str(a.data["file"]): (a.frame, a.graph) for a in trace.find("output_code") if a.data.get("file")}
    names = {file: [a.kernel for a in trace.find("kernel", *place)] for file, place in texts.items()}
    usable = [w for w in wrappers if w.file in texts and w.file.endswith(".py") and IN_CPP not in w.text]
    on_gpu = compiled_for(trace).is_attached_gpu
    run()  # what is made at the first call, such as a choice of configs by timing, is no part of a run
    buffer = _flush_buffer() if on_gpu else None
    writes: defaultdict[tuple[str, str], int] = defaultdict(lambda: 1)
    runs: list[list[TimedLaunch]] = []
    while len(runs) < repeats:
        step("timing each kernel", len(runs), repeats)
        watch = _Stopwatch(buffer, writes)
        with _timed(usable, names, watch):
            run()
        _finish(on_gpu)
        if not watch.again():
            runs.append(watch.launches)
    if not any(runs):
        raise no_verb(
            "no kernel can be timed",
            "the wrapper makes no launch that is seen: it is C++ or a CUDA graph, or calls only functions of torch.ops",
            "t.attach(prof) reads the times of a torch.profiler.profile; t.benchmark() times the whole function",
        )
    return Table(_rows(trace, texts, runs, on_gpu), COLUMNS)


def _flush_buffer() -> Any:
    """A buffer on the device that L2 does not hold."""
    import torch

    size = max(FLUSHED, FLUSHES * int(torch.cuda.get_device_properties().L2_cache_size))
    return torch.empty(size, dtype=torch.int8, device="cuda")


def _finish(on_gpu: bool) -> None:
    """Wait for the device."""
    if on_gpu:
        import torch

        torch.cuda.synchronize()


def _rows(
    trace: TraceData, places: Mapping[str, tuple[str, str]], runs: Sequence[Sequence[TimedLaunch]], on_gpu: bool
) -> Iterator[dict[str, Any]]:
    """One row per kernel or library call, in the order of its first launch."""
    samples: dict[tuple[str, str, str], list[list[float]]] = {}
    idle: dict[tuple[str, str, str], list[float]] = {}
    kinds: dict[tuple[str, str, str], str] = {}
    waited: set[tuple[str, str, str]] = set()
    for number, launches in enumerate(runs):
        last: dict[str, float] = {}
        for key, kind, launch in _placed(trace, places, launches):
            kinds[key] = kind
            waited |= {key} if launch.waited else set()
            samples.setdefault(key, [[] for _ in runs])[number].append(launch.seconds)
            if not on_gpu:
                gap = launch.begin - last.get(launch.file, launch.begin)
                idle.setdefault(key, [0.0] * len(runs))[number] += gap
                last[launch.file] = launch.end
    for (frame, graph, name), by_run in samples.items():
        sums = [sum(seconds) for seconds in by_run]
        low, median, high = statistics.quantiles(sums, n=4, method="inclusive") if len(sums) > 1 else sums * 3
        alike = len({len(seconds) for seconds in by_run}) == 1
        gaps = idle.get((frame, graph, name))
        yield {
            "frame": frame,
            "graph": graph,
            "kernel": name,
            "kind": kinds[frame, graph, name],
            "launches": max(map(len, by_run)),
            "seconds": median,
            "low": low,
            "high": high,
            "each": tuple(map(statistics.median, zip(*by_run, strict=True))) if alike else (),
            "idle": statistics.median(gaps) if gaps else None,
            "repeats": len(runs),
            "how": (ON_GPU if on_gpu else ON_CPU) + (WAITED if (frame, graph, name) in waited else ""),
        }


def _placed(
    trace: TraceData, places: Mapping[str, tuple[str, str]], launches: Sequence[TimedLaunch]
) -> Iterator[tuple[tuple[str, str, str], str, TimedLaunch]]:
    """Each launch with its frame, graph and name: a kernel's, or the scheduler's node of a call, by the order of the calls."""
    graphs = {(graph.frame, graph.graph): graph for graph in launches_of(trace)}
    number: dict[tuple[str, str], int] = {}
    for launch in launches:
        place = places[launch.file]
        graph = graphs.get(place)
        if graph is not None and launch.name in graph.kernels:
            yield (*place, graph.kernels[launch.name]), KERNEL, launch
            continue
        operator = launch.name.removeprefix("bias_")
        nodes = graph.calls.get(operator, ()) if graph is not None else ()
        at = number.get((launch.file, operator), 0)
        number[launch.file, operator] = at + 1
        yield (*place, nodes[at] if at < len(nodes) else launch.name), CALL, launch


__all__ = ["ON_CPU", "ON_GPU", "TimedLaunch", "time_kernels"]
