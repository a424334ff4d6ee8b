"""What breaks a contract in one trace: graph breaks, recompiles, fusions missed, spills, fallbacks, failures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.movement import fusions
from explorer.analysis.advice.verdicts import Verdict
from explorer.analysis.findings.finding import Finding, not_judged
from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.kernels import KernelData, kernels_of
from explorer.analysis.questions.lowering import lowerings
from explorer.analysis.questions.memory import memory_of
from explorer.analysis.questions.missing import A_GPU, why_no_graph, why_no_kernel
from explorer.analysis.questions.summary import first_line
from explorer.analysis.questions.tables import graph_breaks, table
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Failure, Plain, text_lines
from explorer.model.wording import readable_bytes
from explorer.stages.torch_compile.compile_call import CompileCall

#: An FX node and how it was lowered, a row of `t.inductor.lowerings`.
Node = Mapping[str, Plain]
#: The kinds of lowerings for which Inductor calls a library or the operator itself.
CALLED = ("extern call", "fallback", "template")
#: What machine code says of spills, each with what one of it is: NVIDIA's in bytes, AMD's in registers.
SPILLS = MappingProxyType(
    {
        "spill_stores": "bytes stored",
        "spill_loads": "bytes loaded",
        "spilled_registers": "registers",
        "spilled_scalar_registers": "scalar registers",
    }
)
#: A message quotes at most so many characters of another one.
LONGEST = 300
#: A message lists at most this many lines or names, and counts the others.
MAX_SHOWN = 6


# Names and lines -----------------------------------------------------------------------------------------------------------


def user_line(trace: TraceData, file: str, line: int, code: str = "") -> str:
    """A user line for people: the file or cell, its number and its code."""
    return f"{place(cells_of(trace), file, line)}{f': {code}' if code else ''}"


def lines_of(trace: TraceData, nodes: Iterable[Node]) -> tuple[str, ...]:
    """The user lines of some FX nodes, each once; at most `MAX_SHOWN`."""
    lines = dict.fromkeys(user_line(trace, node["file"], node["line"], node["code"]) for node in nodes if node["file"])
    return tuple(lines)[:MAX_SHOWN]


def listed(names: Iterable[str]) -> str:
    """Some names in a row; those above `MAX_SHOWN` are counted."""
    every = list(dict.fromkeys(names))
    return ", ".join(every[:MAX_SHOWN]) + (f" and {len(every) - MAX_SHOWN} more" if len(every) > MAX_SHOWN else "")


def nodes_of_kernel(trace: TraceData, kernel: KernelData) -> list[Node]:
    """The FX nodes that a kernel computes, each with its user line."""
    where = (kernel.artifact.frame, kernel.artifact.graph)
    return [row for row in lowerings(trace) if (row["frame"], row["graph"]) == where and kernel.name in row["kernels"]]


def why_nothing(trace: TraceData) -> str:
    """Say why a trace has nothing to judge, or not the whole program; "" if all that was to be compiled was."""
    if nothing := why_no_graph(trace):
        return first_line(nothing)
    stopped = next((f for f in trace.failures if (f.fatal and f.stage != "kernel") or f.step == "compile"), None)
    return f"not all was compiled: {first_line(stopped.message)}" if stopped else ""


def why_no_record(trace: TraceData) -> str:
    """Say why a trace does not say what Dynamo did, such as its graph breaks; "" if it does."""
    if nothing := why_nothing(trace):
        return nothing
    log = trace.meta.get("log")
    if log and (log != "TORCH_TRACE" or not trace.find("dynamo")):
        return f"a {log} log has no graph breaks, recompiles and failures; `explorer trace` records them"
    return ""


def why_no_lowering(trace: TraceData) -> str:
    """Say why a trace does not say what became of its FX nodes in all frames; "" if it does."""
    if nothing := why_nothing(trace):
        return nothing
    if not trace.find("lowering"):
        return "the trace does not say how Inductor lowered its nodes: they are another compiler's, a log's, or a cache's"
    if unseen := _frames_without(trace, "lowering"):
        return f"the trace does not say how Inductor lowered frame {unseen}: it is another compiler's, or a cache had the graph"
    return ""


def why_no_code(trace: TraceData) -> str:
    """Say why a trace does not have the kernels of all frames; "" if it does, and for a compiler other than Inductor."""
    if nothing := why_nothing(trace):
        return nothing
    unseen = _frames_without(trace, "output_code", "kernel")
    if unseen and trace.meta.get("backend") in (None, "", "inductor"):
        return f"the trace has no output code of frame {unseen}: it is another compiler's, or a cache had the graph"
    return ""


def _frames_without(trace: TraceData, *stages: str) -> str:
    """List the frames with a graph of Dynamo's but with none of these stages."""
    seen = {artifact.frame for stage in stages for artifact in trace.find(stage)}
    return listed(artifact.frame for artifact in trace.find("dynamo") if artifact.frame not in seen)


# Rules -------------------------------------------------------------------------------------------------------------------


