"""Time the layers of one warm call of compiled code on the CPU's side, each alone: guards, wrappers, output code, launches.

A call is run once to note what each layer calls and with which arguments. Then the layers run in turn, again and again: guards,
checks, allocations and launches by themselves, with these arguments; Dynamo's frames with the graphs replaced by what they
returned; the graphs and their output code by a clock around each while the call runs.
Replacements act for the measuring thread alone. Where this torch lacks a name, the layer is not measured, and a sentence says so.
"""

from __future__ import annotations

import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from explorer.capture.splice.calls import replace_call
from explorer.capture.splice.launches import LIBRARY, Intercepted, InterceptedLibrary
from explorer.capture.splice.wrappers import LoadedWrapper, Wrapper, replaced_kernels
from explorer.errors import NoVerbError
from explorer.stages.torch_compile.run_times import (
    ALLOCATING,
    CHECKING,
    CODE,
    DYNAMO,
    FREEING,
    GUARDS,
    KERNELS,
    MISSES,
    REST,
    WRAPPERS,
)

#: How Dynamo's bytecode names the compiled graph of a frame, and how output code names its checks and allocations.
GRAPH = "__compiled_fn"
CHECKS, ALLOCATIONS = re.compile(r"assert_(size_stride|alignment)\w*$"), re.compile(r"empty_strided\w*$|reinterpret_tensor$")
#: Seconds that a layer is repeated in one round, and its most repetitions.
ROUND, MAX_LOOPS = 1e-3, 200
#: How often a round checks the guards on one source, and how many rounds there are; the fastest counts.
GUARD_LOOPS, GUARD_ROUNDS = 50, 3


@dataclass(frozen=True)
class Noted:
    """A call of a function: what was called, with what, and what a graph returned."""

    function: Callable[..., Any]
    args: Sequence[Any]
    keywords: Mapping[str, Any]
    returned: Any = field(default=None, repr=False)

    def again(self) -> Any:
        """Make the call again."""
        return self.function(*self.args, **self.keywords)


@dataclass(frozen=True)
class RunFrame:
    """A compiled frame that the call ran: the code in place of its own, its globals and locals, and its guards.

    `failing` are the guards of the cache entries that are tried before it.
    """

    compile_id: str
    code: CodeType
    space: dict[str, Any]
    values: dict[str, Any]
    guards: Any
    failing: tuple[Any, ...] = ()
    entries: int = 0


@dataclass(frozen=True)
class GuardTime:
    """The seconds of the guards on one source, such as "L['x']", in a frame."""

    compile_id: str
    source: str
    guards: int
    seconds: float


@dataclass(frozen=True)
class PartTime:
    """The seconds of one part of a call; `count` says how often it happens, `how` how it was measured."""

    name: str
    seconds: float
    count: int
    how: str


@dataclass(frozen=True)
class CallTimes:
    """What a call takes, compiled and in eager mode, its parts in order, and its guards, the dearest first."""

    seconds: float
    eager: float
    parts: tuple[PartTime, ...]
    guards: tuple[GuardTime, ...]
    repeats: int


def time_layers(
    call: Callable[[], object],
    eager: Callable[[], object],
    wrappers: Sequence[Wrapper],
    kernels: Mapping[str, Sequence[str]],
    repeats: int,
    eagerly: Callable[[], Any] = nullcontext,
    clock: Callable[[], float] = time.perf_counter,
) -> CallTimes:
    """Time the layers of `call`, in turn, and return the medians; `kernels` has the names of kernels by the wrapper's file.

    `eager` is the same call in eager mode, which runs inside `eagerly()`.
    """
    import torch

    call()
    call()  # the first may compile
    frames, lacking = _frames(call)
    graphs = _noted_graphs(call, frames)
    inside = _noted_inside(call, wrappers, kernels)
    with _clocked_outputs(wrappers, clock) as each_output:
        call()
    outputs = len(each_output)
    stopwatch = _Stopwatch(repeats, clock)
    stopwatch.add("call", call)
    stopwatch.add("eager", eager, eagerly)
    stopwatch.add("guards", partial(_check_all, [(frame.guards, frame.values) for frame in frames if frame.guards]))
    stopwatch.add("failing", partial(_check_all, [(each, frame.values) for frame in frames for each in frame.failing]))
    for name, noted in inside.items():
        stopwatch.add(name, partial(_again, noted), torch.no_grad)  # AOTAutograd calls output code so
        stopwatch.add(f"loop of {name}", partial(_again, [Noted(_stub, each.args, each.keywords) for each in noted]))
    stopwatch.add("around", call, partial(_without_graphs, frames, graphs))
    stopwatch.add("stubs", partial(_again, [Noted(torch.compiler.disable(_stub), each.args, each.keywords) for each in graphs]))
    stopwatch.add("graphs", call, partial(_clocked_graphs, frames, clock))
    stopwatch.add("outputs", call, partial(_clocked_outputs, wrappers, clock))
    stopwatch.add("freeing", *_clocked_freeing(call, clock))
    seconds = stopwatch.medians()
    for name in inside:
        seconds[name] = max(0.0, seconds[name] - seconds[f"loop of {name}"])
    return CallTimes(
        seconds["call"],
        seconds["eager"],
        tuple(_parts(seconds, frames, graphs, outputs, inside, lacking)),
        _guards(frames),
        repeats,
    )


