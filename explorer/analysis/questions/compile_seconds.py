"""Where the seconds of a compile went: by part of the compiler, by kernel, by repeated block. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from explorer.analysis.questions.tables import table
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table, once
from explorer.model.wording import quantity
from explorer.stages.program_names import Path, joined_name, split_name
from explorer.stages.torch_compile.phase import OTHER, part_of

#: The least part of a compile that is written out in words.
MIN_SHOWN = 0.005
#: The fewest operators in a block that is worth compiling once.
MIN_BLOCK = 4
PART_COLUMNS = ("frame", "graph", "part", "seconds", "explorer_seconds", "phases")
KERNEL_COLUMNS = ("frame", "graph", "kernel", "seconds", "compiled_by")
BLOCK_COLUMNS = ("frame", "function", "modules", "nodes", "of_nodes", "seconds")


@once
def parts(trace: TraceData) -> Table:
    """One row per part of each graph's compile, the longest first; the seconds of all rows add up to those of the compiles.

    `explorer_seconds` are those of `seconds` that explorer's recording took; None where that was not measured.
    """
    totals: dict[tuple[str, str, str], list[tuple[float, float | None]]] = {}
    for frame, rows in _by_frame(table(trace, "phase")).items():
        for row, part, seconds, cost in _own_seconds(rows):
            totals.setdefault((frame, str(row["graph"]), part), []).append((seconds, cost))
    rows = [dict(zip(PART_COLUMNS, (*key, *_sums(each), len(each)), strict=True)) for key, each in totals.items()]
    return Table(sorted(rows, key=lambda row: -float(row["seconds"])), PART_COLUMNS)


def _sums(figures: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """Add up the seconds of phases, and those of explorer's recording; the latter None where one is not known."""
    costs = [cost for _, cost in figures if cost is not None]
    return sum(seconds for seconds, _ in figures), sum(costs) if len(costs) == len(figures) else None


def seconds_by_part(trace: TraceData) -> dict[str, float]:
    """The seconds of each part of all compiles, the longest first, `other` last."""
    totals: dict[str, float] = {}
    for row in parts(trace):
        totals[str(row["part"])] = totals.get(str(row["part"]), 0.0) + float(row["seconds"])
    return dict(sorted(totals.items(), key=lambda item: (item[0] == OTHER, -item[1])))


def _by_frame(rows: Table) -> dict[str, list[Mapping[str, Plain]]]:
    frames: dict[str, list[Mapping[str, Plain]]] = {}
    for row in rows:
        frames.setdefault(str(row["frame"]), []).append(row)
    return frames


def _own_seconds(rows: Sequence[Mapping[str, Plain]]) -> Iterator[tuple[Mapping[str, Plain], str, float, float | None]]:
    """Yield each phase that ended, its part, and its seconds and cost without those of the phases inside it."""
    around: list[int] = []
    own: dict[int, float] = {}
    costs: dict[int, float] = {}
    parts_by_row: dict[int, str] = {}
    for number, row in enumerate(rows):
        while around and int(rows[around[-1]]["depth"]) >= int(row["depth"]):
            around.pop()
        if row["seconds"] is None:
            continue
        parts_by_row[number] = part_of(str(row["name"])) or (parts_by_row[around[-1]] if around else OTHER)
        own[number] = float(row["seconds"])
        if (cost := row.get("cost")) is not None:
            costs[number] = float(cost)
        if around:
            own[around[-1]] -= float(row["seconds"])
            if around[-1] in costs:
                costs[around[-1]] -= costs.get(number, 0.0)
        around.append(number)
    for number, seconds in own.items():
        yield rows[number], parts_by_row[number], seconds, costs.get(number)


def in_words(trace: TraceData) -> str:
    """Where the seconds of the compiles went, in a few lines; "" where nothing was timed."""
    by_part = seconds_by_part(trace)
    if not by_part:
        return ""
    total = sum(by_part.values())
    shown = ", ".join(f"{part} {seconds:.2f}" for part, seconds in by_part.items() if seconds >= MIN_SHOWN * total)
    lines = [f"{total:.2f} s in {quantity(len(_by_frame(table(trace, 'phase'))), 'compile')}: {shown}"]
    if timed := list(kernels(trace)):
        how = ", ".join(dict.fromkeys(str(row["compiled_by"]) for row in timed))
        each = sum(float(row["seconds"]) for row in timed)
        longest = f"the longest {timed[0]['kernel']}, {float(timed[0]['seconds']):.2f}"
        lines.append(f"{quantity(len(timed), 'kernel')} compiled in {each:.2f} s by {how}: {longest}")
    if tried := sum(choice["ms"] is not None for a in trace.find("autotune") for choice in a.data["choices"]):
        lines.append(f"{quantity(tried, 'choice')} timed by autotuning")
    if lookups := table(trace, "cache"):
        lines.append(f"{sum(row['state'] == 'hit' for row in lookups)} of {quantity(len(lookups), 'cache lookup')} hit")
    for row in blocks(trace):
        names = f"{row['modules'][0]} … {row['modules'][-1]}"
        of = f"{row['function'] or 'the same block'} compiled {len(row['modules'])} times, {names}"
        lines.append(f"{of}: about {float(row['seconds']):.2f} s are for the copies after the first")
    if cost := trace.meta.get("cost"):
        lines.append(f"explorer's recording took {float(cost):.2f} s of it{_costliest(trace)}")
    return "\n".join(lines)


