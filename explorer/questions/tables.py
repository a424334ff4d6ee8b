"""The tables of a trace: guards, graph breaks, passes, caches … Pure."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.model.artifacts import GraphBreak, Source
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Rows
from explorer.questions.rows import FunctionRow
from explorer.stages import stage_of
from explorer.stages.fx_graph import operator_counts as counts_of
from explorer.stages.inductor import fx_pass


def table(trace: TraceData, stage: str) -> Rows:
    """The rows of a stage in every frame, as the stage itself has them."""
    rows = stage_of(trace, stage).rows
    return Rows({"frame": a.frame, **row} for a in trace.find(stage) for row in rows(a, trace))


def functions(trace: TraceData) -> Rows:
    """One row per function that Dynamo compiled, and per resume function: name, frame, whether it was compiled."""
    return Rows(compiled_functions(trace))


def compiled_functions(trace: TraceData) -> Iterator[FunctionRow]:
    """Yield the rows of `functions`."""
    for artifact in trace.find("source"):
        source = typed(Source, artifact.data)
        if not source.inlined:
            yield {
                "frame": artifact.frame,
                "qualname": source.qualname,
                "file": source.file,
                "first_line": source.first_line,
                "compiled": source.compiled,
                "resume": source.resume,
            }


def graph_breaks(trace: TraceData) -> Rows:
    """One row per graph break: its first frame, reason, explanation, hints, user file and line, all frames.

    A break in a function with several callers ends each frame that reaches it; `frames` lists them all.
    """
    breaks: dict[tuple[str, str, int], tuple[str, GraphBreak, list[str]]] = {}
    for a in trace.find("graph_break"):
        data = typed(GraphBreak, a.data)
        _, _, frames = breaks.setdefault((data.reason, data.file, data.line), (a.frame, data, []))
        if a.frame not in frames:
            frames.append(a.frame)
    return Rows({"frame": first, **data, "frames": tuple(frames)} for first, data, frames in breaks.values())


def symbols(trace: TraceData) -> Rows:
    """One row a dynamic size."""
    return table(trace, "symbol").where(what="created")


def idle_passes(trace: TraceData) -> Rows:
    """One row an FX pass that ran and changed nothing, in a round that changed something."""
    return Rows({"frame": a.frame, **row} for a in trace.find(fx_pass.STAGE.name) for row in fx_pass.idle_rows(a))


def operator_counts(trace: TraceData) -> Rows:
    """One row per graph and level ("torch", "ATen", "prims", "loop IR", "other"): operators, in all and by name.

    The graphs are those of the trace, from Dynamo's to the scheduler's loop bodies before and after fusion.
    """
    return Rows(row for a in trace.artifacts for row in counts_of(a))


def decompositions(trace: TraceData) -> Rows:
    """One row per decomposed operator of a graph: the operator, its new nodes, and the decomposition's place.

    `site` is "file:line function" of the Python decomposition, "" for operators that ATen itself decomposes.
    """
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for a in (*trace.find("joint"), *trace.find("forward"), *trace.find("backward")):
        for node in a.nodes:
            if "decomposition" in node:
                groups.setdefault((a.frame, a.graph, node["original"], node["decomposition"]), []).append(node["name"])
    return Rows({"frame": f, "graph": g, "operator": o, "nodes": tuple(n), "site": s} for (f, g, o, s), n in groups.items())


def code_flow(trace: TraceData) -> Rows:
    """One row per artifact: the function of PyTorch or triton that made it, its place, and the call path."""
    return Rows(_flow_row(a) for a in trace.artifacts if a.path)


def _flow_row(a: Artifact) -> dict[str, Plain]:
    file, line, function = a.path[-1]
    calls = tuple(f"{f}:{n} {name}" for f, n, name in a.path)
    key = {"frame": a.frame, "stage": a.stage, "graph": a.graph}
    return {**key, "function": function, "file": file, "line": line, "seconds": a.seconds, "calls": calls}
