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
from typing import TYPE_CHECKING, Any

from explorer.analysis.questions import compiles, coverage, missing, provenance, summary, tables
from explorer.analysis.questions import lowering as lowered
from explorer.analysis.questions.cache_misses import cache_misses
from explorer.analysis.questions.choices import recorded_forms
from explorer.analysis.questions.costs import call_table
from explorer.analysis.questions.diagram import diagram
from explorer.analysis.questions.editable import editable
from explorer.analysis.questions.fusion import Fusion, fusion_of
from explorer.analysis.questions.link_index import Index, index
from explorer.analysis.questions.lowering import Lowered
from explorer.analysis.questions.memory import Memory, memory_of
from explorer.analysis.questions.priced_collectives import overlap, priced_collectives
from explorer.analysis.questions.profile import line_times, node_times, profile_table
from explorer.analysis.questions.target import compiled_for
from explorer.capture.absent.target import attached_gpu
from explorer.capture.splice.variant import Variant
from explorer.errors import CompileError, InputError, LiveError
from explorer.lab.live.choice_texts import choice_texts
from explorer.lab.live.editing import TIMEOUT
from explorer.lab.live.forms import forms_of, without_form
from explorer.lab.live.protocol import Live
from explorer.model.deferred import defer, deferrable, is_deferred
from explorer.model.stage import Stage
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Failure, Force, Plain, Rows, Veto
from explorer.process.progress import in_notebook
from explorer.process.ranks import make_folder, path_in_folder, rank, warn_if_it_overwrites
from explorer.sources.files import trace_file
from explorer.stages import STAGES, replay
from explorer.tracing.traced import what_if
from explorer.tracing.traced.choice import Choice, find_choice
from explorer.tracing.traced.edits import Variants, edited_wrapper
from explorer.tracing.traced.kernel import Kernel, Kernels
from explorer.tracing.traced.what_if import WhatIf
from explorer.view import page

# What only one verb needs is imported by the verb: with pdb, the writers of scripts and the rest a first import took longer.
if TYPE_CHECKING:
    from explorer.analysis.advice.verdicts import Advice
    from explorer.analysis.timing.roofline import Roofline
    from explorer.lab.bisecting.bisection import Bisection
    from explorer.lab.scripts.kernel_script import Made
    from explorer.lab.stepping.session import Stepping
    from explorer.lab.stepping.symbolic import SymbolicSteps


def lost(error: Exception, meta: Mapping[str, Plain], failures: Sequence[Failure]) -> TraceData:
    """The data of a trace that could not be replayed: what went wrong before, and this error."""
    failure = Failure("record", "replay", f"{type(error).__name__}: {error}", fatal=True)
    return TraceData(meta, failures=(*failures, failure))


