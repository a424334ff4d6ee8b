"""Make the events of kernels' ladders: of Inductor's kernels, and of those that the program launches itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

from explorer.capture.absent.launches import Launches, Specialized
from explorer.capture.ladder.helion import lower_with_call
from explorer.capture.ladder.ladder import BINARIES, TEXTS, Ladder, LadderWorkers
from explorer.capture.ladder.sass_lines import ptx_lines
from explorer.capture.ladder.triton_tools import disassemble, makers, missing_backend, no_sass
from explorer.capture.observe.launched import Find
from explorer.errors import ExplorerError
from explorer.lab.live.ladders import Ladders
from explorer.model.shared import KernelText
from explorer.model.values import Event, Failure, Plain
from explorer.reference.gpus.figures import Target
from explorer.stages.dynamo.source import SourceText
from explorer.stages.inductor.definitions import kernel_events
from explorer.stages.inductor.helion import with_call
from explorer.stages.inductor.launch import launches
from explorer.stages.records import event_data
from explorer.stages.triton.origins import Launch
from explorer.stages.triton.sass import event_of
from explorer.stages.unread import UnreadFacts


class Compiled(NamedTuple):
    """The events of all ladders, a Failure for each kernel without one, and the ladders themselves."""

    events: list[Event]
    failures: list[Failure]
    ladders: Ladders


def ladder_events(
    events: Sequence[Event], target: Target, *, sass: bool = False, workers: int = 0, find: Find | None = None
) -> Compiled:
    """Compile every Triton kernel of the output code among `events` for `target`, identical ones once.

    The result has events of kinds "ttir", "ttgir", "llir", "ptx" or "amdgcn", and with `sass` "sass", each with the frame and
    graph of its kernel, and a Failure for each kernel that did not compile. SASS costs 0.3 s a kernel; `Ladder.sass` makes it
    later. With `sass` the facts of the events are made now, else when they are read (`unread.read`): the launches take long.
    `find` finds what the attached GPU launched of a kernel, which then is its ladder. If triton has no backend for the
    target, a Failure for each stage says so.
    """
    with LadderCompiles(target, workers, find) as compiles:
        return compiles.finish(events, sass=sass)


class LadderCompiles:
    """Compile the kernels of one recording, each as soon as the graph that it is of is compiled.

    `find` and the result of `finish` are as for `ladder_events`.
    """

    def __init__(self, target: Target, workers: int = 0, find: Find | None = None) -> None:
        self._find = find
        self._target, self._missing = target, missing_backend(target)
        self._workers = None if self._missing else LadderWorkers(target, workers, at_once=find is None, lower_one=lower_with_call)
        self._wrappers: list[Event] = []
        self._kernels: list[tuple[Event, Event]] = []
        self._sources: list[tuple[str, str]] = []

    def begin(self, events: Sequence[Event]) -> None:
        """Start the kernels of the output code that is new since the last call; `events` are all events so far."""
        wrappers = [event for event in events if event.kind == "output_code"][len(self._wrappers) :]
        kernels = [(w, k) for w in wrappers for k in kernel_events(w) if k.data["language"] == "triton"]
        self._wrappers += wrappers
        self._kernels += kernels
        if self._workers is not None:
            launched = [self._find(str(w.data.get("file", "")), str(k.data["name"])) if self._find else None for w, k in kernels]
            calls = _calls(events)
            self._sources += [_name_and_source(kernel, calls) for _, kernel in kernels]
            self._workers.submit(self._sources[len(self._sources) - len(kernels) :], launched)

    def finish(self, events: Sequence[Event], *, sass: bool = False) -> Compiled:
        """Wait for all kernels of `events`, and return their events, failures and ladders."""
        self.begin(events)
        if self._workers is None:
            return self._without_backend()
        results = self._workers.results(self._sources)
        sass = sass and not no_sass(self._target)
        codes = _disassembled(results) if sass else {}
        lines = _ptx_lines(results) if sass else {}
        ladder_texts: list[Event] = []
        failures: list[Failure] = []
        ladders = Ladders(target=self._target)
        for (wrapper, kernel), ladder in zip(self._kernels, results, strict=True):
            if isinstance(ladder, ExplorerError):
                failures.append(Failure("kernel", "ladder", str(ladder), kernel=str(kernel.data["name"])))
            else:
                ladders.by_source[str(kernel.data["text"])] = ladder
                code = ladder.with_own_name(codes.get(ladder.binary, ""))
                rows = _launches(ladder, str(wrapper.data["text"]))
                if code:
                    ladder_texts += events_of(ladder, kernel, code, lines.get(ladder.binary, ()), launches=rows())
                else:
                    ladder_texts += unread_events_of(ladder, kernel, rows)
        return Compiled(ladder_texts, [*failures, *without_sass(self._target, ladder_texts)], ladders)

    def _without_backend(self) -> Compiled:
        """A Failure for each stage that triton cannot make for this target, if there is a kernel at all."""
        failures = without_backend(self._target) if self._kernels else []
        return Compiled([], failures, Ladders(missing=self._missing))

    def __enter__(self) -> LadderCompiles:
        return self

    def __exit__(self, *error: object) -> None:
        if self._workers is not None:
            self._workers.__exit__(*error)


def launch_events(launches: Launches, ladders: Ladders) -> Compiled:
    """Make the events of the kernels that the program launched outside of torch.compile; SASS costs 0.3 s a kernel.

    The ladders are added to `ladders`. There is a Failure for each kernel without a ladder, for SASS that cannot be made here,
    and for each launch that could not be noted.
    """
    target = launches.target
    events, failures = [Event("source", 0.0, data=caller) for caller in launches.callers.values()], []
    for kernel in launches.kernels:
        kernel_event = _kernel_event(kernel)
        source = kernel_source(kernel.function, kernel.source, *kernel.place)
        events += [kernel_event, Event("source", kernel.time, data=source)]
        try:
            ladder = kernel.ladder()
        except ExplorerError as error:
            failures.append(Failure("kernel", "ladder", str(error), kernel=kernel.name))
            continue
        ladders.launched[kernel.name] = ladder
        code = ladder.sass() if target.vendor == "nvidia" and not no_sass(target) else ""
        lines = ptx_lines([ladder])[0] if code else ()
        events += events_of(ladder, kernel_event, sass=code, lines=lines, launches=kernel.launches(), name=kernel.name)
        failures += _too_large(kernel.name, ladder)
    failures += without_sass(target, events)
    failures += [Failure("launch", step, message, kernel=kernel) for (step, kernel), message in launches.notes.items()]
    return Compiled(events, failures, ladders)


def _kernel_event(kernel: Specialized) -> Event:
    """The event of a kernel that the program launched, with the places of its launches."""
    definition = KernelText(
        name=kernel.name,
        language="triton",
        text=kernel.source,
        wrapper_line=0,
        comment="",
        file=kernel.place[0],
        first_line=kernel.place[1],
        launched_from=tuple(row.place for row in kernel.launches()),
    )
    return Event("kernel", kernel.time, data=definition)


def kernel_source(function: str, text: str, file: str, first_line: int) -> SourceText:
    """The source of a kernel that the program launches itself, to whose lines the kernel's are linked."""
    return SourceText(
        function=function.rpartition(".")[2],
        qualname=function,
        file=file,
        line=first_line,
        resume=False,
        text=text,
        first_line=first_line,
        inlined=True,
        compiled=False,
        launches=True,
    )