def breaks(trace: TraceData) -> Iterator[Finding]:
    """Yield each graph break."""
    expected = "no graph break"
    if nothing := why_no_record(trace):
        yield not_judged("graph-break", expected, nothing)
    for row in graph_breaks(trace):
        line = user_line(trace, row["file"], row["line"], code_at(trace, row["file"], row["line"]))
        why = " ".join((row["explanation"], *row["hints"])).strip()
        yield Finding("graph-break", expected, f"a graph break: {row['reason']}", (line,), why, "t.dynamo.graph_breaks")


def code_at(trace: TraceData, file: str, line: int) -> str:
    """The code of a user line, as a source of the trace has it; "" if none does."""
    for source in trace.find("source"):
        number = line - int(source.data.get("first_line", 0))
        if source.data.get("file") == file and 0 <= number < len(source.lines):
            return source.lines[number].strip()
    return ""


def recompiles(trace: TraceData) -> Iterator[Finding]:
    """Yield each recompile, with the guards that failed."""
    expected = "no recompile"
    if nothing := why_no_record(trace):
        yield not_judged("recompile", expected, nothing)
    guards: dict[str, list[str]] = {}
    for row in table(trace, "recompile"):
        guards.setdefault(row["frame"], []).append(f"{first_line(str(row['guard']))} (of {row['earlier']})")
    calls = {a.frame: typed(CompileCall, a.data) for a in trace.find("compile_call")}
    for frame, failed in guards.items():
        call = calls.get(frame)
        lines = (user_line(trace, call.called_file, call.called_line, call.called_code),) if call and call.called_file else ()
        yield Finding(
            "recompile",
            expected,
            f"frame {frame} was compiled again",
            lines,
            f"a guard failed: {listed(failed)}",
            "t.dynamo.recompiles; for a size that changes, dynamic=True or mark_dynamic",
        )


def not_fused(trace: TraceData) -> Iterator[Finding]:
    """Yield each fusion that would save bytes, and that the scheduler refused by a rule which a request can overrule.

    They are the verdicts of `advise`, at any cost. What two traces fuse differently, `changes` says.
    """
    expected = "no fusion refused that would save bytes"
    if nothing := why_no_lowering(trace):
        yield not_judged("not-fused", expected, nothing)
        return
    yield from (_missed(trace, expected, verdict) for verdict in fusions(TracedCall(trace)))


def _missed(trace: TraceData, expected: str, verdict: Verdict) -> Finding:
    lines = tuple(user_line(trace, line.file, line.number, line.code) for line in verdict.lines)
    return Finding(
        "not-fused", expected, f"{verdict.title} ({verdict.cost})", lines[:MAX_SHOWN], verdict.evidence, verdict.remedy
    )


def spills(trace: TraceData) -> Iterator[Finding]:
    """Yield each kernel whose machine code spills registers, and each kernel with unknown spills."""
    expected = "no register spill"
    kernels = kernels_of(trace)
    if not kernels:
        yield not_judged("spill", expected, first_line(why_no_kernel(trace)), A_GPU)
    elif unseen := why_no_code(trace):
        yield not_judged("spill", expected, unseen)
    for kernel in kernels:
        known = {what: int(kernel.resources[what]) for what in SPILLS if kernel.resources.get(what) is not None}
        lines = lines_of(trace, nodes_of_kernel(trace, kernel))
        if not known:
            yield not_judged("spill", expected, _no_machine_code(trace, kernel), A_GPU)
        elif any(known.values()):
            amounts = ", ".join(f"{n} {SPILLS[what]}" for what, n in known.items() if n)
            registers = kernel.resources.get("registers")
            why = f"it has {registers} registers a thread" if registers is not None else ""
            look = f"the SASS of {kernel.name}; fewer elements a thread, or more warps: t.kernels[…].tune()"
            yield Finding("spill", expected, f"{kernel.name} spills {amounts} a thread", lines, why, look)


def _no_machine_code(trace: TraceData, kernel: KernelData) -> str:
    if kernel.language != "triton":
        return f"{kernel.name} is {'C++' if kernel.language == 'cpp' else kernel.language}, whose compiler does not say"
    failed = next((f.message for f in trace.failures if f.kernel == kernel.name), "")
    return first_line(failed) or f"the trace has no machine code of {kernel.name}"


def fallbacks(trace: TraceData, allowed: Iterable[str] = (), *, library: bool = False) -> Iterator[Finding]:
    """Yield each operator that Inductor calls itself; with `library`, also those for which it calls a library.

    An operator is allowed by its name ("aten.mm.default"), or without its overload ("aten.mm").
    """
    names = tuple(allowed)
    what = "library call or fallback" if library else "fallback"
    expected = f"no {what}{f' but of {listed(names)}' if names else ''}"
    if nothing := why_no_lowering(trace):
        yield not_judged("fallback", expected, nothing)
        return
    for row in called_nodes(trace):
        if (library or "fallback" in row["kinds"]) and not _is_allowed(row["target"], names):
            look = f"t.why({row['node']!r})"
            is_called = f"{row['target']} is {called_by(row)}"
            yield Finding("fallback", expected, is_called, lines_of(trace, [row]), why_called(row), look)


