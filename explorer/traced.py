"""Trace: what one recording gives, as one frozen plain value, and the verbs on it.

Two traces are equal when they say the same; `live`, the process that made one, is no part of the value. Each verb
returns a new thing and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from explorer.errors import CompileError, InputError, LiveError, unknown_name
from explorer.model.values import EMPTY, Artifact, Failure, Link, Plain, Rows

if TYPE_CHECKING:
    from explorer.model.values import Force, Veto
    from explorer.questions.choices import Choice
    from explorer.questions.fusion import Fusion
    from explorer.questions.memory import Memory
    from explorer.questions.provenance import Index
    from explorer.questions.what_if import WhatIf

T = TypeVar("T")
_OPERATORS = re.compile(r"Original ATen: \[([^\]]*)\]")


@dataclass(frozen=True)
class Kernel:
    """One generated kernel: its name, its language ("triton" or "cpp") and its source.

    `text(stage)` gives the kernel's text in any stage, "kernel" being its source.
    """

    trace: Trace = field(repr=False)
    artifact: Artifact = field(repr=False)

    @property
    def name(self) -> str:
        """The kernel's name in the output code."""
        return self.artifact.kernel

    @property
    def language(self) -> str:
        """ "triton", "cpp", or what else async_compile was given."""
        return self.artifact.language

    @property
    def source(self) -> str:
        """The kernel's source."""
        return self.artifact.text

    def text(self, stage: str = "kernel") -> str:
        """The kernel's text in `stage`: "kernel" its source, "ttir" … "sass" its ladder, "assembly" that of a C++ kernel.

        Assembly and SASS are made on demand where the trace does not hold them; LiveError where this process cannot.
        CompileError, with the reason, for a stage that could not be made.
        """
        for artifact in self._forms():
            if artifact.stage == stage:
                return artifact.text
        if stage == "assembly":
            return str(self.trace.needs_live("the assembly").assembly(self.artifact).text)
        if stage == "sass" and any(a.stage == "ptx" for a in self._forms()):
            self.trace.explain_missing(stage)
            return str(self.trace.needs_live("SASS").sass(self.artifact))
        self.trace.explain_missing(stage)
        from explorer.questions.missing import no_form

        raise no_form(self.name, self.language, stage, self.stages)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that `text` takes, from the source down; SASS and a C++ kernel's assembly are made when asked for."""
        held = [a.stage for a in self._forms()]
        made = {"ptx": "sass", "cpp": "assembly"}
        asked = [made[k] for k in (*held, self.language) if k in made and self.trace.live is not None]
        never = {f.stage for f in self.trace.failures if f.step == "triton"}
        return tuple(dict.fromkeys((*held, *(stage for stage in asked if stage not in never))))

    @property
    def mix(self) -> Mapping[str, int]:
        """How many instructions of each class the machine code has, the most frequent first; {} without machine code.

        SASS is made for it where the trace does not hold it (0.3 s); LiveError where this process cannot.
        """
        from explorer.stages.triton.instruction_mix import amdgcn_mix, sass_mix

        if "amdgcn" in self.stages:
            return amdgcn_mix(self.text("amdgcn"))
        return sass_mix(self.text("sass")) if {"ptx", "sass"} & set(self.stages) else {}

    @property
    def resources(self) -> Mapping[str, Plain]:
        """What a compiled Triton kernel takes of its GPU; {} where the kernel was not compiled.

        num_warps, registers (a thread), shared (bytes a block), stack, spill_stores and spill_loads (bytes a thread),
        occupancy with what limits it, and where machine code is at hand its `mix`.
        """
        found = [a for a in self._forms() if "metadata" in a.data]
        mixes = [a.data["mix"] for a in found if "mix" in a.data]
        return {**found[0].data["metadata"], **({"mix": mixes[0]} if mixes else {})} if found else {}

    @property
    def operators(self) -> tuple[str, ...]:
        """The ATen operators that the kernel computes, by Inductor's comment in the output code; () where it has none."""
        found = _OPERATORS.search(str(self.artifact.data.get("comment", "")))
        return tuple(name.strip() for name in found[1].split(",") if name.strip()) if found else ()

    @property
    def launches(self) -> Rows:
        """One row a launch in the wrapper: its line there, its arguments by the kernel's names, and its grid.

        `inputs` says of those that come from the program what it calls them: "h.0.attn.weight" for a parameter.
        """
        from explorer.stages.fx_graph import input_names

        found = next((a.data["launches"] for a in self._forms() if "launches" in a.data), ())
        names = input_names(self.trace, self.artifact.frame, self.artifact.graph)
        return Rows(
            {**row, "inputs": {key: names[value] for key, value in row["arguments"].items() if value in names}} for row in found
        )

    @property
    def candidates(self) -> Rows:
        """One row a config that Inductor or triton would try on the device; `taken` marks the one that was compiled.

        On an attached device each has its measured time `ms`, None where it was not timed or could not run, and configs
        that came up only while measuring are there too. `text("ttgir")` … are those of the taken one, `resources` too.
        """
        found = next((a.data for a in self._forms() if "candidates" in a.data), None)
        if found is None:
            return Rows()
        measured, tried = found.get("measured", ()), [dict(c) for c in found["candidates"]]
        times = [({k: v for k, v in row.items() if k != "ms"}, row["ms"]) for row in measured]
        tried += [config for config, _ in times if config not in tried]
        tried += [dict(found["config"])] * (found["config"] not in tried)
        shown = [{**c, **({"ms": next((ms for t, ms in times if t == c), None)} if measured else {})} for c in tried]
        return Rows({**row, "taken": c == found["config"]} for row, c in zip(shown, tried, strict=True))

    @property
    def binary(self) -> bytes:
        """The cubin, hsaco or SPIR-V of a compiled Triton kernel; LiveError for a loaded trace, which holds texts only."""
        return bytes(self.trace.needs_live("the binary").binary(self.artifact))

    def candidate(self, config: int | Mapping[str, Plain]) -> Any:
        """This kernel compiled with another candidate, by number or by values: a `Ladder` with its texts and metadata.

        Needs the live process; InputError for a config that the kernel does not have.
        """
        return self.trace.needs_live("compiling another candidate").candidate(self.artifact, config)

    def _forms(self) -> Iterator[Artifact]:
        """The artifacts of this kernel in every stage."""
        mine = self.artifact
        for a in self.trace.artifacts:
            if (a.kernel, a.frame, a.graph) == (mine.kernel, mine.frame, mine.graph):
                yield a

    def passes(self) -> Rows:
        """One row a pass of MLIR that this Triton kernel went through: stage, name, whether it changed anything, before, after.

        Runs in a process of its own, so that a crash of MLIR or LLVM harms nothing: the rows end with the pass that
        crashed, whose `error` says how. LiveError for a loaded trace.
        """
        rows: Rows = self.trace.needs_live("passes").passes(self.artifact)
        return rows

    def __repr__(self) -> str:
        registers = self.resources.get("registers")
        facts = [f"{len(self.artifact.lines)} lines of {self.language}", *([f"{registers} registers"] if registers else [])]
        return f"<Kernel {self.name}: {', '.join(facts)}; text of {', '.join(self.stages)}>"

    def _repr_html_(self) -> str:
        return self.artifact._repr_html_()