def _too_large(name: str, ladder: Ladder) -> Iterator[Failure]:
    """A Failure where a block needs more shared memory than the GPU has: triton refuses the launch there."""
    needed, available = int(ladder.metadata.get("shared") or 0), ladder.target.shared_per_block
    if needed > available:
        yield Failure(
            "launch",
            "resources",
            f"{ladder.target.name} could not launch it: a block needs {needed} bytes of shared memory; the GPU has {available}; "
            "triton raises OutOfResources there, and autotuning takes another config",
            kernel=name,
        )


def without_backend(target: Target) -> list[Failure]:
    """A Failure for each stage below the source if the installed triton has no backend for the target; else none."""
    missing = missing_backend(target)
    stages = (*TEXTS[target.backend], BINARIES[target.backend]) if missing and target.backend in TEXTS else ()
    return [Failure(stage, "triton", f"there is no {stage}: {missing}") for stage in stages]


def without_sass(target: Target, events: Sequence[Event]) -> list[Failure]:
    """A Failure where kernels were compiled whose machine code cannot be read here."""
    why = no_sass(target) if any(event.kind == "ptx" for event in events) else ""
    return [Failure("sass", "triton", f"there is no sass: {why}")] if why else []


def _calls(events: Sequence[Event]) -> dict[tuple[str, str, str], str]:
    """The arguments of the call of each kernel that Helion wrote, by its frame, graph and name."""
    called = [event for event in events if event.kind == "kernel_lines" and event.data.get("call") is not None]
    return {(event.frame, event.graph, str(event.data["name"])): str(event.data["call"]) for event in called}