def _parts(
    seconds: Mapping[str, float],
    frames: Sequence[RunFrame],
    graphs: Sequence[Noted],
    outputs: int,
    inside: Mapping[str, Sequence[Noted]],
    lacking: str,
) -> Iterator[PartTime]:
    """Split the call among its parts; what no layer has is not attributed, and may be negative where the machine was noisy."""
    # where no graph was seen, all that is outside of output code is Python's
    around = max(0.0, seconds["around"] - seconds["stubs"] if graphs else seconds["call"] - seconds["outputs"])
    guards = 0.0 if lacking else min(seconds["guards"], around)
    failing = min(seconds["failing"], around) if any(frame.failing for frame in frames) else 0.0
    wrapping = max(0.0, seconds["graphs"] - seconds["outputs"]) if graphs else 0.0
    known = sum(seconds[name] for name, noted in inside.items() if noted)
    entries = f"cache entries: {sum(frame.entries for frame in frames)}"
    held = sum(len(list(_leaves(frame.guards))) for frame in frames if frame.guards)
    called = f"the graphs replaced by what they returned; {entries}" if frames else "no compiled frame ran"
    parts = [
        PartTime(GUARDS, guards, held, lacking or "torch's guard manager checked the locals of each frame, with warm caches"),
        PartTime(
            MISSES, failing, sum(len(frame.failing) for frame in frames), lacking or "the guards of entries that do not fit"
        ),
        PartTime(DYNAMO, max(0.0, around - guards - failing), len(frames), f"{called}, without guards"),
        PartTime(WRAPPERS, wrapping, len(graphs), "a clock around the graphs, without their output code"),
        PartTime(CHECKING, seconds[CHECKING], len(inside[CHECKING]), "the same calls of assert_size_stride, repeated"),
        PartTime(ALLOCATING, seconds[ALLOCATING], len(inside[ALLOCATING]), "the same calls of empty_strided, repeated"),
        PartTime(KERNELS, seconds[KERNELS], len(inside[KERNELS]), "the same launches and library calls, repeated"),
        PartTime(
            CODE,
            max(0.0, seconds["outputs"] - known) if outputs else 0.0,
            outputs,
            "the output code without the above: its Python, and operators of torch.ops",
        ),
        PartTime(FREEING, seconds["freeing"], 1, "a clock around dropping what the call returned"),
    ]
    yield from (part for part in parts if part.count or part.name == DYNAMO or (part.name == GUARDS and lacking))
    yield PartTime(REST, seconds["call"] - sum(part.seconds for part in parts), 1, "the call without all of the above")


# What the call runs ------------------------------------------------------------------------------------------------------


def _frames(call: Callable[[], object]) -> tuple[list[RunFrame], str]:
    """The compiled frames that a call runs, in order, and why their guards cannot be read; "" where they can."""
    from torch._dynamo import eval_frame, utils

    originals = getattr(utils, "orig_code_map", None)
    entries_of = getattr(eval_frame, "_debug_get_cache_entry_list", None)
    if originals is None:
        return [], "not measured: this torch does not tell Dynamo's code from other code"
    found: list[RunFrame] = []
    thread, before = get_ident(), sys.getprofile()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and get_ident() == thread and frame.f_code in originals:
            entries = list(entries_of(originals[frame.f_code])) if entries_of is not None else []
            place = next((n for n, entry in enumerate(entries) if entry.code is frame.f_code), None)
            hit = entries[place] if place is not None else None
            failing = tuple(entry.guard_manager.root for entry in entries[: place or 0])
            guards = hit.guard_manager.root if hit is not None else None
            compile_id = str(hit.compile_id) if hit is not None else ""
            values = dict(frame.f_locals)
            found.append(RunFrame(compile_id, frame.f_code, frame.f_globals, values, guards, failing, len(entries)))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    if entries_of is None:
        return found, "not measured: this torch does not list Dynamo's cache entries"
    wrong = [frame for frame in found if frame.guards is None or not frame.guards.check(frame.values)]
    return found, "not measured: the guards of a frame do not hold for its locals" if wrong else ""