class Kernels(tuple[Kernel, ...]):
    """The generated kernels of a trace, in the order in which the output code defines them; `table()` compares them."""

    #: Where they are from; it says why there is none.
    trace: Trace | None = None

    def __getitem__(self, index: Any) -> Any:
        """The kernel of that number, or several by a slice; NoKernelError, which says why, where there is no such kernel."""
        if isinstance(index, slice):
            return super().__getitem__(index)
        if not isinstance(index, int) or not -len(self) <= index < len(self):
            from explorer.questions.missing import no_kernel

            raise no_kernel(self.trace, index)
        return super().__getitem__(index)

    def table(self) -> Rows:
        """One row a kernel: operators, launches, grid, registers, shared, spills, bytes read and written, operations, seconds.

        `registers` and `spills` (bytes) are of a thread, `shared` (bytes) and `grid` of a launch; `read` and `written` (bytes)
        and `seconds` are of all `launches` in one run of the code. `operations` are those of the matrix products and
        attention in it. `timed` is "measured" or "estimated". What is not known is None; `bytes_known` and `seconds_known`
        say how a figure is known, or why there is none. `outside` says what makes an estimate unlike those that were
        compared with measured times (benchmarks/estimates.py), "" where nothing does.
        """
        from explorer.questions.costs import kernel_table

        return kernel_table(self[0].trace) if self else Rows()


