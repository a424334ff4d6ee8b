"""The tables of a trace: guards, graph breaks, passes, caches …, one row a thing that the compiler said. Pure."""

from __future__ import annotations

from explorer.model.artifacts import AllMetrics
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Rows
from explorer.stages.fx_graph import operator_counts as counts_of
from explorer.stages.torch_compile.cache import not_seen


def functions(trace: TraceData) -> Rows:
    """One row a function that Dynamo compiled or made to go on after a graph break: name, frame, whether it ran."""
    keys = ("qualname", "file", "first_line", "compiled", "resume")
    sources = [a for a in trace.find("source") if not a.data.get("inlined")]
    return Rows({"frame": a.frame, **{k: a.data[k] for k in keys}} for a in sources)


def guards(trace: TraceData) -> Rows:
    """One row a guard: frame, kind, the source it guards, its expression, and where it is from.

    `code`, `file` and `line` are the user's; `origin` says it in words, also for those that torch makes of itself
    (`framework` is the place there) and those `derived_from` others, (kind, source) each. `note` is torch's own remark.
    """
    return Rows({"frame": a.frame, **row} for a in trace.find("guards") for row in a.data["rows"])


def graph_breaks(trace: TraceData) -> Rows:
    """One row a graph break: the first frame that it ended, reason, explanation, hints, the user's file and line, all frames.

    A break in a function that others call ends each frame that reaches it: `frames` has them all.
    """
    found: dict[tuple[Plain, ...], dict[str, Plain]] = {}
    for a in trace.find("graph_break"):
        place = (a.data.get("reason"), a.data.get("file"), a.data.get("line"))
        row = found.setdefault(place, {"frame": a.frame, **a.data, "frames": ()})
        row["frames"] = tuple(dict.fromkeys((*row["frames"], a.frame)))
    return Rows(found.values())


def recompiles(trace: TraceData) -> Rows:
    """One row a failed guard: the frame compiled again, the earlier compile, and the guard in Dynamo's words."""
    return Rows({"frame": a.frame, **row} for a in trace.find("recompile") for row in a.data["rows"])


def symbols(trace: TraceData) -> Rows:
    """One row a dynamic size: symbol, source, range ("vr"), value at this call, and the user's line.

    An unbacked symbol, such as the size of what `nonzero` returns, has no value: "" in `val`.
    """
    rows = ({"frame": a.frame, **row} for a in trace.find("symbol") for row in a.data["rows"])
    return Rows(row for row in rows if row["what"] == "created")


def passes(trace: TraceData) -> Rows:
    """One row an FX pass that changed a graph: section, name, seconds, nodes made and erased, text before and after."""
    keys = ("section", "name", "seconds", "made", "erased", "before")
    return Rows(
        {"frame": a.frame, "graph": a.graph, **{k: a.data[k] for k in keys}, "after": a.text} for a in trace.find("fx_pass")
    )


def idle_passes(trace: TraceData) -> Rows:
    """One row an FX pass that ran and changed nothing, in a round that changed something: section, name, seconds."""
    found = [(a, idle) for a in trace.find("fx_pass") for key in ("idle", "idle_after") for idle in a.data.get(key, ())]
    return Rows(
        {"frame": a.frame, "graph": a.graph, "section": a.data["section"], "name": name, "seconds": seconds}
        for a, (name, seconds) in found
    )


def matches(trace: TraceData) -> Rows:
    """One row a pattern that fired: its name, the file and line that define it, nodes matched and nodes made."""
    keys = ("pattern", "kind", "file", "line", "matched", "made")
    return Rows({"frame": a.frame, "graph": a.graph, **{k: a.data[k] for k in keys}} for a in trace.find("pattern_match"))


def assumptions(trace: TraceData) -> Rows:
    """One row a decision that Inductor takes by timing, for a GPU that is not there: frame, graph, where, assumed, why."""
    return Rows({"frame": a.frame, **row} for a in trace.find("assumption") for row in a.data["rows"])


def caches(trace: TraceData) -> Rows:
    """One row a lookup in a cache: the cache, its `state`, graph or kernel, key and reason.

    The state is "hit", "miss" or "bypass", and "unknown" for a kernel whose files are not where Triton's cache is now.

    The caches are "AOTAutograd" and "FX graph", and for an attached GPU "Triton" and "autotune". `not_seen` names the
    stages that did not run because of a hit and that the cache does not keep; `seconds_saved` is torch's own figure.
    """
    return Rows(
        {"frame": a.frame, **row, "not_seen": not_seen(trace, a.frame, row)}
        for a in trace.find("cache")
        for row in a.data["rows"]
    )