def _noted_graphs(call: Callable[[], object], frames: Sequence[RunFrame]) -> list[Noted]:
    """The calls that frames make of their compiled graphs, in order."""
    noted: list[Noted] = []

    def note(original: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        returned = original(*args, **keywords)
        noted.append(Noted(original, args, keywords, returned))
        return returned

    with _graphs_replaced(frames, note):
        call()
    return noted


@contextmanager
def _graphs_replaced(frames: Sequence[RunFrame], instead: Callable[..., Any]) -> Iterator[None]:
    """Inside the block `instead` is called, with the original first, in place of the graphs of frames in this thread."""
    import torch

    places = {(id(f.space), name): (f.space, name) for f in frames for name in f.code.co_names if name.startswith(GRAPH)}
    thread = get_ident()

    def stub(original: Callable[..., Any]) -> Any:
        def graph(*args: Any, **keywords: Any) -> Any:
            return instead(original, *args, **keywords) if get_ident() == thread else original(*args, **keywords)

        return torch.compiler.disable(graph)

    with ExitStack() as stack:
        for space, name in places.values():
            original = space[name]
            stack.callback(space.__setitem__, name, original)
            space[name] = stub(original)
        yield


@contextmanager
def _without_graphs(frames: Sequence[RunFrame], graphs: Sequence[Noted]) -> Iterator[None]:
    """Let the graphs of frames return at once what they returned."""
    results = itertools.cycle([noted.returned for noted in graphs] or [None])
    with _graphs_replaced(frames, lambda *_, **__: next(results)):
        yield


@contextmanager
def _clocked_graphs(frames: Sequence[RunFrame], clock: Callable[[], float]) -> Iterator[list[float]]:
    """Give the seconds of each graph that is called inside the block."""
    seconds: list[float] = []

    def timed(original: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        begin = clock()
        returned = original(*args, **keywords)
        seconds.append(clock() - begin)
        return returned

    with _graphs_replaced(frames, timed):
        yield seconds


def _clocked_freeing(call: Callable[[], object], clock: Callable[[], float]) -> tuple[Callable[[], None], Any]:
    """Return a call that drops its result under the clock, and what gives the seconds of that."""
    seconds: list[float] = []

    def dropped() -> None:
        result = call()
        begin = clock()
        del result
        seconds.append(clock() - begin)

    return dropped, partial(nullcontext, seconds)


def _stub(*_: Any, **__: Any) -> None:
    """Return at once, as a graph that is replaced does."""


def _noted_inside(
    call: Callable[[], object], wrappers: Sequence[Wrapper], kernels: Mapping[str, Sequence[str]]
) -> dict[str, list[Noted]]:
    """The calls that output code makes: checks, allocations, and launches with library calls."""
    inside: dict[str, list[Noted]] = {CHECKING: [], ALLOCATING: [], KERNELS: []}
    thread = get_ident()

    def note(part: str, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if get_ident() == thread:
            inside[part].append(Noted(function, tuple(args), dict(keywords)))
        return function(*args, **keywords)

    def noting(part: str) -> Callable[[Any], Any]:
        return lambda original: Intercepted(original, partial(note, part))

    def library(original: Any) -> InterceptedLibrary:
        return InterceptedLibrary(original, lambda _, *called: note(KERNELS, *called))

    replacements: list[tuple[Wrapper, str, Callable[[Any], Any]]] = []
    for wrapper in wrappers:
        if not isinstance(wrapper, LoadedWrapper):
            continue
        space = vars(wrapper.module)
        names = {name: KERNELS for name in kernels.get(wrapper.file, ()) if name in space}
        names |= {name: CHECKING for name in space if CHECKS.match(name)}
        names |= {name: ALLOCATING for name in space if ALLOCATIONS.match(name)}
        replacements += [(wrapper, name, noting(part)) for name, part in names.items()]
        if LIBRARY in space:
            replacements.append((wrapper, LIBRARY, library))
    with replaced_kernels(replacements):
        call()
    return inside


@contextmanager
def _clocked_outputs(wrappers: Sequence[Wrapper], clock: Callable[[], float]) -> Iterator[list[float]]:
    """Give the seconds of each call of output code inside the block, where it is called in Python."""
    seconds: list[float] = []
    thread = get_ident()

    def timed(original: Callable[[Any], Any], args: Any) -> Any:
        if get_ident() != thread:
            return original(args)
        begin = clock()
        returned = original(args)
        seconds.append(clock() - begin)
        return returned

    with ExitStack() as stack:
        for wrapper in wrappers:
            with suppress(NoVerbError):  # it is in C++: its calls cannot be seen
                stack.callback(replace_call(wrapper, partial(partial, timed)))
        yield seconds


# Guards ------------------------------------------------------------------------------------------------------------------


def _check_all(checks: Sequence[tuple[Any, Mapping[str, Any]]]) -> None:
    for guards, values in checks:
        guards.check(values)


def _leaves(manager: Any) -> Iterator[Any]:
    """The guards that a manager and those below it hold."""
    yield from manager.get_leaf_guards()
    for child in manager.get_child_managers():
        yield from _leaves(child)


def _guards(frames: Sequence[RunFrame]) -> tuple[GuardTime, ...]:
    """The time of the guards on each source, the dearest first; () where this torch cannot make guards for some sources alone.

    It is the time by which a check takes longer that has the guards on the source, on top of those on what it is reached through.
    """
    found: list[GuardTime] = []
    for frame in frames:
        if frame.guards is not None and hasattr(frame.guards, "clone_manager"):
            seconds: dict[tuple[str, ...], float] = {}
            for path, manager in _holding(frame.guards, ()):
                added = _path_seconds(frame, path, seconds) - _path_seconds(frame, path[:-1], seconds)
                found.append(GuardTime(frame.compile_id, path[-1], len(manager.get_leaf_guards()), max(0.0, added)))
    return tuple(sorted(found, key=lambda guard: -guard.seconds))


def _holding(manager: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each manager that holds guards, with the sources on the way to it."""
    path = (*above, str(manager.get_source()))
    if manager.get_leaf_guards():
        yield path, manager
    for child in manager.get_child_managers():
        yield from _holding(child, path)


def _path_seconds(frame: RunFrame, path: tuple[str, ...], known: dict[tuple[str, ...], float]) -> float:
    """The seconds of a check of the guards on these sources alone; 0 for none."""
    if path and path not in known:
        sources = frozenset(path)
        guards = frame.guards.clone_manager(lambda manager: str(manager.get_source()) in sources)
        known[path] = min(_seconds(partial(guards.check, frame.values), GUARD_LOOPS) for _ in range(GUARD_ROUNDS))
    return known.get(path, 0.0)


# Time --------------------------------------------------------------------------------------------------------------------


@dataclass
class _Stopwatch:
    """Runs layers in turn, each in rounds, and gives the median seconds of one run of each."""

    repeats: int
    clock: Callable[[], float] = time.perf_counter
    layers: dict[str, tuple[Callable[[], object], Any]] = field(default_factory=dict)

    def add(self, name: str, run: Callable[[], object], within: Any = None) -> None:
        """Add a layer, which runs inside `within()`; where that gives a list of seconds, these are the layer's."""
        self.layers[name] = run, within

    def medians(self) -> dict[str, float]:
        """Run all layers in turn; a slow moment of the machine falls on each of them."""
        samples: dict[str, list[float]] = {name: [] for name in self.layers}
        for _ in range(self.repeats):
            for name, (run, within) in self.layers.items():
                with ExitStack() as stack:
                    clocked = stack.enter_context(within()) if within is not None else None
                    once = _seconds(run, 1, self.clock)
                    loops = max(1, min(MAX_LOOPS, int(ROUND / once) if once > 0 else MAX_LOOPS))
                    if isinstance(clocked, list):
                        clocked.clear()
                    seconds = _seconds(run, loops, self.clock)
                    samples[name].append(sum(clocked) / loops if isinstance(clocked, list) else seconds)
        return {name: statistics.median(seconds) for name, seconds in samples.items()}


def _seconds(run: Callable[[], object], loops: int, clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    for _ in range(loops):
        run()
    return (clock() - begin) / loops


def _again(calls: Sequence[Noted]) -> None:
    for noted in calls:
        noted.again()