@dataclass(frozen=True)
class Trace:
    """Every stage of one or more compiles, linked.

    `meta` says what was traced and with what; `artifacts` are the stages' texts in the compiler's order; `links`
    relate their lines; `failures` name everything that went wrong. `live` is None for a loaded trace.
    """

    meta: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    artifacts: tuple[Artifact, ...] = ()
    links: tuple[Link, ...] = ()
    failures: tuple[Failure, ...] = ()
    live: Any = field(default=None, compare=False, repr=False)

    # Texts ---------------------------------------------------------------------------------------------------------

    def artifact(self, id: str | Artifact) -> Artifact:
        """The artifact of that id; InputError, with the nearest ids, where there is none."""
        if isinstance(id, Artifact):
            if id in self.artifacts:
                return id
        elif id in self._by_id:
            return self._by_id[id]
        if isinstance(id, str) and id in self._by_stage:
            ids = ", ".join(repr(a.id) for a in self._by_stage[id][:4])
            raise InputError(f"{id!r} is a stage, and this takes one artifact of it: {ids}; t.find({id!r}) has them")
        raise unknown_name("artifact", id, [a.id for a in self.artifacts])

    def find(self, stage: str, frame: str | None = None, graph: str | None = None) -> tuple[Artifact, ...]:
        """All artifacts of a stage, in order, of one frame and graph where given."""
        found = self._by_stage.get(stage, ())
        return tuple(a for a in found if frame in (None, a.frame) and graph in (None, a.graph))

    @cached_property
    def _by_id(self) -> Mapping[str, Artifact]:
        return {a.id: a for a in reversed(self.artifacts)}

    @cached_property
    def _by_stage(self) -> Mapping[str, Sequence[Artifact]]:
        found: dict[str, list[Artifact]] = {}
        for artifact in self.artifacts:
            found.setdefault(artifact.stage, []).append(artifact)
        return found

    def text(self, stage: str, frame: str | None = None, graph: str | None = None) -> str:
        """The text of a stage; where there are several, all of them under a heading each.

        InputError where the trace has none: it offers the stages there are; CompileError, with the reason, for a stage
        that could not be made.
        """
        found = self.find(stage, frame, graph)
        if not found and stage in ("sass", "assembly") and any(stage in kernel.stages for kernel in self.kernels):
            raise InputError(f"{stage} is made for one kernel at a time, when it is asked for: t.kernels[0].text({stage!r})")
        if not found:
            self.explain_missing(stage)
            self.explain_place(stage, frame, graph)
            raise self.no_text(stage)
        if len(found) == 1:
            return found[0].text
        return "\n\n".join(f"# ---- {a.title} [{a.id}]\n{a.text}" for a in found)

    def no_text(self, stage: object) -> InputError:
        """The error for a stage that the trace has no text of: why, and what to do to have it."""
        from explorer.questions import missing

        return missing.no_text(self, stage)

    def explain_missing(self, stage: str) -> None:
        """CompileError where a failure of the trace says why a stage of all kernels is not there; else nothing."""
        why = next((f.message for f in self.failures if (f.stage, f.step) == (stage, "triton")), None)
        if why is not None:
            raise CompileError(why)

    def explain_place(self, stage: str, frame: str | None, graph: str | None) -> None:
        """InputError, with the frames and graphs there are, where the trace has the stage but not there; else nothing."""
        there = dict.fromkeys(f"frame={a.frame!r}" + (f", graph={a.graph!r}" if a.graph else "") for a in self.find(stage))
        if there and not self.find(stage, frame, graph):
            asked = ", ".join(f"{k}={v!r}" for k, v in (("frame", frame), ("graph", graph)) if v is not None)
            raise InputError(f"{stage!r} is not there for {asked}; it is for {' or '.join(there)}")

    @property
    def frames(self) -> tuple[str, ...]:
        """The compile ids of the trace: "0/0" is the first frame, "0/1" its recompile, "1/-" a function not compiled."""
        return tuple(sorted({a.frame for a in self.artifacts if a.frame}, key=_frame_order))

    @property
    def kernels(self) -> Kernels:
        """The generated kernels, in the order in which the output code defines them; `t.kernels.table()` compares them."""
        found = Kernels(Kernel(self, a) for a in self.artifacts if a.stage == "kernel")
        found.trace = self
        return found

    @property
    def library_calls(self) -> Rows:
        """One row a library call: operator, dtype of its operands, operations, bytes read and written, estimated seconds.

        `operations` are multiplications and additions, None where nothing says how many. The rest is as in `kernels.table()`.
        """
        from explorer.questions.costs import call_table

        return call_table(self)

    # Tables --------------------------------------------------------------------------------------------------------

    @property
    def functions(self) -> Rows:
        """One row a function that Dynamo compiled or made to go on after a graph break: name, frame, whether it ran."""
        keys = ("qualname", "file", "first_line", "compiled", "resume")
        sources = [a for a in self.find("source") if not a.data.get("inlined")]
        return Rows({"frame": a.frame, **{k: a.data[k] for k in keys}} for a in sources)

    @property
    def guards(self) -> Rows:
        """One row a guard: frame, kind, the source it guards, its expression, and where it is from.

        `code`, `file` and `line` are the user's; `origin` says it in words, also for those that torch makes of itself
        (`framework` is the place there) and those `derived_from` others, (kind, source) each. `note` is torch's own remark.
        """
        return Rows({"frame": a.frame, **row} for a in self.find("guards") for row in a.data["rows"])

    @property
    def graph_breaks(self) -> Rows:
        """One row a graph break: the first frame that it ended, reason, explanation, hints, the user's file and line, all frames.

        A break in a function that others call ends each frame that reaches it: `frames` has them all.
        """
        found: dict[tuple[Plain, ...], dict[str, Plain]] = {}
        for a in self.find("graph_break"):
            place = (a.data.get("reason"), a.data.get("file"), a.data.get("line"))
            row = found.setdefault(place, {"frame": a.frame, **a.data, "frames": ()})
            row["frames"] = tuple(dict.fromkeys((*row["frames"], a.frame)))
        return Rows(found.values())

    @property
    def recompiles(self) -> Rows:
        """One row a failed guard: the frame compiled again, the earlier compile, and the guard in Dynamo's words."""
        return Rows({"frame": a.frame, **row} for a in self.find("recompile") for row in a.data["rows"])

    @property
    def symbols(self) -> Rows:
        """One row a dynamic size: symbol, source, range ("vr"), value at this call, and the user's line.

        An unbacked symbol, such as the size of what `nonzero` returns, has no value: "" in `val`.
        """
        rows = ({"frame": a.frame, **row} for a in self.find("symbol") for row in a.data["rows"])
        return Rows(row for row in rows if row["what"] == "created")

    @property
    def passes(self) -> Rows:
        """One row an FX pass that changed a graph: section, name, seconds, nodes made and erased, text before and after."""
        keys = ("section", "name", "seconds", "made", "erased", "before")
        return Rows(
            {"frame": a.frame, "graph": a.graph, **{k: a.data[k] for k in keys}, "after": a.text} for a in self.find("fx_pass")
        )

    @property
    def idle_passes(self) -> Rows:
        """One row an FX pass that ran and changed nothing, in a round that changed something: section, name, seconds."""
        found = [(a, idle) for a in self.find("fx_pass") for key in ("idle", "idle_after") for idle in a.data.get(key, ())]
        return Rows(
            {"frame": a.frame, "graph": a.graph, "section": a.data["section"], "name": name, "seconds": seconds}
            for a, (name, seconds) in found
        )

    @property
    def matches(self) -> Rows:
        """One row a pattern that fired: its name, the file and line that define it, nodes matched and nodes made."""
        keys = ("pattern", "kind", "file", "line", "matched", "made")
        return Rows({"frame": a.frame, "graph": a.graph, **{k: a.data[k] for k in keys}} for a in self.find("pattern_match"))

    @property
    def assumptions(self) -> Rows:
        """One row a decision that Inductor takes by timing, for a GPU that is not there: frame, graph, where, assumed, why."""
        return Rows({"frame": a.frame, **row} for a in self.find("assumption") for row in a.data["rows"])

    @property
    def caches(self) -> Rows:
        """One row a lookup in a cache: the cache, its `state`, graph or kernel, key and reason.

        The state is "hit", "miss" or "bypass", and "unknown" for a kernel whose files are not where Triton's cache is now.

        The caches are "AOTAutograd" and "FX graph", and for an attached GPU "Triton" and "autotune". `not_seen` names the
        stages that did not run because of a hit and that the cache does not keep; `seconds_saved` is torch's own figure.
        """
        from explorer.stages.torch_compile.cache import not_seen

        return Rows(
            {"frame": a.frame, **row, "not_seen": not_seen(self, a.frame, row)}
            for a in self.find("cache")
            for row in a.data["rows"]
        )

    @property
    def compile_metrics(self) -> Rows:
        """One row a compile as torch counts it: frame, `of` ("forward", "backward", …), and torch's figures by their names.

        They are the fields of torch's CompilationMetrics that were filled in, such as graph_op_count, guard_count, cache_size,
        restart_reasons, dynamo_time_before_restart_s and inductor_compile_time_s; seconds end in _s, microseconds in _us.
        """
        return Rows({"frame": a.frame, **row} for a in self.find("compilation_metrics") for row in a.data["rows"])

    @property
    def settings(self) -> Rows:
        """One row a setting that was not at its default: frame, `of` (dynamo, inductor, functorch), name, value, default, set_by.

        `set_by` is "the program", "torch.compile" for what a mode, options or torch itself set for the compile, or "explorer".
        """
        return Rows({"frame": a.frame, **row} for a in self.find("setting") for row in a.data["rows"])

    @property
    def compile_calls(self) -> Rows:
        """One row a frame: file, line and code of the torch.compile call that it came from, its backend and options.

        `called_file`, `called_line` and `called_code` are the line of the program that called the compiled function. A call
        of torch.compile before the recording began has no file.
        """
        return Rows({"frame": a.frame, **a.data} for a in self.find("compile_call"))

    @property
    def written_files(self) -> Rows:
        """One row a file that Inductor or triton wrote for a frame in this process: frame, by, path, kind, bytes.

        What worker processes compiled of a kernel, theirs or the explorer's, is not listed; `bytes` is None for what is gone.
        """
        return Rows({"frame": a.frame, **row} for a in self.find("written_file") for row in a.data["rows"])

    @property
    def operator_counts(self) -> Rows:
        """One row a graph and level ("torch", "ATen", "prims", "loop IR", "other"): operators, distinct ones, and each's number.

        The graphs are those that the trace holds, from Dynamo's to the scheduler's loop bodies before and after fusion.
        """
        from explorer.stages.fx_graph import operator_counts

        return Rows(row for a in self.artifacts for row in operator_counts(a))

    @property
    def cuda_graphs(self) -> Rows:
        """One row a decision on CUDA graphs, where they are asked for: frame, graph, what, decision, reason, the user's line.

        `decision` is "captured", "captured in parts", "skipped", for a node that stands outside the parts "not captured", and
        "skipped when called" for what depends on the tensors of a call.
        """
        return Rows({"frame": a.frame, **row} for a in self.find("cuda_graph") for row in a.data["rows"])

    @property
    def perf_hints(self) -> Rows:
        """One row a performance hint of Inductor's: frame, graph, hint, the FX nodes that it is about, the user's line."""
        return Rows({"frame": a.frame, **row} for a in self.find("perf_hint") for row in a.data["rows"])

    @property
    def choices(self) -> Rows:
        """One row a way of doing an operation that Inductor chose among: its config, its `ms`, whether it was the fastest.

        `ms` is None where nothing was timed, as for a GPU that is not there, or where the choice failed. `taken` marks the
        one that the output code uses, which where something is fused into it need not be the `fastest`; `why` says why.
        `grid` is the launch grid of a template. Products that may be padded have the choices "as it is" and "padded"; what
        the kernels of a fusion were tried with: `Kernel.candidates`. `choice(n)` takes the one of row n down the ladder.
        """
        return Rows(
            {"frame": a.frame, "graph": a.graph, "operation": a.data["operation"], "inputs": a.data["inputs"], **row}
            for a in self.find("autotune")
            for row in a.data["choices"]
        )

    def choice(self, which: int | str) -> Choice:
        """One of `choices`, by its row's number or its name: its config, and on request its source and its ladder.

        InputError for a row or name that there is not, and for a name that several operations have a choice of.
        """
        from explorer.questions.choices import chosen

        return chosen(self, which)

    @property
    def decompositions(self) -> Rows:
        """One row an operator that was decomposed in a graph: the operator, the nodes it became, and what defines how.

        `site` is "file:line function" of the Python decomposition, "" for operators that ATen itself decomposes.
        """
        groups: dict[tuple[str, str, str, str], list[str]] = {}
        for a in (*self.find("joint"), *self.find("forward"), *self.find("backward")):
            for node in a.nodes:
                if "decomposition" in node:
                    groups.setdefault((a.frame, a.graph, node["original"], node["decomposition"]), []).append(node["name"])
        return Rows({"frame": f, "graph": g, "operator": o, "nodes": tuple(n), "site": s} for (f, g, o, s), n in groups.items())

    @property
    def timings(self) -> Rows:
        """One row a phase that the compiler timed: name, function, graph, start and seconds, nesting depth."""
        return Rows({"frame": a.frame, **row} for a in self.find("phase") for row in a.data["rows"])

    @property
    def memory(self) -> Memory:
        """Where each compiled graph's memory goes: `memory.table()`, `.peak()`, `.timeline()` and `.saved()`."""
        from explorer.questions.memory import Memory

        return Memory(self)

    def code_flow(self) -> Rows:
        """One row a stage: the function of PyTorch or triton that made it, its file and line, and the calls that led there.

        `calls` runs from torch.compile inwards, each "file:line function"; `seconds` is the stage's own time.
        """
        return Rows(_flow_row(a) for a in self.artifacts if a.path)

    def summary(self) -> Any:
        """A DataFrame with one row a stage of a graph: stage, graph, lines, seconds, what changed, what failed.

        What failed of a stage that has no text, such as the compile itself, is a row of its own at the end.
        """
        return Rows([*self._summary_rows(), *self._failure_rows()]).frame

    def _failure_rows(self) -> Iterator[dict[str, Plain]]:
        """Rows like those of the summary for what failed and left no artifact."""
        held = {a.stage for a in self.artifacts}
        for stage in dict.fromkeys(f.stage for f in self.failures if f.stage not in held):
            failures = "; ".join(str(f) for f in self.failures if f.stage == stage)
            empty = {"frame": "", "stage": stage, "graph": "", "count": 0, "lines": 0, "seconds": None, "changes": ""}
            yield {**empty, "failures": failures}

    def _summary_rows(self) -> Iterator[dict[str, Plain]]:
        several: dict[tuple[str, str, str], list[Artifact]] = {}
        for a in self.artifacts:
            several.setdefault((a.frame, a.stage, a.graph), []).append(a)
        for frame, stage, graph in sorted(several, key=lambda key: self.frames.index(key[0]) if key[0] else -1):
            group = several[frame, stage, graph]
            seconds = [a.seconds for a in group if a.seconds is not None]
            yield {
                "frame": frame,
                "stage": stage,
                "graph": graph,
                "count": len(group),
                "lines": sum(len(a.lines) for a in group),
                "seconds": sum(seconds) if seconds else None,
                "changes": changes(group),
                "failures": "; ".join(str(f) for f in self.failures if f.stage == stage),
            }

    def diagram(
        self, stage: str = "ir_post_fusion", frame: str | None = None, graph: str | None = None, boxes: int | None = None
    ) -> Any:
        """A graphviz graph of a stage's nodes: an FX graph, or the scheduler's, in a frame for each group that was fused.

        Larger than `boxes` (60 where not said), an FX graph is collapsed by module and the scheduler's nodes by fused group. A
        notebook shows it where graphviz's `dot` program is installed; `.source` is its text. InputError, with what there
        is, where the trace has no such graph or several.
        """
        from explorer.questions.diagram import diagram

        return diagram(self, stage, frame, graph, boxes)

    # Links ---------------------------------------------------------------------------------------------------------

    def source_line(self, file: str, line: int, frame: str = "") -> tuple[str, int] | None:
        """The source artifact, and the line in it, of a line of the user's file; None where the trace has no such source.

        A file may be given by the end of its path, as Dynamo's guards shorten it.
        """
        if file not in self._sources:
            self._sources[file] = tuple(a for a in self.find("source") if _same_file(a.data["file"], file))
        found = [a for a in self._sources[file] if _holds(a, line)]
        found.sort(key=lambda a: (a.frame != frame, a.data["resume"], len(a.lines)))
        return (found[0].id, line - found[0].data["first_line"] + 1) if found else None

    @cached_property
    def _sources(self) -> dict[str, tuple[Artifact, ...]]:
        """The source artifacts of each file that `source_line` was asked for: there are few files and thousands of lines."""
        return {}

    def follow(self, artifact_id: str | Artifact, line: int) -> Rows:
        """Every line of every other artifact that is linked to this line, over any distance, and how each is known.

        Each row: artifact, stage, lines, `route`, the kinds of links that lead there, and `coarse`, True where one of these leads
        to the line of a call only: of a scan, of flex attention, of torch.func.grad, no text says which line inside it is meant.
        Lines count from 1. The artifact is given by its id, or itself.
        """
        from explorer.questions import provenance

        chosen = self.artifact(artifact_id)
        if type(line) is not int or not 1 <= line <= max(1, len(chosen.lines)):
            raise InputError(f"{chosen.id!r} has lines 1 to {len(chosen.lines)}, not {line!r}")
        return provenance.follow(self, chosen.id, line)

    def with_sass(self) -> Trace:
        """This trace with the SASS of every NVIDIA kernel, so that `follow` leads there too (0.6 s a kernel).

        InputError where no kernel has PTX; LiveError, for a trace that does not hold it, where this process cannot make it.
        """
        from explorer.recording import replay

        texts = {a.id: self._kernel(a).text("sass") for a in self.find("ptx")}
        if not texts:
            raise self.no_text("sass")
        held = {(a.frame, a.graph, a.kernel) for a in self.find("sass")}
        missing = {a.id: self._kernel(a).artifact for a in self.find("ptx") if (a.frame, a.graph, a.kernel) not in held}
        lines = self.needs_live("SASS").ptx_lines(list(missing.values())) if missing else ()
        return replay.with_sass(self, texts, dict(zip(missing, lines, strict=True)))

    def with_assembly(self) -> Trace:
        """This trace with the assembly of every C++ kernel, so that `follow` and `coverage` lead there too (2 to 10 s a kernel).

        InputError where no kernel is C++; LiveError, for a trace that does not hold it, where this process cannot make it.
        """
        from explorer.recording import replay

        kernels = [a for a in self.find("kernel") if a.language == "cpp"]
        if not kernels:
            raise self.no_text("assembly")
        held = {(a.frame, a.graph, a.kernel) for a in self.find("assembly")}
        missing = [a for a in kernels if (a.frame, a.graph, a.kernel) not in held]
        return replay.with_assembly(self, [self.needs_live("the assembly").assembly(a) for a in missing])

    def _kernel(self, form: Artifact) -> Kernel:
        """The kernel that an artifact is a form of."""
        key = (form.kernel, form.frame, form.graph)
        return next(k for k in self.kernels if (k.name, k.artifact.frame, k.artifact.graph) == key)

    # Fusion --------------------------------------------------------------------------------------------------------

    @cached_property
    def fusion(self) -> Fusion:
        """What became one kernel and what did not: `fusion.groups()`, `.table()`, `.why("op3", "op7")`, see `fusion.py`."""
        from explorer.questions.fusion import Fusion

        return Fusion(self)

    def what_if(
        self,
        *,
        fusion: Veto | Force | Sequence[Veto | Force] | None = None,
        without_pass: str | Sequence[str] = (),
        without_pattern: str | Sequence[str] = (),
        options: Mapping[str, Plain] | None = None,
        limit: float | None = None,
    ) -> WhatIf:
        """Trace the same call with something changed, and compare: kernels, launches, bytes, seconds, and the result.

        `fusion` takes `Veto` and `Force` in place of this trace's own, `()` lifts those; nodes may be named by a kernel too.
        `without_pass` and `without_pattern` take names or wildcards ("_sfdp_*") of `passes` and `matches`, also those that only
        come up once something else is left out; `options` any option of Inductor's.
        For a GPU that is not there the result is checked as `check` does, unless that takes more than `limit` seconds.
        LiveError for a loaded trace; InputError for names that this trace does not have.
        """
        from explorer.questions import what_if as whatif

        return whatif.what_if(
            self, fusion=fusion, without_pass=without_pass, without_pattern=without_pattern, options=options or {}, limit=limit
        )

    def follow_module(self, path: str) -> Rows:
        """Every line that is linked to what an nn.Module computes, such as "h.0.attn", the modules inside it included.

        InputError, with the nearest paths, where no node is of that module.
        """
        from explorer.questions import provenance

        paths = {str(node["module"]) for a in self.artifacts for node in (*a.nodes, *a.inner) if node.get("module")}
        if not paths:
            raise InputError(f"no node of this trace is in an nn.Module, so there is nothing to follow for {path!r}")
        if not any(known == path or known.startswith(f"{path}.") for known in paths):
            raise unknown_name("module of this trace", path, paths)
        return provenance.follow_module(self, path)

    def coverage(self, stage: str | None = None) -> Rows:
        """One row a stage of a graph: its lines that compute, how many lead to a user's line, and the others by kind.

        With `stage` one row a text of that stage, in which `missing` lists the lines that lead to none, as (line, text).
        """
        from explorer.questions import coverage

        return coverage.coverage(self, stage)

    @cached_property
    def index(self) -> Index:
        """The links by place, made when first asked for; no part of the value."""
        from explorer.questions import provenance

        return provenance.Index(self.links)

    # Failures ------------------------------------------------------------------------------------------------------

    def raise_for_failures(self) -> None:
        """Raise CompileError where the compile itself failed, or a stage could not be seen; else do nothing."""
        if self.failures:
            cause = self.live.error if self.live is not None else None
            raise CompileError("\n".join(map(str, self.failures))) from cause

    # Files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace as gzipped JSON; `explorer.load` reads an equal one. The format is described in `files.py`."""
        from explorer.files import trace_file as files

        files.save(self, path)

    def save_debug_dir(self, path: str | PathLike[str]) -> list[str]:
        """Write what TORCH_COMPILE_DEBUG=1 writes, under the same names, one folder a graph; the paths written.

        The two diagrams need graphviz's `dot` program; without it their source is written as .dot, and said so.
        """
        from explorer.files import debug_dir

        return debug_dir.save(self, path)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write one self-contained HTML file with every stage and link; it needs no network and no Python."""
        from explorer import page

        page.save(self, path)

    # Live ----------------------------------------------------------------------------------------------------------

    def needs_live(self, what: str) -> Any:
        """`live`; LiveError, which says what was asked and what to do, where the trace has none."""
        if self.live is None:
            raise LiveError(f"{what} needs the process that made this trace; call explorer.trace again to have it")
        return self.live

    @property
    def result(self) -> Any:
        """What the traced call returned; LiveError for a loaded trace, CompileError where the compile failed."""
        return self.needs_live("the result").result

    @property
    def gradients(self) -> Mapping[str, Any]:
        """With train=True, the gradient of the summed outputs for each input and parameter by name."""
        gradients: Mapping[str, Any] = self.needs_live("gradients").gradients
        return gradients

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function again, on copies of its arguments; without any, of those of the trace.

        Of a trace for a GPU that is not there, the graphs run on the CPU as they are; `check` runs what was generated. A
        hand-written kernel runs on copies of its arguments, interpreted where these are on the CPU; the tensors that
        it wrote are returned, by the names of its arguments.
        """
        return self.needs_live("running").run(*args, **kwargs)

    def check(self, limit: float | None = None, *, expected: Any = None) -> Rows:
        """Compare eager and compiled on the trace's inputs: one row an output, gradient, or tensor that either changed.

        Floats are judged element by element, by how far the rounding of the function's own operators moves that element: from
        eager, or from the same function in float64. `bound` says it in words. Whole numbers and all else must be the same, also
        type, shape, strides, and what an output is a view of: `compared` and `note` say what was and why not. `equal` is None
        where nothing could be compared, as of a function that returns nothing and changes nothing: that is one row.
        `max_abs` and `max_rel` are the largest differences from eager, `error` and `eager_error` the largest distances of both
        from float64; None where that was not needed, or a function cannot be called in float64. A gradient is that of the
        outputs' sum under fixed weights. What depends on random numbers is `random`: it is unequal where several calls differ
        on average from eager's, else `equal` is None. Arguments are those of the traced call, as they were before it; they, the
        module and random numbers are left as they are.

        Of a trace for a GPU that is not there, what was generated for it runs: the wrappers as they are, their kernels
        interpreted on the CPU ("interpreted"). InputError, before starting, where interpreting is estimated to take more than
        `limit` seconds, 120 where none is given.

        A hand-written kernel's writes are compared with `expected`: a tensor, several in the order of the arguments
        that it writes, or a mapping by their names.
        """
        if limit is not None and not isinstance(limit, (int, float)):
            raise InputError(f"limit is a number of seconds, not {limit!r}")
        rows: Rows = self.needs_live("checking").check(limit, expected)
        return rows

    def benchmark(self, repeats: int = 30) -> Rows:
        """Time eager and compiled in turn on copies of the arguments; the median seconds of each and the ratio to eager.

        InputError of a trace for a GPU that is not there, which cannot be timed.
        """
        if not isinstance(repeats, int):
            raise InputError(f"repeats is a number of calls, not {repeats!r}")
        rows: Rows = self.needs_live("timing").benchmark(repeats)
        return rows

    # Showing -------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        head = f"<Trace of {self.meta.get('name', '?')} for {self.meta.get('target', '?')}: {counts(self)}>"
        table = stage_table(self)
        assumed = "".join(f"\nassumed: {row['where']}: {row['assumed']}" for row in self.assumptions)
        cached = "".join(f"\nfrom a cache: {line}" for line in _cached(self))
        failures = "".join(f"\nfailure: {first_line(str(f))}" for f in self.failures)
        return f"{head}\n{table}{assumed}{cached}{failures}"

    def _repr_html_(self) -> str:
        from explorer import page

        return page.static_summary(self)

    def _ipython_display_(self) -> None:
        """Nothing in the cell in which `explore` has shown the trace already; else IPython goes on to the mime bundle."""
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        shown_in = getattr(self.live, "shown_in", None)
        if shell is None or shown_in is None or shown_in != shell.execution_count:
            raise NotImplementedError
        self.live.shown_in = None

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """In a notebook the widget; elsewhere, where only text is asked for, nothing of it."""
        from explorer.process.progress import in_notebook

        if not in_notebook():
            return {}
        from explorer.widget import Explorer

        data, metadata = Explorer(self)._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self)}, metadata

    def __reduce__(self) -> tuple[Any, ...]:
        from explorer.files import trace_file as files

        return files.loads, (files.dumps(self),)


