"""Live: the compiled function of one trace, its arguments and its result."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from explorer.absent.cuda_on_cpu import types_of_the_gpu
from explorer.absent.generated import Code, Generated
from explorer.errors import CompileError, InputError, InterpretError, LiveError
from explorer.gpus.figures import Target
from explorer.ladder.ladder import Ladder
from explorer.live.call import Call, clone, run_call
from explorer.live.inlining import calls_of
from explorer.live.interpreted import interpreting_calls
from explorer.live.ladders import Ladders
from explorer.live.other_threads import once_nothing_traces
from explorer.live.outcome import Outcome, detached_of_state, on_copies, other_types, outcome_of
from explorer.live.reference import DRAWS, compared
from explorer.model.values import Artifact, Rows
from explorer.observe.without_data import NO_DATA
from explorer.process import scratch


@dataclass
class Live:
    """What `Trace.live` holds; `compiled` is None and `error` set where the compile failed."""

    call: Call
    compiled: Callable[..., Any] | None = None
    returned: Any = None
    gradients_by_name: Mapping[str, Any] | None = None
    error: BaseException | None = None
    assembled: dict[str, Artifact] = field(default_factory=dict)
    ladders: Ladders = field(default_factory=Ladders)
    absent: Target | None = None  # the GPU you don't have for which the kernels are
    again: Callable[..., Any] | None = None  # the same trace made anew, with the arguments of `trace` that are given
    generated: Generated | None = None  # of a trace for a GPU you don't have: what was generated for it
    empty: bool = False  # whether tensors of the call have no data, so that nothing was computed

    @property
    def codes(self) -> Sequence[Code] | None:
        """Inductor's modules for a GPU you don't have; None where the device is here."""
        return self.generated.codes if self.generated is not None else None

    @property
    def result(self) -> Any:
        """What the traced call returned; CompileError, from the compiler's own error, where it failed.

        InterpretError where all was compiled, but a kernel of the program itself cannot be run without its GPU.
        """
        self._raise_error()
        self._needs_data("there is no result")
        return self.returned

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The gradients of a training trace by name; the errors of `result` where the call failed."""
        self._raise_error()
        self._needs_data("there are no gradients")
        if self.gradients_by_name is None:
            raise InputError("this trace has no backward: call explorer.trace(..., train=True)")
        return self.gradients_by_name

    def _needs_data(self, otherwise: str) -> None:
        """InputError where the tensors have no data."""
        if self.empty:
            raise InputError(NO_DATA.format(what=otherwise))

    def _raise_error(self) -> None:
        if isinstance(self.error, InterpretError):
            raise self.error
        if self.error is not None:
            raise CompileError(f"the compile failed: {type(self.error).__name__}: {self.error}") from self.error

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function as it is, with new arguments or with those of the trace.

        Where the trace is for a GPU you don't have, the graphs that Dynamo made run on the CPU.
        """
        if self.compiled is None:
            raise CompileError("the compile failed, there is nothing to run") from self.error
        self._needs_data("nothing can be run")
        call = self.call.with_arguments(args, kwargs) if args or kwargs else self.call
        compiled = self.compiled

        def given() -> Any:
            with on_copies(call) as copied:
                return detached_of_state(call, run_call(compiled, copied, told=False)[0])

        return once_nothing_traces(given)

    def check(self, limit: float | None = None, expected: Any = None) -> Rows:
        """Eager and compiled on copies of the trace's inputs, compared output by output; see `Trace.check`."""
        if expected is not None:
            raise InputError("expected= is for hand-written kernels; a function is compared with what it returns in eager mode")
        self._needs_data("nothing can be checked")
        if self.codes is not None:
            return self._check_interpreted(self.codes, limit)
        return Rows({**row, "interpreted": False} for row in self._compared(nullcontext, DRAWS))

    def _check_interpreted(self, codes: Sequence[Code], limit: float | None) -> Rows:
        """Eager and the generated wrappers and kernels, run by an interpreter."""
        with interpreting_calls(self.call, codes, limit) as (within, calls):
            rows = self._compared(within, min(calls, DRAWS), "eager's are the CPU's")
        return Rows({**row, "interpreted": True} for row in rows)

    def _compared(self, within: Callable[..., Any], draws: int, strides: str = "") -> list[dict[str, Any]]:
        """The rows of a check, the compiled function being called inside `within()`."""
        compiled = self._compiled()

        def eager(seed: int) -> Outcome:
            return outcome_of(self.call.function, self.call, seed=seed)

        def given(seed: int) -> Outcome:
            return once_nothing_traces(lambda: outcome_of(compiled, self.call, seed=seed, within=within))

        expected, found = eager(0), given(0)
        if self.absent is not None and other_types(expected, found):
            eager = partial(self._eager_in_types_of, self.absent)
            expected = eager(0)
        return compared(self.call, expected, found, redo=(eager, given), draws=draws, strides=strides)

    def _eager_in_types_of(self, target: Target, seed: int) -> Outcome:
        """What eager gives, in the types that its operators' results have on the target."""
        return outcome_of(self.call.function, self.call, seed=seed, within=lambda: types_of_the_gpu(target))

    def benchmark(self, repeats: int) -> Rows:
        """Median seconds of eager and compiled, called in turn."""
        if repeats < 1:
            raise InputError(f"repeats must be at least 1, not {repeats}")
        if self.absent is not None:
            raise InputError(
                f"{self.absent.name!r} is not attached, so nothing can be timed on it, and the CPU's times would say nothing of "
                "it: t.kernels.table() estimates each kernel; where that GPU is attached, explorer.trace(f, x, target='cuda') "
                "gives a trace that can be timed"
            )
        functions = {"eager": self.call.function, "compiled": self._compiled()}
        times: dict[str, list[float]] = {name: [] for name in functions}
        with on_copies(self.call) as call:
            for _ in range(repeats):
                for name, function in functions.items():
                    times[name].append(_seconds(lambda f=function: run_call(f, call)))  # type: ignore[misc]
        medians = {name: statistics.median(values) for name, values in times.items()}
        return Rows({"what": n, "seconds": s, "ratio_to_eager": s / medians["eager"]} for n, s in medians.items())

    def compare(self, other: Live) -> Rows:
        """This and another compiled function on copies of the trace's inputs and with one seed, by the judge of a check."""

        def calls(live: Live) -> Callable[[int], Outcome]:
            call = replace(self.call, function=live.call.function)
            return lambda seed: once_nothing_traces(lambda: outcome_of(live._compiled(), call, seed=seed))

        redo = calls(self), calls(other)
        return Rows(compared(self.call, redo[0](0), redo[1](0), redo=redo))

    def race(self, other: Live, repeats: int) -> tuple[float, float]:
        """The median seconds of a call of this and of another compiled function, called in turn."""
        times: tuple[list[float], list[float]] = [], []
        with on_copies(self.call) as one, on_copies(other.call) as two:
            for _ in range(repeats):
                for live, call, seconds in zip((self, other), (one, two), times, strict=True):
                    seconds.append(_seconds(lambda f=live, c=call: run_call(f._compiled(), c)))  # type: ignore[misc]
        return statistics.median(times[0]), statistics.median(times[1])

    def sass(self, kernel: Artifact) -> str:
        """The SASS of a Triton kernel, made now."""
        return self.ladders.sass(kernel)

    def ptx_lines(self, kernels: Sequence[Artifact]) -> list[tuple[int, ...]]:
        """For each Triton kernel the line of its PTX that each instruction of its SASS was assembled from."""
        return self.ladders.ptx_lines(kernels)

    def binary(self, kernel: Artifact) -> bytes:
        """The cubin or hsaco of a Triton kernel."""
        return self.ladders.binary(kernel)

    def passes(self, kernel: Artifact) -> Rows:
        """Each MLIR pass of a Triton kernel."""
        return self.ladders.passes(kernel)

    def candidate(self, kernel: Artifact, config: int | Mapping[str, Any]) -> Ladder:
        """A Triton kernel compiled with another of its autotune candidates."""
        return self.ladders.candidate(kernel, config)

    def choice(self, source: str) -> Ladder:
        """One of Inductor's choices, by its source's key, compiled down the ladder."""
        return self.ladders.choice(source)

    @property
    def choice_stages(self) -> tuple[str, ...]:
        """The stages below a choice's source that can be made for this trace's target."""
        return self.ladders.choice_stages

    def choice_passes(self, source: str) -> Rows:
        """Each MLIR pass of one of Inductor's choices."""
        return self.ladders.choice_passes(source)

    def choice_source(self, source: str) -> Mapping[str, Any]:
        """The name, language and text of one of Inductor's choices."""
        if source not in self.ladders.sources:
            raise InputError("the source of this choice could not be read when it was recorded; the trace's failures say why")
        return self.ladders.sources[source]

    def _compiled(self) -> Callable[..., Any]:
        if self.compiled is None:
            raise CompileError("the compile failed, there is nothing to run") from self.error
        return self.compiled

    def assembly(self, kernel: Artifact) -> Artifact:
        """The assembly of a C++ kernel, by Inductor's own compile command; made once."""
        if kernel.language != "cpp":
            raise InputError(f"{kernel.kernel} is a {kernel.language} kernel; assembly is made of C++ kernels")
        if kernel.id not in self.assembled:
            self.assembled[kernel.id] = assemble(kernel)
        return self.assembled[kernel.id]


