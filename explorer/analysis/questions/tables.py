"""The tables of a trace: guards, graph breaks, passes, caches … Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import get_args, get_type_hints

from explorer.analysis.questions.rows import FunctionRow
from explorer.model.records import Record, keys_of, typed
from explorer.model.shared import Source
from explorer.model.trace_data import TraceData
from explorer.model.values import Table
from explorer.model.wording import quantity
from explorer.stages import stage_of
from explorer.stages.dynamo import graph_break
from explorer.stages.dynamo.graph_break import GraphBreak
from explorer.stages.inductor import fx_pass


def table(trace: TraceData, stage: str) -> Table:
    """The rows of a stage in every frame, as the stage itself has them."""
    rows = stage_of(trace, stage).rows
    return Table(({"frame": a.frame, **row} for a in trace.find(stage) for row in rows(a, trace)), _columns(trace, stage))


def _columns(trace: TraceData, stage: str) -> tuple[str, ...]:
    """The columns of a stage's table: its own, or what its artifacts hold; () where neither says them."""
    of = stage_of(trace, stage)
    return ("frame", *of.columns) if of.columns else _columns_held(of.artifact)


@cache
def _columns_held(artifact: type[Record] | None) -> tuple[str, ...]:
    hint = get_type_hints(artifact).get("rows") if artifact is not None else None
    return ("frame", *keys_of(get_args(hint)[0])) if hint is not None else ()


def functions(trace: TraceData) -> Table:
    """One row per function that Dynamo compiled, and per resume function: name, frame, whether it ran, and who compiled it."""
    calls = {row["frame"]: {name: row.get(key) for key, name in CALL.items()} for row in table(trace, "compile_call")}
    unknown = dict.fromkeys(CALL.values())
    rows = ({**row, **calls.get(row["frame"], unknown)} for row in compiled_functions(trace))
    return Table(rows, (*FunctionRow.__annotations__, *CALL.values()))


#: The columns of a torch.compile call in the row of the function that it compiled, by their names in the call's own row.
CALL = {
    "file": "compile_file",
    "line": "compile_line",
    "code": "compile_code",
    **{key: key for key in ("backend", "options", "dynamic", "called_file", "called_line", "called_code")},
}


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


def graph_breaks(trace: TraceData) -> Table:
    """One row per graph break: its first frame, reason, explanation, hints, user file and line, all frames.

    A break in a function with several callers ends each frame that reaches it; `frames` lists them all.
    """
    breaks: dict[tuple[str, str, int], tuple[str, GraphBreak, list[str]]] = {}
    for a in trace.find("graph_break"):
        data = typed(GraphBreak, a.data)
        _, _, frames = breaks.setdefault((data.reason, data.file, data.line), (a.frame, data, []))
        if a.frame not in frames:
            frames.append(a.frame)
    rows = ({"frame": first, **graph_break.row_of(data), "frames": tuple(frames)} for first, data, frames in breaks.values())
    count = len(trace.find("dynamo"))
    why_empty = f"Dynamo captured {quantity(count, 'graph')} without a break" if count else ""
    return Table(rows, ("frame", *graph_break.COLUMNS, "frames"), why_empty)


def recompiles(trace: TraceData) -> Table:
    """One row per failed guard: the frame compiled again, the earlier compile, and the guard in Dynamo's words."""
    rows = table(trace, "recompile")
    why_empty = "nothing was compiled again here; explorer.vary(f, x) says which inputs would" if trace.find("dynamo") else ""
    return Table(rows, rows.columns, why_empty)


def symbols(trace: TraceData) -> Table:
    """One row per dynamic size."""
    return table(trace, "symbol").where(what="created")


def passes(trace: TraceData) -> Table:
    """One row per FX pass that ran in a round that changed something, in order; `changed` is False where it changed nothing."""
    rows = ({"frame": a.frame, **row} for a in trace.find(fx_pass.STAGE.name) for row in fx_pass.all_rows(a, trace))
    return Table(rows, ("frame", *fx_pass.ALL_COLUMNS))


def decompositions(trace: TraceData) -> Table:
    """One row per decomposed operator of a graph: the operator, its new nodes, and the decomposition's place.

    `site` is "file:line function" of the Python decomposition, "" for operators that ATen itself decomposes.
    """
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for a in (*trace.find("joint"), *trace.find("forward"), *trace.find("backward")):
        for node in a.nodes:
            if "decomposition" in node:
                groups.setdefault((a.frame, a.graph, node["original"], node["decomposition"]), []).append(node["name"])
    rows = ({"frame": f, "graph": g, "operator": o, "nodes": tuple(n), "site": s} for (f, g, o, s), n in groups.items())
    return Table(rows, ("frame", "graph", "operator", "nodes", "site"))