def _costliest(trace: TraceData) -> str:
    """Name the part of the compile that explorer's recording lengthened most; "" where that was not measured."""
    costs: dict[str, float] = {}
    for row in parts(trace):
        costs[str(row["part"])] = costs.get(str(row["part"]), 0.0) + float(row["explorer_seconds"] or 0)
    part = max(costs, key=costs.__getitem__)
    return f", {costs[part]:.2f} s in {part}" if costs[part] else ""


# Kernels ---------------------------------------------------------------------------------------------------------------


def kernels(trace: TraceData) -> Table:
    """One row per kernel whose compile was timed, the longest first."""
    seconds = _by_inductor(trace)
    for stage in ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn"):
        for artifact in trace.find(stage):
            if (took := artifact.data.get("stage_seconds")) is not None:
                key = (artifact.frame, artifact.graph, str(artifact.data.get("name", "")), "explorer, beside the compile")
                seconds[key] = seconds.get(key, 0.0) + float(took)
    return _longest_first(seconds)


def kernels_of_inductor(trace: TraceData) -> Table:
    """One row per kernel that Inductor itself compiled and torch timed, the longest first; it reads no kernel's texts."""
    return _longest_first(_by_inductor(trace))


def _by_inductor(trace: TraceData) -> dict[tuple[str, str, str, str], float]:
    return {
        (str(row["frame"]), "", name, "Inductor"): microseconds / 1e6
        for row in table(trace, "compilation_metrics")
        for name, microseconds in _timed_by_torch(row.get("triton_kernel_compile_times_us"))
    }


def _longest_first(seconds: Mapping[tuple[str, str, str, str], float]) -> Table:
    rows = [
        dict(zip(KERNEL_COLUMNS, (frame, graph, name, took, by), strict=True))
        for (frame, graph, name, by), took in seconds.items()
    ]
    return Table(sorted(rows, key=lambda row: -float(row["seconds"])), KERNEL_COLUMNS)


def _timed_by_torch(figure: Plain) -> Iterator[tuple[str, float]]:
    """Read torch's list of the kernels that took longest, as JSON: [[name, microseconds], …]."""
    pairs = json.loads(figure) if isinstance(figure, str) else figure
    for pair in pairs if isinstance(pairs, (list, tuple)) else ():
        if isinstance(pair, (list, tuple)) and len(pair) > 1:
            yield str(pair[0]), float(pair[1])


# Repeated blocks -------------------------------------------------------------------------------------------------------


def blocks(trace: TraceData) -> Table:
    """One row per group of modules with the same operators on the same shapes, beside each other in the program.

    `seconds` is an estimate of what the copies after the first one take: their part of the frame's operators.
    """
    seconds: dict[str, float] = {}
    for row in parts(trace):
        seconds[str(row["frame"])] = seconds.get(str(row["frame"]), 0.0) + float(row["seconds"])
    rows = (row for graph in trace.find("dynamo") for row in _blocks(graph, trace, seconds.get(graph.frame, 0.0)))
    return Table(sorted(rows, key=lambda row: -float(row["seconds"])), BLOCK_COLUMNS)


def _blocks(graph: Artifact, trace: TraceData, seconds: float) -> Iterator[dict[str, Plain]]:
    computing = [node for node in graph.nodes if str(node["op"]).startswith("call_")]
    inside: dict[Path, list[Mapping[str, Plain]]] = {}
    for node in computing:
        path = split_name(str(node.get("module") or ""))
        for length in range(1, len(path) + 1):
            inside.setdefault(path[:length], []).append(node)
    alike: dict[object, list[Path]] = {}
    for path, nodes in inside.items():
        if len(nodes) >= MIN_BLOCK:
            alike.setdefault((path[:-1], tuple(_operation(node, len(path)) for node in nodes)), []).append(path)
    taken: list[Path] = []
    for paths in sorted(alike.values(), key=lambda paths: -len(inside[paths[0]])):
        if len(paths) < 2 or any(paths[0][: len(outer)] == outer for outer in taken):
            continue
        taken += paths
        count = len(inside[paths[0]])
        yield {
            "frame": graph.frame,
            "function": _function(paths[0], inside[paths[0]], graph, trace),
            "modules": tuple(map(joined_name, paths)),
            "nodes": count,
            "of_nodes": len(computing),
            "seconds": seconds * count * (len(paths) - 1) / len(computing),
        }


def _operation(node: Mapping[str, Plain], depth: int) -> tuple[Plain, ...]:
    """What an operator of a block is to be the same as in another: its function, module in the block, shape and dtype."""
    return node["target"], split_name(str(node["module"]))[depth:], node.get("shape"), node.get("dtype"), node.get("kwargs")


def _function(path: Path, nodes: Sequence[Mapping[str, Plain]], graph: Artifact, trace: TraceData) -> str:
    """The function of the program that a block's own lines are in, "Block.forward"; "" where no operator is its own."""
    own = next((node for node in nodes if split_name(str(node["module"])) == path and node.get("file")), None)
    if own is None:
        return ""
    sources = [
        source
        for source in trace.find("source", graph.frame)
        if source.data["file"] == own["file"] and 0 <= int(own["line"]) - int(source.data["first_line"]) < len(source.lines)
    ]
    return str(max(sources, key=lambda source: int(source.data["first_line"])).data["qualname"]) if sources else ""