def _same_file(whole: str, given: str) -> bool:
    """True for a path and the same path, or its end as Dynamo writes it: from some folder on, or without "/" and a letter."""
    return bool(given) and (whole == given or whole.endswith(f"/{given.lstrip('/')}") or whole[2:] == given)


def _holds(source: Artifact, line: int) -> bool:
    first: int = source.data["first_line"]
    return first <= line < first + len(source.lines)


def _frame_order(frame: str) -> tuple[int, ...]:
    """Frames by number, the compiles of one frame in order."""
    return tuple(int(part) if part.isdigit() else -1 for part in frame.split("/"))


def _flow_row(a: Artifact) -> dict[str, Plain]:
    file, line, function = a.path[-1]
    calls = tuple(f"{f}:{n} {name}" for f, n, name in a.path)
    key = {"frame": a.frame, "stage": a.stage, "graph": a.graph}
    return {**key, "function": function, "file": file, "line": line, "seconds": a.seconds, "calls": calls}


def _cached(trace: Trace) -> Iterator[str]:
    """One line a frame of which something was loaded instead of compiled, with the stages that did not run for it."""
    frames: dict[str, dict[str, None]] = {}
    for row in trace.caches:
        if row["not_seen"]:
            frames.setdefault(row["frame"], {}).update(dict.fromkeys(row["not_seen"]))
    for frame, missing in frames.items():
        yield (
            f"{frame or 'a graph'} was not compiled, so not seen: {', '.join(missing)}, and which node a kernel's line computes; "
            "record(fresh=True) compiles it"
        )