def called_nodes(trace: TraceData) -> list[Node]:
    """The FX nodes that a library or the operator itself computes, kernels beside it or not, as for a convolution's bias."""
    return [row for row in lowerings(trace) if row["calls"] and set(row["kinds"]) & set(CALLED)]


def called_by(row: Node) -> str:
    """Say what computes an operator that is called: a library, or the operator itself."""
    kind = "a fallback" if "fallback" in row["kinds"] else "a library call"
    return f"{kind}, {listed(row['calls'])}"


def why_called(row: Node) -> str:
    """Say why an operator is called and not generated; "" where nothing says it."""
    return row["why"] or ("Inductor writes no code for it" if "fallback" in row["kinds"] else "")


def _is_allowed(target: str, allowed: Iterable[str]) -> bool:
    return any(target == name or target.startswith(f"{name}.") for name in allowed)


def failures(trace: TraceData, allowed: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield each failure that is not among the allowed: these are parts of the texts of failures."""
    parts = tuple(allowed)
    if not trace.failures and (nothing := why_no_record(trace)):
        yield not_judged("failure", "no failure", nothing)
    for failure in trace.failures:
        is_explorers = (failure.stage, failure.step) == ("log", "not shown")
        if not is_explorers and not any(part in str(failure) for part in parts):
            yield failed(failure)


def failed(failure: Failure) -> Finding:
    """The finding of one failure."""
    head, _, rest = str(failure).strip().partition("\n")
    why = " ".join(line.strip() for line in text_lines(rest) if line.strip())[:LONGEST]
    return Finding("failure", "no failure", head, why=why, look="t.failures")


def over_peak(trace: TraceData, under: float) -> Iterator[Finding]:
    """Yield each graph whose peak memory is not under a limit in bytes, and each with an unknown peak."""
    expected = f"peak memory under {readable_bytes(int(under))}"
    peaks, unknown = peak_bytes(trace)
    if unseen := why_no_code(trace):
        yield not_judged("peak memory", expected, unseen)
    elif not peaks and not unknown:
        yield not_judged("peak memory", expected, "the trace has no output code of Inductor's")
    for where, why in unknown.items():
        yield not_judged("peak memory", expected, f"{where}: {why}", "t.memory")
    for (frame, graph), peak in peaks.items():
        if peak >= under:
            yield _over(trace, expected, frame, graph, peak)


def _over(trace: TraceData, expected: str, frame: str, graph: str, peak: int) -> Finding:
    largest = memory_of(trace).peak.where(frame=frame, graph=graph)[:3]
    parts = [f"{readable_bytes(row['bytes'] or 0)} of {row['kind']} {listed(row['inputs'] or row['names'])}" for row in largest]
    places = dict.fromkeys(line for row in largest for line in row["lines"])
    lines = tuple(_line_at(trace, place) for place in places)[:MAX_SHOWN]
    why = f"the largest at the peak: {', '.join(parts)}"
    return Finding("peak memory", expected, f"{readable_bytes(peak)} in frame {frame} graph {graph}", lines, why, "t.memory.peak")


def _line_at(trace: TraceData, at: str) -> str:
    """The user line at "file:line"."""
    file, _, line = at.rpartition(":")
    return user_line(trace, file, int(line), code_at(trace, file, int(line))) if line.isdigit() else at


def peak_bytes(trace: TraceData) -> tuple[Mapping[tuple[str, str], int], Mapping[str, str]]:
    """The peak of each graph in bytes, and of each whose peak is not known why not."""
    memory = memory_of(trace)
    unknown = {f"frame {row['frame']} graph {row['graph']}": str(row["why"]) for row in memory.unread}
    for row in memory.table:
        if row["bytes"] is None:
            unknown[f"frame {row['frame']} graph {row['graph']}"] = f"the size of {listed(row['names'])} is known when it runs"
    peaks: Counter[tuple[str, str]] = Counter()
    for row in memory.peak:
        peaks[row["frame"], row["graph"]] += row["bytes"] or 0
    return {where: n for where, n in peaks.items() if f"frame {where[0]} graph {where[1]}" not in unknown}, unknown


#: What `explorer trace --fail-on` takes, each with what it finds in one trace.
RULES: Mapping[str, Callable[[Any], Iterator[Finding]]] = MappingProxyType(
    {
        "graph-break": breaks,
        "recompile": recompiles,
        "not-fused": not_fused,
        "spill": spills,
        "fallback": fallbacks,
        "failure": failures,
    }
)

__all__ = [
    "MAX_SHOWN",
    "RULES",
    "Node",
    "breaks",
    "called_by",
    "called_nodes",
    "code_at",
    "failed",
    "failures",
    "fallbacks",
    "lines_of",
    "listed",
    "nodes_of_kernel",
    "not_fused",
    "over_peak",
    "peak_bytes",
    "recompiles",
    "spills",
    "user_line",
    "why_called",
    "why_no_code",
    "why_no_lowering",
    "why_no_record",
    "why_nothing",
]