def assemble(kernel: Artifact) -> Artifact:
    """Compile a C++ kernel to assembly with line numbers; LiveError with the compiler's words where it fails.

    Where the debug information cannot be read, the artifact's `unlinked` says why.
    """
    from explorer.model.events import event_data
    from explorer.model.values import Event
    from explorer.observe.cpp_command import assembly_command
    from explorer.stages.cpp import assembly

    with scratch.folder() as folder:
        source, output = Path(folder) / "kernel.cpp", Path(folder) / "kernel.s"
        source.write_text(kernel.text, encoding="utf-8")
        command = assembly_command(str(source), str(output))
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            raise LiveError(f"the C++ compiler refused {kernel.kernel}:\n{done.stderr}")
        text = output.read_text(encoding="utf-8")
        inlined, unlinked = _inlined(text, Path(folder), command)
    facts = {"name": kernel.kernel, "file": "kernel.cpp", "nested": assembly.nested_lines(kernel.text), "unlinked": unlinked}
    data = event_data("assembly", {**facts, "inlined": inlined, "text": text.replace(folder, ".")})
    event = Event("assembly", kernel.time, kernel.frame, kernel.graph, data, kernel.path)
    return assembly.render(event, kernel.id.replace(":kernel:", ":assembly:"))


def _inlined(text: str, folder: Path, command: Sequence[str]) -> tuple[list[tuple[int, Any]], str]:
    """Where each instruction was inlined, as the stage takes it; or nothing, and why."""
    machine = [part for part in command if part.startswith("-m")]
    try:
        return list(calls_of(text, folder, [command[0], *machine]).items()), ""
    except LiveError as error:
        return [], str(error)


def _seconds(action: Callable[[], Any]) -> float:
    synchronize()
    began = time.perf_counter()
    action()
    synchronize()
    return time.perf_counter() - began


def synchronize() -> None:
    """Wait for the GPU, where one is attached and in use."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


__all__ = ["Live", "assemble", "clone", "synchronize"]