def _name_and_source(kernel: Event, calls: Mapping[tuple[str, str, str], str]) -> tuple[str, str]:
    """A kernel's name and source, which for one of Helion's has its call too."""
    name, source = str(kernel.data["name"]), str(kernel.data["text"])
    call = calls.get((kernel.frame, kernel.graph, name))
    return name, source if call is None else with_call(source, call)


def _disassembled(results: Sequence[Ladder | ExplorerError]) -> dict[bytes, str]:
    """Disassemble each different cubin: its SASS by cubin."""
    binaries = {r.binary: None for r in results if isinstance(r, Ladder) and r.target.vendor == "nvidia"}
    with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as threads:
        return dict(zip(binaries, threads.map(disassemble, binaries), strict=True))


def _ptx_lines(results: Sequence[Ladder | ExplorerError]) -> dict[bytes, tuple[int, ...]]:
    """By cubin, the line of the PTX that each instruction was assembled from."""
    ladders = {r.binary: r for r in results if isinstance(r, Ladder) and r.target.vendor == "nvidia"}
    return dict(zip(ladders, ptx_lines(list(ladders.values())), strict=True))


def events_of(ladder: Ladder, kernel: Event, sass: str = "", lines: Sequence[int] = (), **more: Plain) -> Iterator[Event]:
    """Make an event of each text of a ladder, and of `sass` if given, for the event of its kernel; `more` are facts.

    `lines` has the line of the PTX that each instruction of the SASS was assembled from.
    """
    calls = makers(ladder.target)
    for stage, facts in _facts_by_stage(ladder).items():
        data = event_data(stage, {**facts, **more})
        event = Event(stage, kernel.time, kernel.frame, kernel.graph, data, calls.get(stage, ()))
        yield event
    if sass:
        yield event_of(event, sass, lines, calls.get("sass", ()))


def unread_events_of(ladder: Ladder, kernel: Event, rows: Callable[[], Sequence[Launch]]) -> Iterator[Event]:
    """Make the events of a ladder's texts with the `rows` of its launches, which are asked for when one is read."""
    calls = makers(ladder.target)
    for stage, facts in _facts_by_stage(ladder).items():
        data = UnreadFacts(partial(_with_launches, facts, rows))
        yield Event(stage, kernel.time, kernel.frame, kernel.graph, data, calls.get(stage, ()))


def _with_launches(facts: Mapping[str, Plain], rows: Callable[[], Sequence[Launch]]) -> dict[str, Plain]:
    return {**facts, "launches": rows()}


def _launches(ladder: Ladder, wrapper: str) -> Callable[[], Sequence[Launch]]:
    """What finds the launches of a kernel, once: the whole wrapper is parsed for it."""
    return cache(partial(launches, wrapper, ladder.name, ladder.arguments, ladder.grid, ladder.prefix))


def _facts_by_stage(ladder: Ladder) -> dict[str, dict[str, Plain]]:
    """The facts of the event of each text of a ladder, without launches."""
    facts = {"name": ladder.name, **ladder_facts(ladder)}
    return {stage: {**facts, "text": text, "stage_seconds": ladder.seconds.get(stage)} for stage, text in ladder.texts.items()}


def ladder_facts(ladder: Ladder) -> dict[str, Plain]:
    """The facts of every event of a ladder: where its lines are, its config and candidates, metadata; and no launches."""
    return {
        "file": ladder.file,
        "first_line": ladder.first_line,
        "target": ladder.target.name,
        "config": ladder.config,
        "candidates": ladder.candidates,
        "measured": ladder.measured,
        "launched": ladder.launched,
        "chosen": chosen(ladder),
        "metadata": ladder.metadata,
        "launches": (),
    }


def chosen(ladder: Ladder) -> str:
    """Say why this config was compiled: it was the fastest that was timed, or nothing was timed, as for a GPU you don't have."""
    if ladder.chosen:
        return ladder.chosen
    if len(ladder.candidates) < 2:
        return "the only candidate"
    if ladder.config == ladder.candidates[0]:
        return f"the first of {len(ladder.candidates)} candidates, none was timed"
    return "asked for"