@deferrable("artifacts", "links", "failures", "stages")
@dataclass(frozen=True, repr=False)
class Trace(TraceData):
    """Every stage of one or more compiles, linked.

    `meta` says what was traced and with what; `artifacts` are the stages' texts in the compiler's order; `links`
    relate their lines; `failures` name everything that went wrong. `live` is None for a trace that was loaded or recorded.
    A new trace makes the others of what was recorded when one of them is first read.
    """

    live: Live | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(data: TraceData, live: Live | None = None) -> Trace:
        """Make a trace of the same data, with what is live of it in this process."""
        if not is_deferred(data, "links"):
            return Trace(data.meta, data.artifacts, data.links, data.failures, live, stages=data.stages)
        trace = Trace(data.meta, data.artifacts, (), data.failures, live, stages=data.stages)
        defer(trace, lambda: {"links": data.links}, ("links",))
        return trace

    @staticmethod
    def of_later(
        meta: Mapping[str, Plain], make: Callable[[], TraceData], live: Live | None = None, failures: Sequence[Failure] = ()
    ) -> Trace:
        """Make the trace of the data that `make` gives when its artifacts, links or failures are first read.

        Where `make` fails the trace has `failures`, those known before, and one that says so.
        """
        trace = Trace(meta, live=live)

        def fields() -> dict[str, object]:
            try:
                data = make()
            except Exception as error:  # noqa: BLE001 the program ran, and has a trace that says so
                data = lost(error, meta, failures)
            return {"artifacts": data.artifacts, "links": data.links, "failures": data.failures, "stages": data.stages}

        defer(trace, fields)
        return trace

    @staticmethod
    def of_events(
        events: Sequence[Event],
        failures: Sequence[Failure] = (),
        meta: Mapping[str, Plain] | None = None,
        stages: Sequence[Stage] = STAGES,
        live: Live | None = None,
    ) -> Trace:
        """Make the trace of recorded events: see `replay.replay`."""
        return Trace.of(replay.replay(events, failures, meta, stages), live)

    @property
    def gpu(self) -> object | None:
        """The figures of the GPU that the trace is for: the target's, or those that torch reads from the attached GPU.

        None for the CPU, and for a loaded trace.
        """
        if self.live is None:
            return None
        if self.live.absent is not None or not compiled_for(self).is_attached_gpu:
            return self.live.absent
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
        if not artifacts and stage in ("sass", "assembly") and any(stage in kernel.stages for kernel in self.kernels):
            raise InputError(f"{stage} is made for one kernel at a time, when it is asked for: t.kernels[0].text({stage!r})")
        if not artifacts:
            missing.explain_missing(self, stage)
            missing.explain_place(self, stage, frame, graph)
            raise self.no_text(stage)
        if len(artifacts) == 1:
            return artifacts[0].text
        return "\n\n".join(f"# ---- {a.title} [{a.id}]\n{a.text}" for a in artifacts)

    def only(self, *frames: str) -> Trace:
        """The trace of some of its compiles alone, as `t.only("3/0")`: to open, save or compare a part of a large recording.

        `t.frames` has the ids of all. Artifacts of no compile stay; live state, which is the whole function's, is dropped. A view
        opens the first compiles of a trace with more than a million lines, and names the others; `to_html` writes all.
        InputError for a compile that it does not have.
        """
        return Trace.of(compiles.only(self, frames))

    def no_text(self, stage: object) -> InputError:
        """Build the error for a stage without a text: why there is none, and how to get it."""
        return missing.no_text(self, stage, is_live=self.live is not None)

    @property
    def kernels(self) -> Kernels:
        """The generated kernels, in the order in which the output code defines them; `t.kernels.table()` compares them."""
        kernels = Kernels(Kernel(self, a) for a in self.artifacts if a.stage == "kernel")
        kernels.trace = self
        return kernels

    @property
    def library_calls(self) -> Rows:
        """One row per library call: operator, dtype of its operands, operations, bytes read and written, estimated seconds.

        `operations` are multiplications and additions, None if their number is unknown. The rest is as in `kernels.table()`.
        """
        return call_table(self)

    @property
    def collectives(self) -> Rows:
        """One row per collective, in the order they start: operator, group, ranks, bytes, the user's line, start and wait.

        `between` names the kernels and library calls between `started` and `waited`, lines of the output code. For a GPU you
        don't have, `seconds` are an estimate: a ring at the full rate of the GPU's interconnect. `seconds_known` is its source;
        `exposed` is the part that nothing hides.
        """
        return priced_collectives(self)

    @property
    def overlap(self) -> Rows:
        """One row per kernel, library call, collective and wait of each graph with collectives: when it begins, and its seconds.

        The GPU has one stream that computes and one per process group, each in the order of the output code. A wait holds the
        computing stream until its collective has ended; its seconds say how long. For a GPU you don't have, seconds are
        estimates, as in `collectives`, and None if unknown. Launches are assumed to cost nothing.
        """
        return overlap(self)

    # Tables --------------------------------------------------------------------------------------------------------

    def table(self, stage: str) -> Rows:
        """The table of any stage, each row with its frame; InputError for an unknown stage."""
        if not self.find(stage) and not any(each.name == stage for each in (*self.stages, *STAGES)):
            raise self.no_text(stage)
        return tables.table(self, stage)

    @property
    def functions(self) -> Rows:
        """One row per function that Dynamo compiled, resume functions included: name, frame, whether it ran."""
        return tables.functions(self)

    @property
    def guards(self) -> Rows:
        """One row per guard: frame, kind, the source that it guards, its expression, and where it comes from.

        `code`, `file` and `line` are of the user's program, `framework` is the line of torch that made the guard. `origin` puts
        it in words, also for one of torch's own, and for one `derived_from` others, each a (kind, source). `note` is torch's own.
        """
        return tables.table(self, "guards")

    @property
    def graph_breaks(self) -> Rows:
        """One row per graph break: the first frame it ended, reason, explanation, hints, the user's file and line, all frames.

        A break in a function ends each frame that calls it: `frames` has them all. A file that is a cell of a notebook has its
        name, "In[5]".
        """
        return tables.graph_breaks(self)

    @property
    def recompiles(self) -> Rows:
        """One row per failed guard: the frame compiled again, the earlier compile, and the guard in Dynamo's words."""
        return tables.table(self, "recompile")

    @property
    def symbols(self) -> Rows:
        """One row per dynamic size: symbol, source, range ("vr"), value at this call, and the user's line.

        An unbacked symbol, such as the size of what `nonzero` returns, has no value: "" in `val`.
        """
        return tables.symbols(self)

    @property
    def passes(self) -> Rows:
        """One row per FX pass that changed a graph: section, name, seconds, nodes made and erased, text before and after."""
        return tables.table(self, "fx_pass")

    @property
    def idle_passes(self) -> Rows:
        """One row per FX pass that ran and changed nothing, in a round that changed something: section, name, seconds."""
        return tables.idle_passes(self)

    @property
    def matches(self) -> Rows:
        """One row per pattern that matched: its name, the file and line that define it, the nodes matched, and those put in."""
        return tables.table(self, "pattern_match")

    @property
    def assumptions(self) -> Rows:
        """One row per decision that Inductor would take by timing on a GPU you don't have: frame, graph, where, assumed, why."""
        return tables.table(self, "assumption")

    @property
    def caches(self) -> Rows:
        """One row per lookup in a cache: the cache, its `state`, graph or kernel, key and reason.

        The state is "hit", "miss" or "bypass", and "unknown" for a kernel whose files are not where Triton's cache is now.
        For a graph that missed, `differs` says how the `nearest` key differs: an input's size, a setting, a line of the graph.
        Keys that the recording met before are compared, and the newest in Inductor's cache on disk.

        The caches are "AOTAutograd" and "FX graph", "Triton" and "autotune" (a kernel's binary and config), "choices" (the times
        of an operator's implementations), "standalone artifact" (`standalone_compile`, whose artifacts are "saved" too),
        "Dynamo sizes" and "Dynamo package", and with ", remote" those that several machines share. `not_seen` names the
        stages that did not run because of a hit, and whose texts the cache does not keep. `seconds_saved` is torch's own figure.
        """
        return tables.table(self, "cache")

    def cache_misses(self, earlier: Trace) -> Rows:
        """Say what missed the cache that another run filled: one row per graph that missed here.

        `differs` says how its key differs from the `nearest` key in `earlier`, the recording of that run; () if that run asked
        for the same key, or if its keys have no parts, as in older files. Both traces may be loaded from files.
        """
        return cache_misses(self, earlier)

    @property
    def compile_metrics(self) -> Rows:
        """One row per compile as torch counts it: frame, `of` ("forward", "backward", …), and torch's figures by their names.

        They are the fields of torch's CompilationMetrics that were filled in, such as graph_op_count, guard_count, cache_size,
        restart_reasons, dynamo_time_before_restart_s and inductor_compile_time_s; seconds end in _s, microseconds in _us.
        """
        return tables.table(self, "compilation_metrics")

    @property
    def settings(self) -> Rows:
        """One row per setting not at its default: frame, `of` (dynamo, inductor, functorch), name, value, default, set_by.

        `set_by` is "the program", "torch.compile" for what a mode, options or torch itself set for the compile, or "explorer".
        """
        return tables.table(self, "setting")

    @property
    def compile_calls(self) -> Rows:
        """One row per frame: file, line and code of the torch.compile call that compiled it, its backend and options.

        `called_file`, `called_line` and `called_code` name the program's line that called the compiled function. A torch.compile
        call from before the recording has no file. A file that is a cell of a notebook has its name, "In[5]".
        """
        return tables.table(self, "compile_call")

    @property
    def written_files(self) -> Rows:
        """One row per file that Inductor or triton wrote for a frame: frame, by, path, kind, bytes.

        Files that triton wrote in Inductor's worker processes are listed; files of explorer's own workers are not. `bytes` is
        None for a file that is gone.
        """
        return tables.table(self, "written_file")

    @property
    def cuda_graphs(self) -> Rows:
        """One row per decision on CUDA graphs, if they are asked for: frame, graph, what, decision, reason, the user's line.

        `decision` is "captured", "captured in parts" or "skipped", "not captured" for a node outside the parts, and "skipped
        when called" if it depends on the tensors of a call.
        """
        return tables.table(self, "cuda_graph")

    @property
    def perf_hints(self) -> Rows:
        """One row per performance hint of Inductor's: frame, graph, hint, the FX nodes that it concerns, the user's line."""
        return tables.table(self, "perf_hint")

    @property
    def choices(self) -> Rows:
        """One row per implementation of an operator that Inductor chose among: its config, its `ms`, whether it was the fastest.

        `ms` is None if nothing was timed, as for a GPU you don't have, or if the choice failed. `taken` marks the one that the
        output code uses; it need not be the `fastest` if something is fused into it. `why` gives the reason. `grid` is the
        launch grid of a template. A product that may be padded has the choices "as it is" and "padded". For the configs of a
        fused kernel see `Kernel.candidates`. `choice(n)` gives the one of row n, with its ladder.
        """
        return tables.table(self, "autotune")

    def choice(self, which: int | str) -> Choice:
        """One of `choices`, by its row's number or its name: its config, and on request its source and its ladder.

        InputError for an unknown row or name, and for a name that choices of several operations have.
        """
        return find_choice(self, which)

    @property
    def decompositions(self) -> Rows:
        """One row per operator that was decomposed in a graph: the operator, the nodes that it became, and the decomposition.

        `site` is "file:line function" of the Python decomposition, "" for operators that ATen itself decomposes.
        """
        return tables.decompositions(self)

    @property
    def timings(self) -> Rows:
        """One row per phase that the compiler timed: name, function, graph, start and seconds, nesting depth."""
        return tables.table(self, "phase")

    @property
    def memory(self) -> Memory:
        """The memory of each compiled graph: `memory.table()`, `.peak()`, `.timeline()` and `.saved()`."""
        return memory_of(self)

    def code_flow(self) -> Rows:
        """One row per stage: the function of PyTorch or triton that made it, its file and line, and the calls that led there.

        `calls` runs from torch.compile inwards, each "file:line function"; `seconds` is the stage's own time.
        """
        return tables.code_flow(self)

    def summary(self) -> Any:
        """A DataFrame with one row per stage of a graph: stage, graph, lines, seconds, changes, failures.

        Failures of a stage without a text, such as the compile itself, have rows of their own at the end.
        """
        return Rows([*summary.summary_rows(self), *summary.failure_rows(self)]).frame

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

    def follow(self, artifact_id: str | Artifact, line: int) -> Rows:
        """Every line of every other artifact that is linked to this line, over any number of links, and how that is known.

        The columns: artifact, stage, lines, `route`, which lists the kinds of links that lead there, and `coarse`. That is True
        if one of the links leads only to the line of a call, such as a scan, flex attention or torch.func.grad: no text says
        which line inside it is meant. Lines count from 1. The artifact is given by its id, or itself.
        """
        artifact = self.artifact(artifact_id)
        if type(line) is not int or not 1 <= line <= max(1, len(artifact.lines)):
            raise InputError(f"{artifact.id!r} has lines 1 to {len(artifact.lines)}, not {line!r}")
        return provenance.follow(self, artifact.id, line)

    def with_sass(self) -> Trace:
        """Return this trace with the SASS of every NVIDIA kernel, which `follow` then includes (0.6 s per kernel).

        InputError if no kernel has PTX. LiveError if the trace does not hold the SASS and this process cannot make it.
        """
        have_ptx = {(a.frame, a.graph, a.kernel) for a in self.find("ptx")}
        if not have_ptx:
            raise self.no_text("sass")
        return self._with_forms("SASS", "sass", [a for a in self.find("kernel") if (a.frame, a.graph, a.kernel) in have_ptx])

    def with_assembly(self) -> Trace:
        """Return this trace with every C++ kernel's assembly, which `follow` and `coverage` then include (2 to 10 s per kernel).

        InputError if no kernel is C++. LiveError if the trace does not hold the assembly and this process cannot make it.
        """
        kernels = [a for a in self.find("kernel") if a.language == "cpp"]
        if not kernels:
            raise self.no_text("assembly")
        return self._with_forms("the assembly", "assembly", kernels)

    def _with_forms(self, what: str, stage: str, kernels: Sequence[Artifact]) -> Trace:
        """Return this trace with the texts of these kernels in `stage`; those that it does not hold are made."""
        lacking = without_form(self, kernels, stage)
        if not lacking:
            return self
        missing.explain_missing(self, stage)
        live = self.needs_live(what)
        with live.watchers.verb(f"with_{stage}()"):
            return replay.extended(self, forms_of(self, live, lacking, stage))

    def with_choice(self, which: int | str, *stages: str) -> Trace:
        """Return this trace with the texts of one of `choices`, which are then saved and shown with it.

        `which` is as in `choice`. `stages` are those that `Choice.text` takes, such as "ttgir"; without any it is the source
        alone. The source is always among them. InputError for a choice or a stage that has no such text, CompileError where the
        choice does not compile. LiveError if the trace does not hold a text and this process cannot make it.
        """
        choice = self.choice(which)
        held = recorded_forms(self, choice.row)
        if choice.row["source"] and {"kernel", *stages} <= held.keys():
            return self
        choice.check_stages(stages)
        live = self.needs_live("the texts of a choice")
        with live.watchers.verb("with_choice()"):
            return replay.extended(self, choice_texts(self, live, choice.row, stages))

    # Time ----------------------------------------------------------------------------------------------------------

    def with_profile(self, source: Any) -> Trace:
        """Return this trace with the times of a profile, in place of estimates: in its tables, its graphs and its view.

        `source` is a `torch.profiler.profile` that is over, or the path of a Chrome trace that it exported, or of Proton's
        `.hatchet` file; or the rows of `time_kernels`. A profile may come from another process, or from the GPU that you don't
        have, if it ran the same code. Kernels are joined by name, library calls by the operator around them and their order;
        `profile` lists both, and what could not be joined. The times of C++ kernels are in a profile only if they were compiled
        with options={"cpp.enable_kernel_profile": True}. InputError if the source is not a profile, or has no kernel of this
        trace; FileError for a file that cannot be read.
        """
        from explorer.analysis.timing.profile import profiled

        return profiled(self, source)

    @property
    def profile(self) -> Rows:
        """One row per kernel, library call or other event of the profile: seconds of all launches; all rows make up its time.

        `kind` is "kernel", "library call" or "not joined", and `why` says why. `kernel` is the kernel, the scheduler's node of a
        call, or the profile's own name for what was not joined; `events` are the profile's own names. `idle` are the seconds
        that the device waited before these launches. There are no rows without `with_profile`.
        """
        return profile_table(self)

    def node_times(self) -> Rows:
        """One row per FX node that a profile has a time for, in seconds of one run; the longest first.

        The time of a kernel is shared evenly among the nodes that it computes; `whole` is all of its kernels' time. There
        are no rows without `with_profile`.
        """
        return node_times(self)

    def line_times(self) -> Rows:
        """One row per line of the program, with its part of the measured time in seconds of one run; the longest first.

        A kernel's time is shared evenly among the FX nodes that it computes, and a node's goes to the innermost line that called
        it. The time of a node that a pass made is shared evenly among the lines that its links lead to. The rows add up to the
        time of all kernels and library calls. `whole` is the full time of every kernel that computes part of this line. Time
        without a line has a row without a file. There are no rows without `with_profile`.
        """
        return line_times(self)

    # Fusion --------------------------------------------------------------------------------------------------------

    @property
    def fusion(self) -> Fusion:
        """The scheduler's fusions and refusals: `fusion.groups()`, `.table()`, `.why("op3", "op7")`, see `fusion.py`."""
        return fusion_of(self)

    @property
    def lowerings(self) -> Rows:
        """One row per FX node that computes, fetches or views something: how Inductor lowered it, and the kernel it ended in.

        `kind` is "pointwise", "reduction", "scan", "sort", "scatter", "template", "extern call", "fallback", "view" and the
        like, `kinds` all that the node became. `function` and `lowered_at` are Inductor's, `file`, `line` and `code` the user's.
        `why` says why an operator is called, by the conditions that Inductor tested, or why its result is in memory.
        `realized` is None for a node that computes nothing. `kernels` and `calls` compute the node, together `with` these nodes.
        """
        return lowered.lowerings(self)

    def lowering(self, name: str, graph: str | None = None, frame: str | None = None) -> Lowered:
        """Say in sentences how an FX node was lowered, with Inductor's decisions on its loops.

        `name` may also be an operator ("cumsum", "aten.cumsum.default"), a buffer, or a kernel, for all nodes that ended in it.
        InputError, with the nearest names, for a name that no graph has.
        """
        return lowered.lowering(self, name, graph, frame)

    def what_if(
        self,
        *,
        fusion: Veto | Force | Sequence[Veto | Force] | None = None,
        without_pass: str | Sequence[str] = (),
        without_pattern: str | Sequence[str] = (),
        options: Mapping[str, Plain] | None = None,
        settings: Mapping[str, Plain] | None = None,
        limit: float | None = None,
    ) -> WhatIf:
        """Trace the same call with something changed, and compare: kernels, launches, bytes, seconds, and the result.

        `fusion` takes `Veto` and `Force`, which replace this trace's requests; `()` removes them. A kernel may name its node.
        `without_pass` and `without_pattern` take names or wildcards ("_sfdp_*") of `passes` and `matches`, also names that only
        come up once something else is left out. `options` takes any option of Inductor's, `settings` any setting of torch's by
        its full name, such as "torch.backends.cuda.matmul.allow_tf32": it holds while the second trace is made, checked
        and timed.
        For a GPU you don't have the result is checked as `check` does, unless that takes more than `limit` seconds.
        LiveError for a loaded trace, NoVerbError for a hand-written kernel; InputError for names that this trace does not have.
        """
        with self.needs_live("what if").watchers.verb("what_if()"):
            return what_if.what_if(
                self,
                fusion=fusion,
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

    def follow_module(self, path: str) -> Rows:
        """Every line that is linked to what an nn.Module such as "h.0.attn" computes, the modules inside it included.

        InputError, with the nearest paths, if no node is of that module.
        """
        return provenance.follow_module(self, path)

    def coverage(self, stage: str | None = None) -> Rows:
        """One row per stage of a graph: its lines that compute, how many of them lead to a user line, and the others by kind.

        With `stage` there is one row per text of that stage; its `missing` lists the lines that lead to none, as (line, text).
        """
        return coverage.coverage(self, stage)

    @property
    def index(self) -> Index:
        """The links by place, made when first asked for; they are no part of the value."""
        return index(self)

    # Failures ------------------------------------------------------------------------------------------------------

    def raise_for_failures(self) -> None:
        """Raise CompileError if the trace has a Failure: of the compile itself, or of a stage that could not be made."""
        if self.failures:
            cause = self.live.error if self.live is not None else None
            raise CompileError("\n".join(map(str, self.failures))) from cause

    def roofline(self) -> Roofline:
        """Place each kernel and library call by operations a byte and operations a second, below the peaks of its device.

        Times come from `with_profile`, or are estimates; each row says which. The peaks are measured now on the attached GPU or
        on this CPU (about 2 s): a copy for the memory, a product for each dtype. They stand beside the GPU's figures, which are
        the only ones for an absent GPU or a loaded trace. A notebook shows the picture; `.table()` and `.peaks()` have the
        numbers.
        """
        from explorer.analysis.timing.roofline import roofline_of
        from explorer.lab.live.peaks import attained_peaks, device_title

        live = self.live
        if live is None or live.absent is not None:
            return roofline_of(self)
        device = "cuda" if compiled_for(self).is_attached_gpu else "cpu"
        with live.watchers.verb("roofline()"):
            return roofline_of(self, attained_peaks(device), device_title(device))

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Write the compile's phases and passes, and one run's kernels and library calls, as a trace for ui.perfetto.dev.

        It is Chrome's trace format, gzipped where the path ends in ".gz". Each frame's phases have a track, and so have its
        passes; each graph has one with its launches in order, one after the other, each with its user lines, operators and bytes.
        A launch is as long as measured or estimated, and says which; a launch without a time is an instant.
        """
        from explorer.analysis.timing import perfetto

        perfetto.save(self, path)
        warn_if_it_overwrites(path)

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

    # Live ----------------------------------------------------------------------------------------------------------

    def needs_live(self, what: str) -> Live:
        """Return `live`; LiveError, which says what was asked and what to do, where the trace has none."""
        if self.live is None:
            raise LiveError(
                f"{what} needs the process that made this trace; call explorer.trace again to have it "
                "(a trace that was loaded, or recorded by explorer.record, has texts only)"
            )
        return self.live

    @property
    def result(self) -> Any:
        """What the traced call returned; LiveError for a loaded trace, CompileError where the compile failed.

        NoVerbError for a hand-written kernel, which `trace_kernel` does not run.
        """
        return self.needs_live("the result").result

    @property
    def gradients(self) -> Mapping[str, Any]:
        """With train=True, the gradient of the summed outputs for each input and parameter by name.

        LiveError for a loaded trace; NoVerbError without train=True, and for a hand-written kernel.
        """
        return self.needs_live("gradients").gradients

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function again, on copies of the arguments given here, or else of those of the trace.

        For a GPU you don't have, Dynamo's graphs run on the CPU; `check` runs what was generated. A hand-written kernel runs on
        copies of its arguments, interpreted if these are on the CPU; it returns the tensors that it wrote, by the names of its
        arguments. LiveError for a loaded trace, CompileError if the compile failed.
        """
        live = self.needs_live("running")
        with live.watchers.verb("run()"):
            return live.run(*args, **kwargs)

    def check(self, limit: float | None = None, *, expected: Any = None) -> Rows:
        """Compare eager and compiled on the trace's inputs: one row per output, gradient, or tensor that either changed.

        Floats are judged element by element. An element may be as far from eager's, or from that of the same function in float64,
        as rounding in the function's own operators moves it; `bound` says how far in words. Everything else must be the same:
        whole numbers, type, shape, strides, and what an output is a view of. `compared` says what was compared, `note` what was
        not the same. The sign of zero is not judged; `note` counts the zeros whose signs differ. `equal` is None if nothing could
        be compared: a function that returns nothing and changes nothing has one such row, and so has one that was not compiled.
        `max_abs` and `max_rel` are the largest differences from eager, `error` and `eager_error` the largest distances of both
        from float64, None if that was not needed or cannot be computed. Gradients are of the outputs' sum under fixed weights. A
        value that depends on random numbers is `random`: it is unequal if the values of several calls are distributed differently
        from eager's; else `equal` is None, and `note` says which difference would have been found. The arguments are the traced
        call's, as they were before it. They, the module and the random numbers are left as they are.

        For a GPU you don't have, the generated wrappers run, and their kernels are interpreted on the CPU ("interpreted").
        InputError, before anything runs, if interpreting is estimated to take more than `limit` seconds, 120 by default.

        What a hand-written kernel writes is compared with `expected`: a tensor, several in the order of the arguments that it
        writes, or a mapping by their names. LiveError for a loaded trace.
        """
        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        live = self.needs_live("checking")
        with live.watchers.verb("check()"):
            return live.check(limit, expected)

    def bisect(self, limit: float | None = None, *, cause: bool = True) -> Bisection:
        """Find the first generated kernel or library call whose result is off, and what brings that about.

        Each launch is judged alone: explorer calls the eager subgraph that it computes with the inputs that the launch had, and
        judges what the launch wrote as `check` does. So neither an earlier fault nor rounding adds up. `first` names the launch,
        the outputs that are off, the kernel's lines and the program's; `rows` has every judged value. If no launch is off but the
        whole result is, the fault is above the kernels.

        With `cause`, explorer traces again without some lowerings, passes, patterns or decompositions, by torch's own bisecting
        switches, until one is left: about ten compiles. Each launch's arguments are copied twice.
        `limit` is as in `check`. LiveError for a loaded trace, NoVerbError for a hand-written kernel.
        """
        from explorer.lab.bisecting.bisection import bisected

        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        live = self.needs_live("bisecting")
        with live.watchers.verb("bisect()"):
            return bisected(self, live, limit, cause)

    def with_bisection(self, result: Bisection) -> Trace:
        """Return this trace with the result of `bisect`: view, page and file mark each value as off, right or not compared.

        The marks are words with a sign, on the kernels and the nodes of the graphs; a legend counts them. The stage "bisection"
        lists every judged value. InputError for a bisection of another trace.
        """
        from explorer.lab.bisecting.marks import painted

        return painted(self, result)

    def benchmark(self, repeats: int = 30) -> Rows:
        """Time eager and compiled in turn on copies of the arguments: the median seconds of each, and the ratio to eager.

        `spread_seconds` is the time between the first and the third quartile: the middle half of the calls is within it.

        LiveError for a loaded trace; NoVerbError for a GPU you don't have and for a hand-written kernel: neither is timed here.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of calls, not {repeats!r}")
        live = self.needs_live("timing")
        with live.watchers.verb("benchmark()"):
            return live.benchmark(repeats)

    def time_kernels(self, repeats: int = 30) -> Rows:
        """Time each kernel and library call while the compiled function runs: the median seconds of one run, over all launches.

        `low` and `high` are the quartiles of the runs. On a GPU, explorer overwrites L2, then times each launch with device
        events; on the CPU it reads the clock around each call, and `idle` is the time since the call before. Calls of `torch.ops`
        are not timed. `with_profile` takes the rows. LiveError for a loaded trace; NoVerbError for a GPU you don't
        have, for a hand-written kernel, and where no launch is made from Python, as in a CUDA graph.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of runs, not {repeats!r}")
        live = self.needs_live("timing")
        with live.watchers.verb("time_kernels()"):
            return live.time_kernels(self, repeats)

    # Edits ---------------------------------------------------------------------------------------------------------

    def edit(
        self,
        *,
        wrapper: str,
        frame: str | None = None,
        graph: str | None = None,
        timeout: float = TIMEOUT,
        check: bool = True,
    ) -> Variant:
        """Replace a graph's output code: Inductor's wrapper, the whole text of its module.

        The text is tried as `Kernel.edit` tries one: explorer calls it in a separate process, for `timeout` seconds at most, then
        checks the whole function with it as `check` does, and times it beside the original. Kernels that the text defines as the
        original does are reused; all others are compiled. Only a correct edit stays in place, until `reset`; edits of the
        wrapper's single kernels are undone then. `frame` and `graph` ("backward") say which of several. For a GPU you don't
        have the text is interpreted, and its other kernels are compiled down to machine code; nothing is timed.

        LiveError for a loaded trace. InputError if the edit is not a text, or if several graphs could be meant. NoVerbError if
        the wrapper is in C++ or replayed by CUDA graphs.
        """
        live = self.needs_live("an edit")
        return edited_wrapper(self, live, wrapper, (frame, graph), timeout=timeout, check=check)

    @property
    def variants(self) -> Variants:
        """All edits: of output code, then of each kernel; `table()` has a row for each. LiveError for a loaded trace."""
        live = self.needs_live("the edits")
        return Variants(variant for each in editable(self) for variant in live.variants(each.artifact))

    @property
    def edited(self) -> Variants:
        """The edits that replace output code and kernels now; none after `reset`. LiveError for a loaded trace."""
        live = self.needs_live("the edits")
        standing = [live.standing(each.artifact, each.file) for each in editable(self)]
        return Variants(variant for variant in standing if variant is not None)

    def reset(self) -> bool:
        """Restore all original output code and kernels; False if they are in place. LiveError for a loaded trace."""
        live = self.needs_live("an edit")
        was_edited = [live.reset(each.artifact, each.file) for each in editable(self)]
        return any(was_edited)

    # Stepping ------------------------------------------------------------------------------------------------------

    def stepping(self, stage: str = "graph", *, frame: str | None = None, graph: str | None = None) -> Stepping:
        """Compile the call once more, with the code of one stage in real files that run, for the debugger of your choice.

        `stage` is "graph" (Dynamo's), "dynamo_bytecode", "decompiled" (what depyf writes, where it does the same), "forward",
        "inductor_input", "backward", "post_grad", or "wrapper" (Inductor's output code). Open a file of `.files` in VS Code, or
        in JupyterLab's debugger under "Kernel Sources" as "explorer_steps.…", set a breakpoint, and call `.run()`; or import pdb
        and `break FILE:LINE`. The files have the same lines as the text in the view. LiveError for a loaded trace, InputError for
        a stage without code, CompileError where it cannot run from a file.
        """
        from explorer.lab.stepping import session

        live = self.needs_live("stepping")
        with live.watchers.verb("stepping()"):
            return session.stepping(self, live, stage, frame, graph)

    def debug(
        self,
        stage: str = "graph",
        breakpoint: int | Sequence[int] | None = None,
        *,
        frame: str | None = None,
        graph: str | None = None,
        commands: Sequence[str] | None = None,
    ) -> Any:
        """Run the function under pdb, with the code of one stage from real files: see `stepping` and `Stepping.debug`.

        `breakpoint` is a line of the stage's text, or several; without it pdb stops where the code begins. `commands` are given
        to pdb in place of a prompt, such as ["p x.shape", "continue"]. Return what the function returned; None after "quit".
        """
        with self.stepping(stage, frame=frame, graph=graph) as files:
            return files.debug(breakpoint, commands)

    def values(self, stage: str = "graph", *, frame: str | None = None, graph: str | None = None) -> Rows:
        """Run the graphs of a stage node by node, and return one row per node: its line, its result, and a small picture.

        `stage` is "graph" (Dynamo's), "forward", "inductor_input", "backward" or "post_grad". Of a tensor there are shape, dtype
        and strides; `min`, `max` and `mean` are over its finite elements; `nan` and `inf` count the others. The picture has the
        last two dimensions: red above zero, blue below. `call` counts the calls of a graph that is called several times. The call
        is compiled once more. LiveError for a loaded trace, InputError for a stage that the trace has no graph of.
        """
        from explorer.lab.stepping import session

        live = self.needs_live("the values of nodes")
        with live.watchers.verb("values()"):
            return session.node_values(self, live, stage, frame, graph)

    def launch_values(self, *, most: int | None = None, limit: float | None = None) -> Rows:
        """Run what was compiled, and give the arguments of each launch of a kernel and each library call, in order.

        There is one row for each argument as it was `before` the launch, and one for each that was written as it was "after":
        shape, dtype, strides, `min`, `max` and `mean` of its finite elements, and how many are NaN or infinite. `argument` is the
        kernel's name for it, `variable` what the wrapper gives on `line`; `value` is a number's. `launch` counts all launches
        from 1, as `bisect` does. `run` counts one kernel's launches from 0, as `to_script(launch=…)` does. `most` is the most
        launches of each kernel. The kernels run on copies of the traced arguments; for a GPU you don't have they are interpreted,
        and `limit` is as in `check`. LiveError for a loaded trace; NoVerbError for a hand-written kernel, and where no launch is
        made from Python, as in a CUDA graph.
        """
        from explorer.lab.stepping.launch_values import launch_values

        live = self.needs_live("the arguments of launches")
        with live.watchers.verb("launch_values()"):
            return launch_values(self, live, None, most, limit)

    def symbolic_steps(self) -> SymbolicSteps:
        """Trace the call once more, and give one row per step of Dynamo's symbolic execution; `.text` writes them out.

        A step is an instruction of the user's bytecode: `offset`, `opname` and `argument`, with the user's `file` and `line`, and
        the symbolic `stack` and `locals` after it; `changed` names the locals that it changed. `nodes` and `guards` are those
        that it added itself; `depth` counts inlined calls, whose steps follow the step of the call. If Dynamo starts again, as
        for a graph break, `attempt` counts on; the graph comes from the `last_attempt`. `raised` is what ended a step. LiveError
        for a loaded trace, CompileError where the call cannot be compiled again.
        """
        from explorer.lab.stepping import symbolic

        live = self.needs_live("symbolic steps")
        with live.watchers.verb("symbolic_steps()"):
            return symbolic.symbolic_steps(live)

    def with_symbolic_steps(self) -> Trace:
        """Return this trace with Dynamo's symbolic execution, step by step, as a stage that is shown, linked and saved.

        The stage "symbolic_steps" has one text per frame, see `symbolic_steps`: each step is linked to its line of the source and
        of the bytecode, and to the nodes of Dynamo's graph and the guards that it added. The call is traced once more.
        LiveError for a loaded trace, CompileError where the call cannot be compiled again.
        """
        from explorer.lab.stepping import symbolic

        live = self.needs_live("symbolic steps")
        with live.watchers.verb("with_symbolic_steps()"):
            return symbolic.with_symbolic_steps(self, live)

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

        live = self.needs_live("a script")
        with live.watchers.verb("to_script()"):
            return trace_to_script(self, live, path, gpu=self.gpu, inputs=inputs, limit=limit)

    # Showing -------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return summary.described(self)

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


def load(path: str | PathLike[str], *, limit: float = trace_file.LIMIT, target: object = None) -> Trace:
    """Read a trace file, or a log of a job that ran: of `TORCH_TRACE`, `TORCH_COMPILE_DEBUG=1` or tritonparse.

    A log is a file, or a folder with one. The trace's `failures` name the parts of it that cannot be read or are not shown.
    Nothing in a log is run, except with `target`: then the log's Triton kernels are compiled again, down to SASS, for that GPU,
    which need not be here, and for that their definitions are run. Give `target` only for a log that you trust.

    FileError says what is wrong with a file: missing, truncated, altered, neither a trace nor a log, too new, too big. `limit`
    is the most memory in bytes that it may take; give more for a large file that you trust.
    """
    from explorer.tracing.traced.loaded import data_at

    return Trace.of(data_at(path, limit=limit, target=target))


def loads(data: bytes) -> Trace:
    """Read the bytes of a trace file; FileError if they are not one."""
    return Trace.of(trace_file.loads(data))
