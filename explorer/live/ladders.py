"""The ladder of every Triton kernel of a recording, as events that replay makes artifacts of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.absent.launches import Launches, Specialized
from explorer.errors import CompileError, ExplorerError
from explorer.gpus.figures import Target
from explorer.ladder.ladder import BINARIES, TEXTS, Ladder, LadderWorkers, compile_ladder
from explorer.ladder.sass_lines import ptx_lines
from explorer.ladder.triton_passes import passes
from explorer.ladder.triton_tools import disassemble, makers, missing_backend, no_sass
from explorer.live.protocol import no_verb
from explorer.model.events import KernelText, SourceText, event_data
from explorer.model.values import Artifact, Event, Failure, Plain, Rows
from explorer.observe.launched import Find
from explorer.stages.inductor.definitions import kernel_events
from explorer.stages.inductor.launch import launches
from explorer.stages.triton.sass import event_of


@dataclass
class Ladders:
    """What a live trace keeps of its Triton kernels: the ladder of each source, for what is made only on demand."""

    by_source: dict[str, Ladder] = field(default_factory=dict)
    missing: str = ""  # why no kernel of this trace has a ladder
    target: Target | None = None  # what the kernels are for; None for the CPU
    sources: dict[str, Mapping[str, Plain]] = field(default_factory=dict)  # of Inductor's choices, see `observe.autotuning`
    choices: dict[str, Ladder] = field(default_factory=dict)  # those that were asked for
    launched: dict[str, Ladder] = field(default_factory=dict)  # of kernels launched outside of torch.compile, by name

    def of(self, kernel: Artifact) -> Ladder:
        """The ladder of an artifact of stage "kernel"; an error, which says why, where it was not compiled here."""
        if self.missing:
            raise CompileError(self.missing)
        if not kernel.frame and kernel.kernel in self.launched:
            return self.launched[kernel.kernel]
        if kernel.language == "cpp":
            raise no_verb(
                f"{kernel.kernel} has no ladder",
                "it is a C++ kernel, and only Triton kernels have one",
                "t.kernels[n].text('assembly') is its machine code",
            )
        if kernel.text not in self.by_source:
            raise no_verb(
                f"{kernel.kernel} has no ladder",
                "it was not compiled down the ladder in this trace",
                "t.failures says why; t.kernels[n].stages lists the forms that it has",
            )
        return self.by_source[kernel.text]

    def sass(self, kernel: Artifact) -> str:
        """The SASS of a kernel, made now."""
        return sass_of(self.of(kernel))

    def ptx_lines(self, kernels: Sequence[Artifact]) -> list[tuple[int, ...]]:
        """For each kernel the line of its PTX that each instruction of its SASS was assembled from; () where not known."""
        return lines_of_ptx([self.of(kernel) for kernel in kernels])

    def passes(self, kernel: Artifact) -> Rows:
        """Each MLIR pass of a kernel: see `ladder.triton_passes.passes`."""
        return mlir_passes(self.of(kernel))

    def binary(self, kernel: Artifact) -> bytes:
        """The cubin, hsaco or SPIR-V of a kernel."""
        return self.of(kernel).binary

    def candidate(self, kernel: Artifact, config: int | Mapping[str, Plain]) -> Ladder:
        """The ladder of a kernel with another of its autotune candidates."""
        if not kernel.frame and kernel.kernel in self.launched:
            raise no_verb(
                f"{kernel.kernel} cannot be compiled with another config",
                "it was launched outside of torch.compile, and its arguments are not kept",
                "compile it by explorer.trace_kernel(kernel, *args, grid=…, config=…)",
            )
        return compile_ladder(kernel.text, kernel.kernel, self.of(kernel).target, config)

    def choice(self, key: str) -> Ladder:
        """The ladder of one of Inductor's choices, compiled when first asked for; CompileError where it does not compile."""
        if self.missing:
            raise CompileError(self.missing)
        if self.target is None:
            raise no_verb(
                "this choice has no ladder",
                "the trace is for the CPU, and only Triton templates have one",
                "explorer.trace(f, x, target='h100') has those of a GPU",
            )
        if key not in self.choices:
            source = self.choice_source(key)
            self.choices[key] = compile_ladder(str(source["text"]), str(source["name"]), self.target)
        return self.choices[key]

    @property
    def choice_stages(self) -> tuple[str, ...]:
        """The stages of the ladder of a choice: none where triton has no backend for the target."""
        if self.target is None or self.missing:
            return ()
        below = ("sass",) if self.target.vendor == "nvidia" else ()
        return (*TEXTS[self.target.backend], *below)

    def choice_passes(self, key: str) -> Rows:
        """Each MLIR pass of one of Inductor's choices."""
        return mlir_passes(self.choice(key))

    def choice_source(self, key: str) -> Mapping[str, Plain]:
        """The name, language and text of one of Inductor's choices."""
        if key not in self.sources:
            raise no_verb(
                "this choice has no source",
                "it could not be read when it was recorded",
                "t.failures says why",
            )
        return self.sources[key]

    def with_choices(self, events: Sequence[Event]) -> Ladders:
        """These ladders with the sources of the choices that were recorded."""
        self.sources |= {str(e.data["source"]): e.data for e in events if e.kind == "choice_source"}
        return self