def changes(group: Sequence[Artifact]) -> str:
    """What a stage's artifacts say changed, in a few words, for the summary."""
    first = group[0]
    if first.stage == "fx_pass":
        made, erased = (sum(len(a.data.get(key, ())) for a in group) for key in ("made", "erased"))
        return f"+{made} −{erased} nodes"
    if first.stage == "pattern_match":
        return ", ".join(dict.fromkeys(str(a.data.get("pattern", "")) for a in group))
    if first.nodes:
        return f"{sum(len(a.nodes) for a in group)} nodes"
    if first.stage == "guards":
        return f"{sum(len(a.data.get('rows', ())) for a in group)} guards"
    if first.stage == "graph_break":
        return str(first.data.get("reason", ""))
    if first.stage == "assumption":
        return f"{sum(len(a.data.get('rows', ())) for a in group)} assumed, not timed"
    if first.stage == "cache":
        states = [f"{row['cache']} {row['state']}" for row in first.data["rows"]]
        return ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))
    if first.stage == "cuda_graph":
        return ", ".join(dict.fromkeys(str(row["decision"]) for a in group for row in a.data["rows"]))
    if first.stage == "perf_hint":
        number = sum(len(a.data["rows"]) for a in group)
        return f"{number} hint{'s' * (number != 1)}"
    if first.stage in ("setting", "written_file"):
        number = sum(len(a.data["rows"]) for a in group)
        return f"{number} {first.stage.replace('written_', '')}{'s' * (number != 1)}"
    if first.stage == "autotune":
        rows = ((a.data["operation"], row) for a in group for row in a.data["choices"])
        return ", ".join(f"{operation}: {row['choice']}" for operation, row in rows if row.get("taken", row["fastest"]))
    return ", ".join(a.kernel for a in group if a.kernel)


