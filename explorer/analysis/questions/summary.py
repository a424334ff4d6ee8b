"""Summarise a trace: its counts, one row per stage, what changed there. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.analysis.questions.compiles import COMPILES
from explorer.analysis.questions.tables import functions, graph_breaks, table
from explorer.analysis.questions.target import compiled_for
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.model.wording import quantity
from explorer.stages import stage_of
from explorer.stages.torch_compile.cache import ARTIFACT


def head(trace: TraceData) -> str:
    """Name a trace, its target and its counts, as its repr begins."""
    return f"<Trace of {trace.meta.get('name', '?')} for {str(compiled_for(trace)) or '?'}: {counts(trace)}>"


def notes(trace: TraceData) -> Iterator[str]:
    """Yield a line for each thing that was assumed, for what came from a cache, and for each failure."""
    yield from (f"assumed: {row['where']}: {row['assumed']}" for row in table(trace, "assumption"))
    if notice := cache_notice(trace):
        yield f"from a cache: {notice}"
    yield from (f"failure: {first_line(str(failure))}" for failure in trace.failures)


def stages(trace: TraceData) -> Table:
    """One row per stage of a graph with what made it, and one per stage that failed and has no text."""
    made: dict[tuple[str, str, str], dict[str, Plain]] = {}
    for a in trace.artifacts:
        if a.path:
            made.setdefault((a.frame, a.stage, a.graph), _made_by(a))
    rows = (*summary_rows(trace), *failure_rows(trace))
    return Table(({**row, **made.get((row["frame"], row["stage"], row["graph"]), NOBODY)} for row in rows), COLUMNS)


COLUMNS = (
    "frame", "stage", "graph", "count", "lines", "seconds", "changes", "failures", "function", "file", "line", "calls",
)  # fmt: skip


def failure_rows(trace: TraceData) -> Iterator[dict[str, Plain]]:
    """Yield summary rows for stages that failed and have no artifact."""
    held = {a.stage for a in trace.artifacts}
    for stage in dict.fromkeys(f.stage for f in trace.failures if f.stage not in held):
        failures = "; ".join(str(f) for f in trace.failures if f.stage == stage)
        empty = {"frame": "", "stage": stage, "graph": "", "count": 0, "lines": 0, "seconds": None, "changes": ""}
        yield {**empty, "failures": failures}


def summary_rows(trace: TraceData) -> Iterator[dict[str, Plain]]:
    """Yield one row per stage of a graph: number of texts and lines, seconds, changes, failures."""
    several: dict[tuple[str, str, str], list[Artifact]] = {}
    for a in trace.artifacts:
        several.setdefault((a.frame, a.stage, a.graph), []).append(a)
    order = {frame: number for number, frame in enumerate(trace.compile_ids)}
    for frame, stage, graph in sorted(several, key=lambda key: order.get(key[0], -1)):
        group = several[frame, stage, graph]
        seconds = [a.seconds for a in group if a.seconds is not None]
        yield {
            "frame": frame,
            "stage": stage,
            "graph": graph,
            "count": len(group),
            "lines": sum(a.line_count for a in group),
            "seconds": sum(seconds) if seconds else None,
            "changes": stage_of(trace, stage).summary(group),
            "failures": "; ".join(str(f) for f in trace.failures if f.stage == stage),
        }


def _made_by(artifact: Artifact) -> dict[str, Plain]:
    """The function of PyTorch or triton that made a text, its place, and the calls that led there."""
    file, line, function = artifact.path[-1]
    calls = tuple(f"{f}:{n} {name}" for f, n, name in artifact.path)
    return {"function": function, "file": file, "line": line, "calls": calls}


#: What is said of a stage whose maker is not known.
NOBODY: dict[str, Plain] = {"function": "", "file": "", "line": None, "calls": ()}


def cache_notice(trace: TraceData) -> str:
    """Say which frames came from a cache, what is missing because of it, and how to see it; "" if all were compiled."""
    missing: dict[str, None] = {}
    frames: dict[str, None] = {}
    has_artifacts = False
    for row in table(trace, "cache"):
        if row["not_seen"]:
            has_artifacts = has_artifacts or row["cache"] == ARTIFACT
            frames[row["frame"]] = None
            missing.update(dict.fromkeys(row["not_seen"]))
    if not frames:
        return ""
    named = [frame for frame in frames if frame] if len(frames) < 4 else [f"{len(frames)} frames"]
    which, were = " and ".join(named) or "a graph", "were" if len(frames) > 1 else "was"
    target = compiled_for(trace)
    machine = f", which is for this machine and not for {target}" if target.is_absent_gpu else ""
    return (
        f"{which} {were} loaded, not compiled, so not seen: {', '.join(missing)}; graphs, output code and kernels have only the "
        "links that the cached texts state. record(fresh=True) compiles again and shows all"
        f"{f', except what CompiledArtifact.load loads{machine}' if has_artifacts else ''}"
    )


def first_line(text: str) -> str:
    """Return the first line of a message, with "…" if more follow."""
    head, _, rest = text.partition("\n")
    return f"{head} …" if rest.strip() else head


def counts(trace: TraceData) -> str:
    """Count what a trace has, as "2 frames, 3 kernels, 1 graph break"; leave out zeros."""
    numbers = {
        "graph break": len(graph_breaks(trace)),
        "recompile": len(trace.find("recompile")),
        "assumption": len(table(trace, "assumption")),
        "failure": sum(failure.stage != COMPILES for failure in trace.failures),
    }
    return ", ".join([compiled_counts(trace), *(quantity(n, name) for name, n in numbers.items() if n)])


def compiled_counts(trace: TraceData) -> str:
    """Count what was compiled, as "2 frames, 3 kernels"."""
    numbers = {"frame": len([f for f in functions(trace) if f["compiled"]]), "kernel": len(trace.find("kernel"))}
    return ", ".join(quantity(n, name) for name, n in numbers.items() if n) or "nothing compiled"
