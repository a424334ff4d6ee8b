"""Bisection: the first kernel whose result is off, what it computes and where that is from, and all that was judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from os import PathLike
from typing import Any

from explorer.analysis.questions.diagram import diagram
from explorer.analysis.questions.launch_sites import Site
from explorer.analysis.questions.subgraph import LaunchedGraph, Subgraph, graph_of, regions
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.launches import RecordedLaunch
from explorer.errors import CompileError, InterpretError
from explorer.lab.bisecting.causes import Cause, cause_among, pattern_among
from explorer.lab.bisecting.judged import JudgedOutput, judged_launches
from explorer.lab.bisecting.to_script import LIMIT, FaultScript, written
from explorer.lab.live.protocol import Live, live_of
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import Artifact, Plain, Table, text_lines
from explorer.process.under_way import step
from explorer.stages.fx_graph import outer_nodes
from explorer.stages.inductor.kernel import owners

#: The columns of `Bisection.table`.
COLUMNS = (
    "launch", "kernel", "frame", "graph", "line", "parameter", "node", "equal", "max_abs", "max_rel", "error", "eager_error",
    "bound", "note", "operations",
)  # fmt: skip
#: What a check says of a value whose strides alone differ.
_STRIDES = re.compile(r"the strides are \([^)]*\), of eager \([^)]*\)")
#: The colours of what is off, and of what is right.
OFF, RIGHT = "#f6b3ae", "#c9e7c9"


@dataclass(frozen=True)
class OffLaunch:
    """A launch, or several that pass each other memory, whose result is off.

    `launch` is the launch's number in the call, from 1, `kernel` the name or names, and `line` the wrapper's line. `outputs`
    has the rows of the values that are off. `suspects` are the FX nodes that lead to these outputs and to no right one.
    `kernel_lines` are the kernel's lines that compute the suspects, as (line, text), and `user_lines` the program's, as (file,
    line, code). `subgraph` is the eager code, and `launches` are the recorded launches.
    """

    launch: int
    kernel: str
    artifact: str
    frame: str
    graph: str
    line: int
    outputs: Table
    suspects: tuple[str, ...]
    kernel_lines: tuple[tuple[int, str], ...]
    user_lines: tuple[tuple[str, int, str], ...]
    subgraph: Subgraph = field(repr=False)
    launches: Sequence[RecordedLaunch] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class Bisection:
    """What `Trace.bisect` found: `first` is the first launch whose result is off, None where none is.

    `table` has a row for each value that a launch wrote, in the order of launches; `equal` is None where it was not compared, and
    `note` says why. `check` are the rows of `Trace.check`, which were made where no launch is off, and `cause` is what brings the
    fault about, None where nothing is off or it was not asked for.
    """

    table: Table
    first: OffLaunch | None = None
    check: Table = field(default_factory=Table, repr=False)
    cause: Cause | None = None
    _trace: TraceData | None = field(default=None, compare=False, repr=False)

    def to_script(self, path: str | PathLike[str], *, minimise: bool = True, limit: float = LIMIT) -> FaultScript:
        """Write the fault as a separate script, which runs the kernel beside eager, prints the difference and exits with 1.

        The script needs torch, triton for a Triton kernel, and the device, but not explorer. It has the definition of the first
        kernel that is off, with the arguments of its launch, and the eager nodes that lead to the outputs that are off. With
        `minimise` the floats of the arguments are set to zero one after the other, as long as the same element is off. Integers
        and sizes stay, because the kernel's code contains them. A few numbers are written into the script, more of them into a
        file beside it.

        If no kernel is off, the script has the output code of each graph, with Dynamo's graph beside it. The cause of the fault,
        such as a lowering, is not in the script, which has only the resulting code; the script says so. On the CPU and an
        attached GPU the script is run once, for at most `limit` seconds, and `fails` says whether it shows the fault.

        Raises LiveError if nothing is off, and if the trace is no longer live. Raises NoVerbError if no script can be written.
        """
        return written(self, path, minimise=minimise, limit=limit)

    def diagram(self, frame: str | None = None, graph: str | None = None, boxes: int | None = None) -> Any:
        """The scheduler's nodes, as `Trace.diagram` draws them: red where a launch is off, green where it is right, else white.

        Without `frame` and `graph` it is the graph of the first launch that is off, else the trace's only one.
        """
        assert self._trace is not None
        if frame is None and graph is None and self.first is not None:
            frame, graph = self.first.frame, self.first.graph
        return diagram(self._trace, "ir_post_fusion", frame, graph, boxes, self._colours(frame, graph))

    def _colours(self, frame: str | None, graph: str | None) -> dict[str, str]:
        """Return the colour of each scheduler node that wrote a judged value."""
        colours: dict[str, str] = {}
        for row in self.table:
            if frame in (None, row["frame"]) and graph in (None, row["graph"]) and row["equal"] is not None:
                colour = RIGHT if row["equal"] else OFF
                for name in row["operations"]:
                    colours[name] = OFF if OFF in (colour, colours.get(name)) else RIGHT
        return colours

    @property
    def off(self) -> bool:
        """Whether anything is off: a launch, or only the whole result."""
        return self.first is not None or any(map(_values_differ, self.check))

    def __repr__(self) -> str:
        lines = [*self._sentences()]
        if self.cause is not None:
            lines.append(f"cause: {self.cause}")
        return "\n".join(lines)

    def _sentences(self) -> Iterator[str]:
        launches = len({row["launch"] for row in self.table if row["launch"]})
        compared = sum(row["equal"] is not None for row in self.table)
        count = f"of {len(self.table)} values in {launches} launches and library calls {compared} could be compared"
        if self.first is None:
            wrong = [str(row["output"]) for row in self.check if _values_differ(row)]
            if wrong:
                where = "above the kernels" if compared == len(self.table) else "above the kernels, or in what was not compared"
                names = ", ".join(wrong)
                yield f"no kernel that was compared is off, but {names} of the whole is: the fault is {where} ({count})"
            else:
                yield f"nothing is off: {count}" if compared else f"nothing can be said of single launches: {count}"
            return
        where = f"{self.first.kernel} on line {self.first.line} of the output code"
        yield f"launch {self.first.launch} is the first that is off: {where}"
        for row in self.first.outputs:
            yield f"  {row['parameter']} ({row['node']}) is off by up to {row['max_abs']:.3g}: {row['note']}"
        yield from (f"  {self.first.kernel}:{number}: {text.strip()}" for number, text in self.first.kernel_lines)
        yield from (f"  {file}:{line}: {code}" for file, line, code in self.first.user_lines)
        yield f"  {count}"


def bisected(trace: TraceData, live: Live, limit: float | None, cause: bool) -> Bisection:
    """Judge each launch of a trace alone, and where asked for find what brings a fault about: see `Trace.bisect`."""
    outputs = judged_launches(trace, live, limit)
    rows = Table([_row(trace, output) for output in outputs], COLUMNS)
    off = next((output for output in outputs if output.row.equal is False), None)
    if off is not None:
        first = _off_launch(trace, [output for output in outputs if output.part is off.part and output.number == off.number])
        if (edit := _edit_of(trace, live, first)) is not None:
            edited = replace(first, kernel_lines=_changed_lines(edit) or first.kernel_lines)
            return Bisection(rows, edited, cause=Cause("", note=EDITED), _trace=trace)
        if not cause:
            return Bisection(rows, first, _trace=trace)
        computed = dict.fromkeys(node for output in outputs if output.row.equal is False for node in output.part.nodes)
        reason = _below(first, tuple(computed), live, limit)
        is_one = reason.kind and not reason.candidates
        return Bisection(rows, _narrowed(trace, first, reason.name) if is_one else first, cause=reason, _trace=trace)
    step("checking the whole result")
    check = live.check(limit)
    if not (cause and any(map(_values_differ, check))):
        return Bisection(rows, check=check, _trace=trace)
    all_judged = all(output.row.equal is not None for output in outputs)
    return Bisection(rows, check=check, cause=_above(trace, live, limit, all_judged=all_judged), _trace=trace)


def _row(trace: TraceData, output: JudgedOutput) -> dict[str, Plain]:
    """The row of one judged value."""
    port, row, wrapper = output.port, output.row, artifact_of(trace, output.part.wrapper)
    site: Site = output.part.steps[port.step if port else 0]
    return {
        "launch": output.number,
        "kernel": output.part.name if port is None else site.name,
        "frame": wrapper.frame,
        "graph": wrapper.graph,
        "line": site.line,
        "parameter": port.parameter if port else "",
        "node": port.node if port else "",
        "equal": row.equal,
        "max_abs": row.max_abs,
        "max_rel": row.max_rel,
        "error": row.error,
        "eager_error": row.eager_error,
        "bound": row.bound,
        "note": row.note,
        "operations": _operations(graph_of(trace, wrapper), output),
    }


def _operations(graph: LaunchedGraph, output: JudgedOutput) -> tuple[str, ...]:
    """Return the scheduler nodes that write the judged value; none if the value could not be matched."""
    numbers = [n for n, site in enumerate(graph.sites) if site in output.part.steps]
    rows = [row for number in numbers for row in graph.operations[number]]
    return tuple(row.name for row in rows if output.port is not None and output.port.buffer in row.writes)


def nodes_of_value(trace: TraceData, row: Mapping[str, Plain]) -> tuple[str, ...]:
    """Return the FX nodes that lead to a row's value inside its launch; for an unmatched value, the nodes of its origin."""
    wrappers = trace.find("output_code", str(row["frame"]), str(row["graph"]))
    for part in regions(trace, wrappers[-1]) if wrappers else ():
        graph = graph_of(trace, wrappers[-1])
        if any(site.line == row["line"] for site in part.steps):
            leading = _leading(graph, part, [str(row["node"])])
            return tuple(name for name in part.nodes if name in leading) or _origins(graph, part, row)
    return ()