def compile_metrics(trace: TraceData) -> Rows:
    """One row a compile as torch counts it: frame, `of` ("forward", "backward", …), and torch's figures by their names.

    They are the fields of torch's CompilationMetrics that were filled in, such as graph_op_count, guard_count, cache_size,
    restart_reasons, dynamo_time_before_restart_s and inductor_compile_time_s; seconds end in _s, microseconds in _us.
    """
    found = ((a.frame, row) for a in trace.find("compilation_metrics") for row in typed(AllMetrics, a.data).rows)
    return Rows({"frame": frame, "of": row.of, **row.figures} for frame, row in found)


def settings(trace: TraceData) -> Rows:
    """One row a setting that was not at its default: frame, `of` (dynamo, inductor, functorch), name, value, default, set_by.

    `set_by` is "the program", "torch.compile" for what a mode, options or torch itself set for the compile, or "explorer".
    """
    return Rows({"frame": a.frame, **row} for a in trace.find("setting") for row in a.data["rows"])


def compile_calls(trace: TraceData) -> Rows:
    """One row a frame: file, line and code of the torch.compile call that it came from, its backend and options.

    `called_file`, `called_line` and `called_code` are the line of the program that called the compiled function. A call
    of torch.compile before the recording began has no file.
    """
    return Rows({"frame": a.frame, **a.data} for a in trace.find("compile_call"))


def written_files(trace: TraceData) -> Rows:
    """One row a file that Inductor or triton wrote for a frame in this process: frame, by, path, kind, bytes.

    What worker processes compiled of a kernel, theirs or the explorer's, is not listed; `bytes` is None for what is gone.
    """
    return Rows({"frame": a.frame, **row} for a in trace.find("written_file") for row in a.data["rows"])


def operator_counts(trace: TraceData) -> Rows:
    """One row a graph and level ("torch", "ATen", "prims", "loop IR", "other"): operators, distinct ones, and each's number.

    The graphs are those that the trace holds, from Dynamo's to the scheduler's loop bodies before and after fusion.
    """
    return Rows(row for a in trace.artifacts for row in counts_of(a))


def cuda_graphs(trace: TraceData) -> Rows:
    """One row a decision on CUDA graphs, where they are asked for: frame, graph, what, decision, reason, the user's line.

    `decision` is "captured", "captured in parts", "skipped", for a node that stands outside the parts "not captured", and
    "skipped when called" for what depends on the tensors of a call.
    """
    return Rows({"frame": a.frame, **row} for a in trace.find("cuda_graph") for row in a.data["rows"])


def perf_hints(trace: TraceData) -> Rows:
    """One row a performance hint of Inductor's: frame, graph, hint, the FX nodes that it is about, the user's line."""
    return Rows({"frame": a.frame, **row} for a in trace.find("perf_hint") for row in a.data["rows"])


def choices(trace: TraceData) -> Rows:
    """One row a way of doing an operation that Inductor chose among: its config, its `ms`, whether it was the fastest.

    `ms` is None where nothing was timed, as for a GPU that is not there, or where the choice failed. `taken` marks the
    one that the output code uses, which where something is fused into it need not be the `fastest`; `why` says why.
    `grid` is the launch grid of a template. Products that may be padded have the choices "as it is" and "padded"; what
    the kernels of a fusion were tried with: `Kernel.candidates`. `choice(n)` takes the one of row n down the ladder.
    """
    return Rows(
        {"frame": a.frame, "graph": a.graph, "operation": a.data["operation"], "inputs": a.data["inputs"], **row}
        for a in trace.find("autotune")
        for row in a.data["choices"]
    )


def decompositions(trace: TraceData) -> Rows:
    """One row an operator that was decomposed in a graph: the operator, the nodes it became, and what defines how.

    `site` is "file:line function" of the Python decomposition, "" for operators that ATen itself decomposes.
    """
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for a in (*trace.find("joint"), *trace.find("forward"), *trace.find("backward")):
        for node in a.nodes:
            if "decomposition" in node:
                groups.setdefault((a.frame, a.graph, node["original"], node["decomposition"]), []).append(node["name"])
    return Rows({"frame": f, "graph": g, "operator": o, "nodes": tuple(n), "site": s} for (f, g, o, s), n in groups.items())


def timings(trace: TraceData) -> Rows:
    """One row a phase that the compiler timed: name, function, graph, start and seconds, nesting depth."""
    return Rows({"frame": a.frame, **row} for a in trace.find("phase") for row in a.data["rows"])


def code_flow(trace: TraceData) -> Rows:
    """One row a stage: the function of PyTorch or triton that made it, its file and line, and the calls that led there."""
    return Rows(_flow_row(a) for a in trace.artifacts if a.path)


def _flow_row(a: Artifact) -> dict[str, Plain]:
    file, line, function = a.path[-1]
    calls = tuple(f"{f}:{n} {name}" for f, n, name in a.path)
    key = {"frame": a.frame, "stage": a.stage, "graph": a.graph}
    return {**key, "function": function, "file": file, "line": line, "seconds": a.seconds, "calls": calls}