def first_line(text: str) -> str:
    """The first line of a message, marked where there is more."""
    head, _, rest = text.partition("\n")
    return f"{head} …" if rest.strip() else head


def counts(trace: Trace) -> str:
    """ "2 frames, 1 graph break, 3 kernels", leaving out what there is none of."""
    compiled = [f for f in trace.functions if f["compiled"]]
    numbers = {
        "frame": len(compiled),
        "graph break": len(trace.graph_breaks),
        "recompile": len(trace.find("recompile")),
        "kernel": len(trace.kernels),
        "assumption": len(trace.assumptions),
        "failure": len(trace.failures),
    }
    return ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in numbers.items() if n) or "nothing compiled"


def stage_table(trace: Trace) -> str:
    """The summary as fixed-width text for a terminal."""
    head = ("frame", "stage", "graph", "count", "lines", "seconds", "changes")
    rows = [head]
    for row in trace._summary_rows():
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.3f}"
        change = row["changes"] if len(row["changes"]) <= 60 else row["changes"][:57] + "…"
        rows.append((row["frame"], row["stage"], row["graph"], str(row["count"]), str(row["lines"]), seconds, change))
    widths = [max(len(r[i]) for r in rows) for i in range(len(head) - 1)]
    right = {3, 4, 5}
    cells = [[c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths, strict=False))] for r in rows]
    return "\n".join("  ".join([*c, r[-1]]).rstrip() for c, r in zip(cells, rows, strict=True))