def _origins(graph: LaunchedGraph, part: Subgraph, row: Mapping[str, Plain]) -> tuple[str, ...]:
    """Return the FX nodes of the scheduler nodes that write a value; if these are not known, of all nodes of the launch."""
    nodes = [node for site, nodes in zip(graph.sites, graph.operations, strict=True) if site in part.steps for node in nodes]
    writing = [node for node in nodes if node.name in row["operations"]] or nodes
    return tuple(dict.fromkeys(name for node in writing for name in node.origins or ()))


# What is off -------------------------------------------------------------------------------------------------------------


def _off_launch(trace: TraceData, outputs: Sequence[JudgedOutput]) -> OffLaunch:
    """The launch whose outputs these are, with its lines."""
    part = outputs[0].part
    wrapper = artifact_of(trace, part.wrapper)
    graph = graph_of(trace, wrapper)
    wrong = [output for output in outputs if output.row.equal is False]
    suspects = _suspects(graph, part, outputs)
    ports = [output.port for output in wrong if output.port is not None]
    site = part.steps[ports[0].step]
    kernel = next((a for a in trace.find("kernel", wrapper.frame, wrapper.graph) if a.kernel == site.name), None)
    parameters = [port.parameter for port in ports if part.steps[port.step] is site]
    return OffLaunch(
        launch=outputs[0].number,
        kernel=site.name,
        artifact=kernel.id if kernel else "",
        frame=wrapper.frame,
        graph=wrapper.graph,
        line=site.line,
        outputs=Table([_row(trace, output) for output in wrong], COLUMNS),
        suspects=suspects,
        kernel_lines=_kernel_lines(kernel, suspects, parameters) if kernel else (),
        user_lines=_user_lines(graph, suspects),
        subgraph=part,
        launches=outputs[0].launches,
    )


