"""Trace: the result of one recording, as one frozen plain value with its verbs.

Two traces are equal if their data are equal; `live`, which belongs to the process that made one, is no part of the value.
Each verb returns a new value and changes nothing. Its work is done in the room that it calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from explorer.analysis.questions import compiles, coverage, missing, provenance, summary, tables
from explorer.analysis.questions import lowering as lowered
from explorer.analysis.questions.diagram import diagram
from explorer.analysis.questions.fusion import Fusion, Why, fusion_of, why
from explorer.analysis.questions.lowering import Lowered
from explorer.analysis.questions.memory import Memory, memory_of
from explorer.analysis.questions.target import compiled_for
from explorer.capture.absent.target import attached_gpu
from explorer.errors import CompileError, InputError
from explorer.lab.live.protocol import Live, MakesForms, live_of, needs_live, no_text
from explorer.model.deferred import defer, deferrable, is_deferred
from explorer.model.guessed import NamesGuessed, guess
from explorer.model.stage import Stage
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Failure, NodePairs, Plain, Table
from explorer.process.progress import in_notebook
from explorer.process.ranks import make_folder, path_in_folder, rank, warn_if_it_overwrites
from explorer.sources.files import trace_file
from explorer.stages import STAGES, replay, stages_of
from explorer.tracing.traced import what_if
from explorer.tracing.traced.attach import MACHINE_CODE, attached, with_machine_code
from explorer.tracing.traced.check_notes import with_precision
from explorer.tracing.traced.collectives import CollectivesAccessor
from explorer.tracing.traced.compiler import CompilerAccessor
from explorer.tracing.traced.dynamo import DynamoAccessor
from explorer.tracing.traced.guesses import places_of
from explorer.tracing.traced.inductor import InductorAccessor
from explorer.tracing.traced.kernel import Kernels
from explorer.tracing.traced.live import LiveAccessor
from explorer.tracing.traced.profile import ProfileAccessor
from explorer.tracing.traced.what_if import WhatIf
from explorer.view import page

# What only one verb needs is imported by the verb: with pdb, the writers of scripts and the rest a first import took longer.
if TYPE_CHECKING:
    from explorer.analysis.advice.verdicts import Advice
    from explorer.lab.bisecting.bisection import Bisection
    from explorer.lab.drifting.drift import Drift
    from explorer.lab.live.sanitized import Sanitized
    from explorer.lab.scripts.kernel_script import Made


def lost(error: Exception, meta: Mapping[str, Plain], failures: Sequence[Failure]) -> TraceData:
    """The data of a trace that could not be replayed: what went wrong before, and this error."""
    failure = Failure("record", "replay", f"{type(error).__name__}: {error}", fatal=True)
    return TraceData(meta, failures=(*failures, failure))


@deferrable("artifacts", "links", "failures", "_stages")
@dataclass(frozen=True, repr=False)
class Trace(NamesGuessed, TraceData):
    """Every stage of one or more compiles, linked.

    `meta` says what was traced and with what; `artifacts` are the stages' texts in the compiler's order; `links`
    relate their lines; `failures` name everything that went wrong. A new trace makes them of what was recorded when one of
    them is first read. What is about one part of the compiler stands behind an accessor: `t.dynamo`, `t.inductor`, `t.fusion`,
    `t.memory`, `t.profile`, `t.collectives`, `t.compiler`. `t.live` runs and edits; it is false for a loaded trace.
    """

    _live: MakesForms | None = field(default=None, compare=False, repr=False)

    @property
    def target(self) -> object | None:
        """The figures of the GPU that the trace is for: the target's, or those that torch reads from the attached GPU.

        None for the CPU, and for a loaded trace of a GPU that has no name here.
        """
        if (live := live_of(self)) is None:
            return compiled_for(self).named_gpu
        if live.absent is not None or not compiled_for(self).is_attached_gpu:
            return live.absent
        try:
            return attached_gpu()
        except InputError:
            return None

    # Texts ---------------------------------------------------------------------------------------------------------

    def text(self, stage: str, frame: str | None = None, graph: str | None = None) -> str:
        """The text of a stage; if it has several texts, all of them, each under a heading.

        InputError, with the stages that there are, if the trace has no such text. CompileError, with the reason, for a stage
        that could not be made.
        """
        artifacts = self.find(stage, frame, graph)
        if not artifacts and stage in MACHINE_CODE and any(stage in kernel.stages for kernel in self.kernels):
            raise InputError(f"{stage} is made for one kernel at a time, when it is asked for: t.kernels[0].text({stage!r})")
        if not artifacts:
            missing.explain_missing(self, stage)
            missing.explain_place(self, stage, frame, graph)
            raise no_text(self, stage)
        if len(artifacts) == 1:
            return artifacts[0].text
        return "\n\n".join(f"# ---- {a.title} [{a.id}]\n{a.text}" for a in artifacts)

    def only(self, *frames: str) -> Trace:
        """The trace of some of its compiles alone, as `t.only("3/0")`: to open, save or compare a part of a large recording.

        `t.compile_ids` has the ids of all. Artifacts of no compile stay; live state, which is the whole function's, is dropped. A
        view opens the first compiles of a trace with more than a million lines, and names the others; `to_html` writes all.
        InputError for a compile that it does not have.
        """
        return trace_of(compiles.only(self, frames))

    @property
    def kernels(self) -> Kernels:
        """The generated kernels, in the order in which the output code defines them; `t.kernels.table` compares them."""
        return Kernels(self)

    # Tables --------------------------------------------------------------------------------------------------------

    def table(self, stage: str) -> Table:
        """The table of any stage, each row with its frame; InputError for an unknown stage."""
        if not self.find(stage) and not any(each.name == stage for each in stages_of(self)):
            raise no_text(self, stage)
        return tables.table(self, stage)

    @property
    def stages(self) -> Table:
        """One row per stage of a graph: number of texts and lines, seconds, changes, failures, and what made it.

        `function`, `file` and `line` are of PyTorch or triton; `calls` runs from torch.compile inwards, each "file:line
        function". Failures of a stage without a text, such as the compile itself, have rows of their own at the end.
        """
        return summary.stages(self)

    # What belongs to one part of the compiler -----------------------------------------------------------------------

    @property
    def dynamo(self) -> DynamoAccessor:
        """What Dynamo captured, and what it guards: functions, guards, graph breaks, recompiles."""
        return DynamoAccessor(self)

    @property
    def inductor(self) -> InductorAccessor:
        """What Inductor changed, lowered and chose: passes, matches, lowerings, choices, extern calls."""
        return InductorAccessor(self)

    @property
    def fusion(self) -> Fusion:
        """What the scheduler fused, and what it refused: groups, table, buffers; `t.why("sin", "mul")` says why."""
        return fusion_of(self)

    @property
    def memory(self) -> Memory:
        """The memory of each compiled graph: table, peak, timeline, saved."""
        return memory_of(self)

    @property
    def profile(self) -> ProfileAccessor:
        """Where the time of a call goes: by kernel, node and line; `roofline()`."""
        return ProfileAccessor(self)

    @property
    def collectives(self) -> CollectivesAccessor:
        """What the ranks of a job exchange: table, timeline."""
        return CollectivesAccessor(self)

    @property
    def compiler(self) -> CompilerAccessor:
        """What the compile itself took: phases, metrics, settings, caches, files."""
        return CompilerAccessor(self)

    @property
    def live(self) -> LiveAccessor:
        """What the process that made the trace can do: run, debug, edit; false for a loaded trace."""
        return LiveAccessor(self)

    # Questions -----------------------------------------------------------------------------------------------------

    def diagram(
        self, stage: str = "ir_post_fusion", frame: str | None = None, graph: str | None = None, boxes: int | None = None
    ) -> Any:
        """A graphviz graph of a stage's nodes: an FX graph, or the scheduler's nodes with a frame around each fused group.

        If it has more than `boxes` (60 by default), an FX graph is collapsed by module and the scheduler's nodes by fused group.
        A notebook shows it if graphviz's `dot` program is installed; `.source` is its text. InputError, with the graphs that
        there are, if the trace has no such graph or several.
        """
        return diagram(self, stage, frame, graph, boxes)

    # Links ---------------------------------------------------------------------------------------------------------

    def follow(self, where: str | Artifact, line: int | None = None, into: str | None = None) -> Table:
        """Every line of every other text that is linked to this line, over any number of links, and how that is known.

        `where` names a text: by its stage, its id, or your file ("model.py", whose line is the file's own). Of several texts of
        stage "source" it is the traced function's, without resume functions and what was inlined. Without a line `where`
        may be an nn.Module such as "h.0.attn": then all that its nodes are linked to, the modules inside it included. Lines count
        from 1. `into` keeps the lines of one stage; SASS and assembly are made for it where the trace lacks them, of the kernels
        that the line leads to (0.6 s and more each; `attach` makes and keeps those of all).

        The columns: artifact, stage, lines, the `text` of the first (with `into` of all), `route`, which lists the kinds of
        links that lead there, and `coarse`. That is True if one of the links leads only to the line of a call, such as a scan,
        flex attention or torch.func.grad: no text says which line inside it is meant. A table without rows says why.
        InputError, with the nearest names, for a text, line or module that the trace lacks.
        """
        trace, rows = self, provenance.linked_to(self, where, line)
        if into is None:
            return provenance.with_text(self, rows, 1)
        if into in MACHINE_CODE:
            trace = with_machine_code(self, into, provenance.texts_of(self, where, line, rows))
            rows = provenance.linked_to(trace, where, line)
        elif not self.find(into):
            raise no_text(self, into)
        return provenance.with_text(trace, provenance.only_in(trace, rows, into), None)

    @overload
    def why(self, first: str, *, graph: str | None = None, frame: str | None = None) -> Lowered: ...

    @overload
    def why(self, first: str, second: str, *, graph: str | None = None, frame: str | None = None) -> Why: ...

    def why(self, first: str, second: str | None = None, *, graph: str | None = None, frame: str | None = None) -> Why | Lowered:
        """Say why two nodes are one kernel or not; of one node, how it was lowered and why so.

        A node is named as the scheduler names it ("op3"), by a buffer ("buf3"), an FX node ("mul_2"), a kernel, or an operator of
        the program ("cumsum", "silu"). Of two names one or both may be lines of the program ("model.py:3"), which stand for the
        nodes that compute them. `graph` and `frame` choose where several have the name. A name that both an operator with several
        places and one of its nodes have ("tanh") means the operator; with both `graph` and `frame`, and a node's name as the
        other, it means the node. InputError for an unknown name, with the nearest ones, for an operator that is computed in
        several places, with these, and for a line that no node computes.
        """
        if second is not None:
            return why(self.fusion, first, second, graph, frame)
        return lowered.lowering(self, first, graph, frame)

    def attach(self, what: object, *stages: str) -> Trace:
        """Return this trace with something more in it, which its tables, view, page and file then have.

        `what` is a profile of the same code: a `torch.profiler.profile` that is over, the path of a Chrome trace that it exported
        or of Proton's `.hatchet` file, or the rows of `t.live.profile()`. Its times replace estimates; `t.profile` lists kernels
        and calls, and what could not be joined. The times of C++ kernels are in a profile only if they were compiled with
        options={"cpp.enable_kernel_profile": True}. The rows of `t.live.cost()` give the time of a whole call, in parts.

        A report of Nsight Compute gives counters of each instruction, `t.profile.counters`: the path of a `.ncu-rep`, which the
        `ncu` on PATH prints, or of its pages "source" and "raw" as CSV, in one file.

        It may also be what another verb returned: `t.bisect()`, whose marks say which value is off, right or not compared;
        `t.dynamo.steps()`, which become a stage; or one of `t.inductor.choices`, with the texts of `stages` such as "ttgir".
        "sass" and "assembly" are the machine code of every NVIDIA kernel (0.6 s each) or C++ kernel (2 to 10 s each), and
        "pallas_jaxpr", "pallas_stablehlo" and "pallas_mosaic" what JAX makes of every Pallas kernel; "halide_schedule",
        "halide_stmt", "halide_llvm" and "halide_assembly" what Halide makes of every Halide kernel (4 s each, for all four);
        "cuda_ptx" and "cuda_sass" what nvcc makes of every kernel in CUDA C++ (half a minute each, for both).
        `follow` and `coverage` then include them.

        InputError for something else, for what belongs to another trace, and where the trace has nothing that it could be joined
        to. FileError for a file that cannot be read. LiveError for texts that the trace does not hold and this process cannot
        make.
        """
        return attached(self, what, stages)

    def what_if(
        self,
        *,
        keep_apart: NodePairs | None = None,
        fuse: NodePairs | None = None,
        without_pass: str | Sequence[str] = (),
        without_pattern: str | Sequence[str] = (),
        options: Mapping[str, Plain] | None = None,
        settings: Mapping[str, Plain] | None = None,
        limit: float | None = None,
    ) -> WhatIf:
        """Trace the same call with something changed, and compare: kernels, launches, bytes, seconds, and the result.

        `keep_apart=("op3", "op7")` and `fuse=("sin", "mul")` take a pair of nodes or a list of pairs, as `explorer.trace` does;
        each replaces those of this trace, and `()` removes them. A kernel may name its node.
        `without_pass` and `without_pattern` take names or wildcards ("_sfdp_*") of `passes` and `matches`, also names that only
        come up once something else is left out. `options` takes any option of Inductor's, `settings` any setting of torch's by
        its full name, such as "torch.backends.cuda.matmul.allow_tf32": it holds while the second trace is made, checked
        and timed. "torch.nn.parallel.DistributedDataParallel.bucket_cap_mb" and
        "torch.distributed.fsdp.fully_shard.reshard_after_forward" wrap the modules that the traced function calls otherwise, for
        the second trace; then the table has what nothing hides of their collectives, and the peak memory of a step.
        For a GPU you don't have the result is checked as `check` does, unless that takes more than `limit` seconds.
        LiveError for a loaded trace, NoVerbError for a hand-written kernel; InputError for names that this trace does not have.
        """
        with needs_live(self, "what if").watchers.verb("what_if()"):
            return what_if.what_if(
                self,
                keep_apart=keep_apart,
                fuse=fuse,
                without_pass=without_pass,
                without_pattern=without_pattern,
                options=options or {},
                settings={} if settings is None else settings,
                limit=limit,
            )

    def advise(self, prove: bool = False, *, limit: float | None = None) -> Advice:
        """Say why the program is slow: one verdict per cause, the costliest first; no verdict if nothing is wrong.

        Each verdict has its user lines, its cost per call in seconds, whether the cost was measured or is estimated, the recorded
        evidence, what to do, and the `what_if` that proves it or why there is none. Causes that cost less than a twentieth of a
        call are left out. `Advice.unread` says why a program could not be judged: it came from a cache, for example, or another
        compiler compiled it. With `prove` each `what_if` is run: see `Verdict.proof`; for a GPU you don't have its
        result is checked unless that takes more than `limit` seconds, 20 by default. LiveError for a loaded trace with `prove`.
        """
        from explorer.tracing.traced.advice import advised

        return advised(self, prove=prove, limit=limit)

    def coverage(self, stage: str | None = None) -> Table:
        """One row per stage of a graph: its lines that compute, how many of them lead to a user line, and the others by kind.

        With `stage` there is one row per text of that stage; its `missing` lists the lines that lead to none, as (line, text).
        """
        return coverage.coverage(self, stage)

    # Failures ------------------------------------------------------------------------------------------------------

    def raise_for_failures(self) -> None:
        """Raise CompileError if the trace has a Failure: of the compile itself, or of a stage that could not be made."""
        if self.failures:
            cause = live.error if (live := live_of(self)) is not None else None
            raise CompileError("\n".join(map(str, self.failures))) from cause

    # Files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace as gzipped JSON, which `explorer.load` reads; `sources/files/trace_file.py` has the format.

        In a folder the file is trace.json.gz, or trace.rank0.json.gz … for a rank of a distributed job; `explorer.load` of the
        folder gives all ranks. A UserWarning says if several ranks would write to one path.
        """
        whole = path_in_folder(trace_file.checked(path), self._rank())
        if whole != Path(path):
            make_folder(whole.parent)
        trace_file.save(self, whole)
        warn_if_it_overwrites(whole)

    def _rank(self) -> int | None:
        """The rank that this is the trace of, as a cluster or else the environment says it; None for a single process."""
        of_cluster = (self.meta.get("world") or 1) > 1 and self.meta.get("rank") is not None
        return int(self.meta["rank"]) if of_cluster else rank(os.environ)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write one self-contained HTML file with every stage and link; it needs no network and no Python.

        As for `save`, ranks of a distributed job need a file each.
        """
        page.save(self, path)
        warn_if_it_overwrites(path)

    # What needs the process that made the trace ---------------------------------------------------------------------

    def check(self, limit: float | None = None, *, expected: Any = None) -> Table:
        """Compare eager and compiled on the trace's inputs: one row per output, gradient, or tensor that either changed.

        Floats are judged element by element. An element may be as far from eager's, or from that of the same function in float64,
        as rounding in the function's own operators moves it; `bound` says how far in words. Everything else must be the same:
        whole numbers, type, shape, strides except those of gradients, which PyTorch does not promise, and what an output is a
        view of. `compared` says what was compared, `note` what was not the same. The sign of zero is not judged; `note` counts
        the zeros whose signs differ. `equal` is None if nothing could be compared: a function that returns nothing and changes
        nothing has one such row, and so has one that was not compiled. `max_abs` and `max_rel` are the largest differences from
        eager, the relative one where eager is not 0. `error` and `eager_error` are the largest distances of both from float64,
        None if that was not needed or cannot be computed. Gradients are of the outputs' sum under fixed weights. A value that
        depends on random numbers is `random`: it is unequal if the values of several calls are distributed differently from
        eager's; else `equal` is None, and `note` says which difference would have been found. The arguments are the traced
        call's, as they were before it. They, the module and the random numbers are left as they are. The function is called
        several times, as it is and compiled, so a `print` in it prints as often.

        For a GPU you don't have, the generated wrappers run, and their kernels are interpreted on the CPU ("interpreted").
        InputError, before anything runs, if interpreting is estimated to take more than `limit` seconds, 120 by default.

        What a hand-written kernel writes is compared with `expected`: a tensor, several in the order of the arguments that it
        writes, or a mapping by their names. LiveError for a loaded trace.
        """
        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        live = needs_live(self, "checking")
        with live.watchers.verb("check()"):
            return with_precision(live.check(limit, expected), self)

    def bisect(self, limit: float | None = None, *, cause: bool = True) -> Bisection:
        """Find the first generated kernel or library call whose result is off, and what brings that about.

        Each launch is judged alone: explorer calls the eager subgraph that it computes with the inputs that the launch had, and
        judges what the launch wrote as `check` does. So neither an earlier fault nor rounding adds up. `first` names the launch,
        the outputs that are off, the kernel's lines and the program's; `table` has every judged value. If no launch is off but
        the whole result is, the fault is above the kernels.

        With `cause`, explorer traces again without some lowerings, passes, patterns or decompositions, by torch's own bisecting
        switches, until one is left: about ten compiles. Each launch's arguments are copied twice.
        `limit` is as in `check`. LiveError for a loaded trace, NoVerbError for a hand-written kernel.
        """
        from explorer.lab.bisecting.bisection import bisected

        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        live = needs_live(self, "bisecting")
        with live.watchers.verb("bisect()"):
            return bisected(self, live, limit, cause)

    def sanitize(self, limit: float | None = None) -> Sanitized:
        """Find what Triton kernels read or write where they must not, without a GPU: outside, unwritten, or racing.

        The traced call is interpreted once, on copies of its arguments, and each element that a kernel accesses is watched.
        Generated and hand-written kernels are looked at; library calls are not. An access is `outside` if it leaves the storage
        of its tensor. It is `uninitialized` if it reads memory that the wrapper allocated and nothing has written. Two programs
        race if both access an element and one writes it without an atomic: `write-write` or `read-write`, in whatever order the
        interpreter runs them. Races between the threads of one program are not looked at.

        The result says what was looked at and what was not, and is `clean` only if that is all. `limit` is as in `check`;
        watching takes four times as long. LiveError for a loaded trace, NoVerbError for kernels that are not interpreted.
        """
        from explorer.lab.live.sanitized import sanitized

        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        live = needs_live(self, "sanitizing")
        with live.watchers.verb("sanitize()"):
            return sanitized(self, live, limit)

    def drift(self, limit: float | None = None, *, cause: bool = True, repeats: int = 3) -> Drift:
        """Say by which line the results move away from float64, in eager mode and compiled, and what explains it.

        Explorer runs the program in eager mode, and computes each operator in float64 too, from float64 copies of inputs,
        parameters and buffers. Then it runs what was compiled, and compares each value that a kernel writes for an FX node with
        that node in float64. Your program, its state and its random numbers are left as they are. All float64 values are kept
        until the end, so it needs several times the memory of the program.

        With `cause`, it runs again with one thing switched, and lists what the error changes with: a line alone rounded, a
        setting of torch (for the whole process, while that run lasts), attention without a fused kernel,
        `emulate_precision_casts`, a decomposition left out.
        `Drift.questions` says whether `repeats` runs, and the first row of the batch alone, give the same bits. No cause is
        sought if two runs differ.

        For a GPU you don't have the kernels are interpreted, and library calls and eager run on the CPU. `limit` is as in
        `check`. LiveError for a loaded trace, NoVerbError for a hand-written kernel.
        """
        from explorer.lab.drifting.drift import drifted

        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        if not isinstance(repeats, int) or repeats < 2:
            raise InputError(f"repeats is a number of runs, 2 or more, not {repeats!r}")
        live = needs_live(self, "drift()")
        with live.watchers.verb("drift()"):
            return drifted(self, live, limit, cause, repeats)

    def benchmark(self, repeats: int = 30) -> Table:
        """Time eager and compiled in turn on copies of the arguments: the median seconds of each, and the ratio to eager.

        `spread_seconds` is the time between the first and the third quartile: the middle half of the calls is within it.

        LiveError for a loaded trace; NoVerbError for a GPU you don't have and for a hand-written kernel: neither is timed here.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of calls, not {repeats!r}")
        live = needs_live(self, "timing")
        with live.watchers.verb("benchmark()"):
            return live.benchmark(repeats)

    def to_script(self, path: str | PathLike[str], *, inputs: str = "auto", limit: float | None = None) -> Made:
        """Write Inductor's output code as one program of its own, for a bug report or for another machine.

        The program is one file, ready to attach to a report. For each compiled graph (forward, backward, those around a graph
        break) it has the output code exactly as Inductor wrote it, the graph that Inductor was given as Python, and the inputs
        of one call. It runs both, compares them, also with the graph in float64, times both, and exits with 1 if a result is
        wrong. With --compile it compiles each graph anew, by the torch that is there. It needs torch, triton and the device, but
        neither explorer nor your program: your module and the Python between the graphs are not in it.
        Inductor tunes its kernels anew where it would; a kernel's own `to_script` keeps its config.

        `inputs`, `limit` and a GPU you don't have are as in `Kernel.to_script`: real inputs, with the results, are saved beside
        the script. LiveError for a loaded trace; NoVerbError where no output code in Python was called.
        """
        from explorer.lab.scripts.write import trace_to_script

        live = needs_live(self, "a script")
        with live.watchers.verb("to_script()"):
            return trace_to_script(self, live, path, gpu=self.target, inputs=inputs, limit=limit)

    def _right_name(self, name: str) -> str:
        """Return what a name is called that the trace, or one of its parts, does not have; "" where nobody knows."""
        return ", ".join(places_of(name))

    def _guess(self, name: str) -> str:
        return guess("Trace", name, self._right_name(name))

    def _of_data(self, data: TraceData) -> Trace:
        """Make a trace of other data, such as a part of this one's, with what is live of this one."""
        return trace_of(data, self._live)

    # Showing -------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        from explorer.analysis.overview.text import described

        return described(self)

    def _repr_html_(self) -> str:
        return page.static_summary(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget in a notebook; nothing elsewhere, where IPython shows the repr."""
        if not in_notebook():
            return {}
        from explorer.view.widget import Explorer

        data, metadata = Explorer(self)._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self)}, metadata

    def __reduce__(self) -> tuple[Any, ...]:
        return loads, (trace_file.dumps(self),)


def trace_of(data: TraceData, live: MakesForms | None = None) -> Trace:
    """Make a trace of the same data, with what is live of it in this process."""
    if not is_deferred(data, "links"):
        return Trace(data.meta, data.artifacts, data.links, data.failures, live, _stages=data._stages)
    trace = Trace(data.meta, data.artifacts, (), data.failures, live, _stages=data._stages)
    defer(trace, lambda: {"links": data.links}, ("links",))
    return trace


def trace_of_later(
    meta: Mapping[str, Plain], make: Callable[[], TraceData], live: MakesForms | None = None, failures: Sequence[Failure] = ()
) -> Trace:
    """Make the trace of the data that `make` gives when its artifacts, links or failures are first read.

    Where `make` fails the trace has `failures`, those known before, and one that says so.
    """
    trace = Trace(meta, _live=live)

    def fields() -> dict[str, object]:
        try:
            data = make()
        except Exception as error:  # noqa: BLE001 the program ran, and has a trace that says so
            data = lost(error, meta, failures)
        return {"artifacts": data.artifacts, "links": data.links, "failures": data.failures, "_stages": data._stages}

    defer(trace, fields)
    return trace


def trace_of_events(
    events: Sequence[Event],
    failures: Sequence[Failure] = (),
    meta: Mapping[str, Plain] | None = None,
    stages: Sequence[Stage] = STAGES,
    live: Live | None = None,
) -> Trace:
    """Make the trace of recorded events: see `replay.replay`."""
    return trace_of(replay.replay(events, failures, meta, stages), live)


def load(path: str | PathLike[str], *, limit: float = trace_file.LIMIT, target: object = None) -> Trace:
    """Read a trace file, or a log of a job that ran: of `TORCH_TRACE`, `TORCH_COMPILE_DEBUG=1` or tritonparse.

    A log is a file, or a folder with one. The trace's `failures` name the parts of it that cannot be read or are not shown.
    Nothing in a log is run, except with `target`: then the log's Triton kernels are compiled again, down to SASS, for that GPU,
    which need not be here, and for that their definitions are run. Give `target` only for a log that you trust.

    FileError says what is wrong with a file: missing, truncated, altered, neither a trace nor a log, too new, too big. `limit`
    is the most memory in bytes that it may take; give more for a large file that you trust.
    """
    from explorer.tracing.traced.loaded import data_at

    return trace_of(data_at(path, limit=limit, target=target))


def loads(data: bytes) -> Trace:
    """Read the bytes of a trace file; FileError if they are not one."""
    return trace_of(trace_file.loads(data))