def sass_of(ladder: Ladder) -> str:
    """The SASS of a kernel, made now; NoVerbError for a GPU of another vendor."""
    _needs_nvidia(ladder)
    return ladder.sass()


def lines_of_ptx(ladders: Sequence[Ladder]) -> list[tuple[int, ...]]:
    """For each kernel the line of its PTX that each SASS instruction was assembled from; NoVerbError for another vendor's GPU."""
    for ladder in ladders:
        _needs_nvidia(ladder)
    return ptx_lines(ladders)


def _needs_nvidia(ladder: Ladder) -> None:
    if ladder.target.vendor != "nvidia":
        instead = {"amd": "the text 'amdgcn' is its machine code", "intel": "the driver makes its machine code of `binary`"}
        raise no_verb(f"{ladder.name} has no SASS", f"it is for {ladder.target.name}", instead[ladder.target.vendor])


def mlir_passes(ladder: Ladder) -> Rows:
    """Each MLIR pass of a kernel: see `ladder.triton_passes.passes`."""
    if ladder.lowered is None:
        raise no_verb(
            f"the passes of {ladder.name} cannot be listed",
            "it was not compiled in this process",
            "call explorer.trace again",
        )
    return passes(ladder.lowered)


class Compiled(NamedTuple):
    """The events of all ladders, a failure for each kernel that has none, and the ladders themselves."""

    events: list[Event]
    failures: list[Failure]
    ladders: Ladders


def ladder_events(
    events: Sequence[Event], target: Target, *, sass: bool = False, workers: int = 0, find: Find | None = None
) -> Compiled:
    """Compile every Triton kernel of the output code among `events` for `target`, identical ones once.

    The events of kinds "ttir", "ttgir", "llir", "ptx" or "amdgcn", and with `sass` "sass", each of the frame and graph of
    its kernel; and a Failure for each kernel that did not compile. `sass` costs 0.3 s a kernel: without it ask
    `Ladder.sass` when it is looked at. `find` finds what the attached GPU launched of a kernel: then that is its ladder.
    Where triton has no backend for the target, a Failure for each stage says so.
    """
    with Climb(target, workers, find) as climb:
        return climb.compiled(events, sass=sass)


class Climb:
    """The ladders of one recording, each begun when the graph of its kernel is compiled rather than at the end."""

    def __init__(self, target: Target, workers: int = 0, find: Find | None = None) -> None:
        self._find = find
        self._target, self._missing = target, missing_backend(target)
        self._workers = None if self._missing else LadderWorkers(target, workers)
        self._wrappers: list[Event] = []
        self._kernels: list[tuple[Event, Event]] = []

    def begin(self, events: Sequence[Event]) -> None:
        """Begin the kernels of the output code that has come since the last call; `events` are all that there are by now."""
        new = [event for event in events if event.kind == "output_code"][len(self._wrappers) :]
        pairs = [(w, k) for w in new for k in kernel_events(w) if k.data["language"] == "triton"]
        self._wrappers += new
        self._kernels += pairs
        if self._workers is not None:
            ran = [self._find(str(w.data.get("file", "")), str(k.data["name"])) if self._find else None for w, k in pairs]
            self._workers.submit([_named(kernel) for _, kernel in pairs], ran)

    def compiled(self, events: Sequence[Event], *, sass: bool = False) -> Compiled:
        """What `ladder_events` gives, of all events; waits for the kernels that are still under way."""
        self.begin(events)
        if self._workers is None:
            return self._without_backend()
        made = self._workers.results([_named(kernel) for _, kernel in self._kernels])
        sass = sass and not no_sass(self._target)
        codes = _disassembled(made) if sass else {}
        lines = _ptx_lines(made) if sass else {}
        found, failures, ladders = Compiled([], [], Ladders(target=self._target))
        for (wrapper, kernel), ladder in zip(self._kernels, made, strict=True):
            if isinstance(ladder, ExplorerError):
                failures.append(Failure("kernel", str(kernel.data["name"]), str(ladder)))
            else:
                ladders.by_source[str(kernel.data["text"])] = ladder
                code = ladder.with_own_name(codes.get(ladder.binary, ""))
                found += events_of(ladder, kernel, str(wrapper.data["text"]), code, lines.get(ladder.binary, ()))
        return Compiled(found, [*failures, *without_sass(self._target, found)], ladders)

    def _without_backend(self) -> Compiled:
        """A Failure for each stage that triton cannot make for this target, where there is a kernel to make it of."""
        stages = (*TEXTS[self._target.backend], BINARIES[self._target.backend]) if self._kernels else ()
        failures = [Failure(stage, "triton", f"there is no {stage}: {self._missing}") for stage in stages]
        return Compiled([], failures, Ladders(missing=self._missing))

    def __enter__(self) -> Climb:
        return self

    def __exit__(self, *error: object) -> None:
        if self._workers is not None:
            self._workers.__exit__(*error)