def _kernel_of(trace: TraceData, first: OffLaunch) -> Artifact | None:
    """Return the text of the launched kernel; None for a library call."""
    return artifact_of(trace, first.artifact) if first.artifact else None


def _edit_of(trace: TraceData, live: Live, first: OffLaunch) -> Edit | None:
    """Return the edit that stands in place of the launched kernel, if one does."""
    kernel = _kernel_of(trace, first)
    wrapper = artifact_of(trace, first.subgraph.wrapper)
    return live.standing(kernel, typed(OutputCode, wrapper.data).file) if kernel is not None else None


def _changed_lines(edit: Edit) -> tuple[tuple[int, str], ...]:
    """The lines of an edited kernel that its original does not have."""
    before, after = text_lines(edit.original), text_lines(edit.text)
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return tuple((n + 1, after[n]) for what, _, _, start, end in blocks if what != "equal" for n in range(start, end))


def _narrowed(trace: TraceData, first: OffLaunch, node: str) -> OffLaunch:
    """The launch with the lines of the one node that is the cause."""
    kernel = _kernel_of(trace, first)
    lines = _kernel_lines(kernel, (node,), ()) if kernel else ()
    user_lines = _user_lines(graph_of(trace, artifact_of(trace, first.subgraph.wrapper)), (node,))
    return replace(first, suspects=(node,), kernel_lines=lines or first.kernel_lines, user_lines=user_lines)


def _suspects(graph: LaunchedGraph, part: Subgraph, outputs: Sequence[JudgedOutput]) -> tuple[str, ...]:
    """Return the nodes that lead only to outputs that are off. If there are none, return all nodes that lead to these outputs."""
    to_wrong, to_right = (
        _leading(graph, part, [o.port.node for o in outputs if o.port is not None and o.row.equal is equal])
        for equal in (False, True)
    )
    return tuple(name for name in part.nodes if name in (to_wrong - to_right or to_wrong))


def _leading(graph: LaunchedGraph, part: Subgraph, names: Sequence[str]) -> set[str]:
    """The nodes of a part that lead to some of them, these included."""
    inside, leading, left = set(part.nodes), set[str](), list(names)
    while left:
        name = left.pop()
        if name in inside and name not in leading:
            leading.add(name)
            left += graph.nodes[name].inputs
    return leading


def _kernel_lines(kernel: Artifact, suspects: Sequence[str], parameters: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """The lines of a kernel that compute some nodes, and those that store to some parameters."""
    owned = {number for number, (names, _) in owners(kernel).items() if set(names) & set(suspects)}
    stored = {
        number
        for number, line in enumerate(kernel.lines, 1)
        for parameter in parameters
        if f"store({parameter} " in line or f".store({parameter}" in line or (f"{parameter}[" in line and " = " in line)
    }
    return tuple((number, kernel.lines[number - 1]) for number in sorted(owned | stored))


def _user_lines(graph: LaunchedGraph, nodes: Sequence[str]) -> tuple[tuple[str, int, str], ...]:
    """The program's lines that some nodes come from."""
    known: Mapping[str, object] = graph.nodes
    places = [node for node in (outer_nodes(graph.fx) if graph.fx else ()) if node.name in nodes and node.name in known]
    return tuple(dict.fromkeys((node.file, node.line, node.code or "") for node in places if node.file and node.line))


# What brings it about ----------------------------------------------------------------------------------------------------


def _below(first: OffLaunch, computed: Sequence[str], live: Live, limit: float | None) -> Cause:
    """Search the lowerings of the nodes that the launches compute that are off: several may be wrong, and the first is found."""
    nodes = {str(row["node"]) for row in first.outputs}

    def right() -> bool | None:
        return _launches_right(live.trace_again(), nodes, limit)

    if (again := _judged(right)) is not False:
        note = "traced again the result is right: the fault is in the code of this trace alone, or comes and goes"
        return Cause("", tried=1, note=note if again else AGAIN_UNTOLD)
    cause = cause_among(("lowerings",), right, computed)
    if cause.kind or cause.untold:
        return cause
    note = "no lowering alone causes the fault: it is in how the kernel is scheduled, fused or written"
    return Cause("", tried=cause.tried, note=note)


def _above(trace: TraceData, live: Live, limit: float | None, *, all_judged: bool) -> Cause:
    """Search the passes and decompositions, and the patterns where a pass is the cause; the lowerings first, where a kernel
    may be off that was not judged.
    """

    def right() -> bool | None:
        return _whole_right(live.trace_again(), limit)

    def without(pattern: str) -> bool | None:
        return _whole_right(live.trace_again(without_pattern=(pattern,)), limit)

    if (again := _judged(right)) is not False:
        note = "traced again the result is right: the fault comes and goes"
        return Cause("", tried=1, note=note if again else AGAIN_UNTOLD)
    # Lowerings come first: without the pass that makes an operator work in place, its faulty lowering is not taken either.
    lowerings = () if all_judged else ("lowerings",)
    cause = cause_among((*lowerings, "post_grad_passes", "joint_graph_passes", "pre_grad_passes"), right)
    if not cause.kind:
        return _of_decompositions(trace, live, cause)
    if cause.kind.endswith("_passes") and not cause.candidates and (pattern := pattern_among(trace, without)) is not None:
        return Cause("patterns", pattern.name, pattern.number, cause.tried + pattern.tried, f"{WITHIN} {cause.name}")
    return cause


def _of_decompositions(trace: TraceData, live: Live, before: Cause) -> Cause:
    """Search the decompositions with a backend that does nothing else: Inductor compiles few operators without its own."""

    def right() -> bool | None:
        target = "cpu" if live.absent is not None else "auto"
        return _whole_right(live.trace_again(backend=DECOMPOSED, target=target, mode=None, options={}), None)

    cause = cause_among(("decomposition",), right)
    note = _decomposed_at(trace, cause.name) if cause.kind else f"{before.note}; {cause.note}"
    return replace(cause, tried=before.tried + cause.tried, note=note)


def _decomposed_at(trace: TraceData, operator: str) -> str:
    """Say from which lines of the program an operator is that was decomposed; "" where none is known."""
    graphs = [a for stage in ("joint", "forward", "backward") for a in trace.find(stage)]
    nodes = [node for a in graphs for node in outer_nodes(a) if node.original == operator and node.file]
    places = dict.fromkeys(f"{node.file}:{node.line}: {node.code}" for node in nodes)
    return f"it is of {', '.join(places)}" if places else ""


#: torch's backend that decomposes operators as for Inductor, and calls what comes of it.
DECOMPOSED = "aot_eager_decomp_partition"
#: What is said of a kernel that was edited: another trace would not have the edit.
EDITED = "the edit of this kernel, whose lines are shown; k.edits.reset() puts the original back"
#: What is said where the second trace of the call says nothing.
AGAIN_UNTOLD = "the call could not be traced and judged again, so that nothing can be left out"
#: How the note of a pattern begins.
WITHIN = "it is of the pass"


def _judged(right: Callable[[], bool | None]) -> bool | None:
    """Whether a second trace is right; None where it does not compile or cannot be run."""
    try:
        return right()
    except (CompileError, InterpretError):
        return None


def _live_of(trace: TraceData) -> Live | None:
    """What a second trace can be run by; None where its compile failed, also where the program went on without it."""
    return None if any(failure.fatal for failure in trace.failures) else live_of(trace)


def _launches_right(trace: TraceData, nodes: set[str], limit: float | None) -> bool | None:
    """Whether no launch of a trace is off; None where that cannot be told.

    Without a lowering, other kernels compute other nodes. If the nodes that were off are not all compared now, the whole
    result is checked.
    """
    live = _live_of(trace)
    if live is None:
        return None
    judged = [output for output in judged_launches(trace, live, limit) if output.row.equal is not None]
    if any(output.row.equal is False for output in judged):
        return False
    compared = {output.port.node for output in judged if output.port is not None}
    return True if nodes <= compared else _whole_right(trace, limit)


def _whole_right(trace: TraceData, limit: float | None) -> bool | None:
    """Whether a trace's whole result is right; None where it cannot be told."""
    live = _live_of(trace)
    if live is None:
        return None
    rows = live.check(limit)
    if any(map(_values_differ, rows)):
        return False
    return True if any(row["equal"] is not None for row in rows) else None


def _values_differ(row: Mapping[str, Plain]) -> bool:
    """Whether a row of a check says more than that the strides are others, which no kernel is at fault for."""
    return row["equal"] is False and not _STRIDES.fullmatch(str(row["note"]))


__all__ = ["Bisection", "OffLaunch", "bisected"]