def launch_events(launches: Launches, ladders: Ladders) -> Compiled:
    """Each kernel that the program launched outside of torch.compile, and its ladder; SASS costs 0.3 s a kernel.

    A Failure for each kernel without a ladder, for SASS that cannot be had, and for what was lost otherwise.
    """
    target = launches.target
    events, failures = [Event("source", 0.0, data=caller) for caller in launches.callers.values()], []
    for kernel in launches.kernels:
        rows = kernel.launches()
        definition = KernelText(
            name=kernel.name,
            language="triton",
            text=kernel.source,
            wrapper_line=0,
            comment="",
            file=kernel.place[0],
            first_line=kernel.place[1],
            launched_from=tuple(row.place for row in rows),
        )
        events.append(Event("kernel", kernel.time, data=definition))
        own = events[-1]
        events.append(_source_event(kernel))
        try:
            ladder = kernel.ladder()
        except ExplorerError as error:
            failures.append(Failure("kernel", kernel.name, str(error)))
            continue
        ladders.launched[kernel.name] = ladder
        code = ladder.sass() if target.vendor == "nvidia" and not no_sass(target) else ""
        lines = ptx_lines([ladder])[0] if code else ()
        events += events_of(ladder, own, sass=code, lines=lines, launches=rows, name=kernel.name)
        failures += _too_large(kernel.name, ladder)
    failures += without_sass(target, events)
    failures += [Failure("launch", step, message) for step, message in launches.notes.items()]
    return Compiled(events, failures, ladders)


def _source_event(kernel: Specialized) -> Event:
    """The source of a kernel as the program has it, of which its lines are."""
    file, first = kernel.place
    source = SourceText(
        function=kernel.function.rpartition(".")[2],
        qualname=kernel.function,
        file=file,
        line=first,
        resume=False,
        text=kernel.source,
        first_line=first,
        inlined=True,
        compiled=False,
        launches=True,
    )
    return Event("source", kernel.time, data=source)


def _too_large(name: str, ladder: Ladder) -> Iterator[Failure]:
    """Where a block needs more shared memory than the GPU has: there triton refuses the launch."""
    needed, there = int(ladder.metadata.get("shared") or 0), ladder.target.shared_per_block
    if needed > there:
        yield Failure(
            "launch",
            name,
            f"{ladder.target.name} could not launch it: a block needs {needed} bytes of shared memory, and it has {there}; "
            "triton raises OutOfResources there, and autotuning takes another config",
        )


def without_sass(target: Target, events: Sequence[Event]) -> list[Failure]:
    """A Failure where kernels were compiled whose machine code cannot be read here."""
    why = no_sass(target) if any(event.kind == "ptx" for event in events) else ""
    return [Failure("sass", "triton", f"there is no sass: {why}")] if why else []


def _named(kernel: Event) -> tuple[str, str]:
    return str(kernel.data["name"]), str(kernel.data["text"])


def _disassembled(made: Sequence[Ladder | ExplorerError]) -> dict[bytes, str]:
    """The SASS of each different cubin."""
    binaries = {m.binary: None for m in made if isinstance(m, Ladder) and m.target.vendor == "nvidia"}
    with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as threads:
        return dict(zip(binaries, threads.map(disassemble, binaries), strict=True))


def _ptx_lines(made: Sequence[Ladder | ExplorerError]) -> dict[bytes, tuple[int, ...]]:
    """By cubin the line of its PTX that each instruction was assembled from."""
    ladders = {m.binary: m for m in made if isinstance(m, Ladder) and m.target.vendor == "nvidia"}
    return dict(zip(ladders, ptx_lines(list(ladders.values())), strict=True))


def events_of(
    ladder: Ladder, kernel: Event, wrapper: str = "", sass: str = "", lines: Sequence[int] = (), **more: Plain
) -> Iterator[Event]:
    """One event for each text of a ladder, and for `sass` where given, beside the event of its kernel; `more` are facts.

    `lines` has for each instruction of the SASS the line of the PTX that it was assembled from.
    """
    made_by = makers(ladder.target)
    facts = {"name": ladder.name, **ladder_facts(ladder, wrapper), **more}
    for stage, text in ladder.texts.items():
        data = event_data(stage, {**facts, "text": text, "stage_seconds": ladder.seconds.get(stage)})
        event = Event(stage, kernel.time, kernel.frame, kernel.graph, data, made_by.get(stage, ()))
        yield event
    if sass:
        yield event_of(event, sass, lines, made_by.get("sass", ()))


def ladder_facts(ladder: Ladder, wrapper: str = "") -> dict[str, Plain]:
    """What every event of a kernel's ladder says: where its lines are, its config and candidates, metadata, launches."""
    run = launches(wrapper, ladder.name, ladder.arguments, ladder.grid, ladder.prefix) if wrapper else ()
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
        "launches": run,
    }


def chosen(ladder: Ladder) -> str:
    """Why this config was compiled: it was measured, or nothing was, as on a GPU you don't have."""
    if ladder.chosen:
        return ladder.chosen
    if len(ladder.candidates) < 2:
        return "the only candidate"
    if ladder.config == ladder.candidates[0]:
        return f"the first of {len(ladder.candidates)} candidates, none was timed"
    return "asked for"
