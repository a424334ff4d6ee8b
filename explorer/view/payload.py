"""Turn a trace into the plain dict that the widget and the saved page read. Pure. `wire.py` types it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from explorer.analysis.questions.argument_lines import argument_lines
from explorer.analysis.questions.call_lines import call_lines
from explorer.analysis.questions.cells import cells_of, place, renamed
from explorer.analysis.questions.choices import forms as choice_forms
from explorer.analysis.questions.choices import no_source, settings
from explorer.analysis.questions.costs import call_rows, kernel_rows
from explorer.analysis.questions.fusion import Graph, fusion_of
from explorer.analysis.questions.group_costs import group_costs
from explorer.analysis.questions.input_sizes import guard_facts_of
from explorer.analysis.questions.kernels import KernelData, first_form, kernels_of, texts_of_kernel
from explorer.analysis.questions.lowering import by_node
from explorer.analysis.questions.memory import Memory, memory_of
from explorer.analysis.questions.modules import module_paths
from explorer.analysis.questions.priced_collectives import PricedRow, overlap, priced_rows
from explorer.analysis.questions.rows import CallRow, Cost, KernelRow, LoweringRow
from explorer.analysis.questions.summary import cache_notice, compiled_counts
from explorer.analysis.questions.target import compiled_for
from explorer.model.records import blank, typed
from explorer.model.shared import FxPass
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Failure, Link, Plain, jsonable, text_lines
from explorer.reference.layouts.layout import Access, Layout, layouts_of
from explorer.stages import STAGES, stage_of, stages_of
from explorer.stages.dynamo.guards import Guards
from explorer.stages.fx_graph import node_lines, short
from explorer.stages.inductor.autotune import Autotune
from explorer.stages.inductor.reasons import FOR_SPEED
from explorer.stages.onnxrt.graph import lines_of
from explorer.stages.program_names import joined_name
from explorer.stages.triton.origins import KernelForm
from explorer.view import wire
from explorer.view.places import Places
from explorer.view.program_info import line_infos
from explorer.view.views import views_of

if TYPE_CHECKING:
    from explorer.analysis.advice.verdicts import Advice, Verdict
    from explorer.view.computed_info import Computed, WhatIsComputed

FORMAT = 3
#: The most characters of JSON for one entry of an artifact's `data`; longer entries stay in the trace.
SMALL = 400
#: What an artifact's data has of each node of a graph: more than facts for a tooltip, however short it is.
LONG = ("nodes", "inner", "names", "targets", "users", "matched_targets", "made_targets")
#: What is read word for word, however long: what Dynamo says of a graph break.
WHOLE = ("explanation", "hints")
_HEADING = re.compile(r"^(\w+): ", re.MULTILINE)

Run = tuple[int, int, int, int]


def payload(trace: TraceData) -> wire.Payload:
    """Return the trace as one JSON-able dict; equal traces give equal payloads."""
    from explorer.analysis.overview.overview import Overview  # the advice is not imported before it is asked for
    from explorer.view.computed_info import WhatIsComputed
    from explorer.view.overview_info import overview_info

    hows = list(dict.fromkeys(link.how for link in trace.links))
    strings: dict[str, int] = {}
    texts = {a.text: n for n, a in reversed(list(enumerate(trace.artifacts)))}
    index = {a.id: n for n, a in enumerate(trace.artifacts)}
    cells = cells_of(trace)
    overview, memory, places = Overview(trace), memory_of(trace), Places(trace, index, cells)
    computed = WhatIsComputed(overview, places)
    whole: wire.Payload = {
        "format": FORMAT,
        "meta": {**jsonable(trace.meta), "target": str(compiled_for(trace))},
        "counts": compiled_counts(trace),
        "notice": cache_notice(trace),
        "stages": list(stages(trace)),
        "on_demand": [{"stage": s.name, "title": s.title, "of": s.on_demand_of} for s in STAGES if s.on_demand_of],
        "artifacts": [renamed(_artifact(trace, a, strings, texts), cells) for a in trace.artifacts],
        "strings": renamed(list(strings), cells),
        "kernels": list(_kernels(trace, index, computed)),
        "calls": list(_calls(trace, index, computed)),
        "lines": list(line_infos([trace], [index])),
        "fusion": [_fusion(trace, graph, index) for graph in fusion_of(trace).graphs],
        "choices": list(_choices(trace)),
        "memory": _memory(trace, memory, cells),
        "collectives": _collectives(trace, index, cells),
        "advice": _advice(overview.advice, places),
        "overview": [overview_info(overview, memory, places)],
        "hows": hows,
        "links": list(_links(trace, hows)),
        "failures": [renamed(_failure(trace, failure), cells) for failure in trace.failures],
        "views": [],
    }
    whole["views"] = views_of(whole)
    return whole


def _advice(advice: Advice, places: Places) -> wire.AdviceInfo:
    """Return why the program is slow, each line and place as a text's index and a line in it."""
    return {"about": advice.about, "headline": advice.headline, "verdicts": [_verdict(verdict, places) for verdict in advice]}


def _verdict(verdict: Verdict, places: Places) -> wire.CauseInfo:
    return {
        "kind": verdict.kind,
        "title": verdict.title,
        "cost": verdict.paid,
        "how": verdict.cost.how,
        "share": verdict.share,
        "shared": verdict.shared,
        "evidence": verdict.evidence,
        "remedy": verdict.remedy,
        "call": verdict.call,
        "why_unproved": verdict.why_unproved,
        "lines": [places.user_line(line) for line in verdict.lines],
        "places": [places.of(*place) for place in verdict.places],
    }


def _failure(trace: TraceData, failure: Failure) -> wire.FailureInfo:
    return {
        "stage": failure.stage,
        "title": stage_of(trace, failure.stage).title,
        "what": failure.what,
        "step": failure.step,
        "message": failure.message,
        "fatal": failure.fatal,
    }


def addition(trace: TraceData, artifacts: int, links: int) -> wire.Addition:
    """Return what a trace has after its first `artifacts` and `links`: the texts made on demand since then."""
    hows = list(dict.fromkeys(link.how for link in trace.links))
    strings: dict[str, int] = {}
    index = {(a.kernel, a.frame, a.graph): n for n, a in enumerate(trace.artifacts) if a.stage == "kernel"}
    fresh = list(enumerate(trace.artifacts))[artifacts:]
    cells = cells_of(trace)
    return {
        "artifacts": [renamed(_artifact(trace, a, strings, {}), cells) for _, a in fresh],
        "stages": list(stages(trace)),
        "hows": hows,
        "links": list(_links(replace(trace, links=trace.links[links:]), hows)),
        "forms": jsonable(tuple((index[key], a.stage, n) for n, a in fresh if (key := (a.kernel, a.frame, a.graph)) in index)),
    }


def stages(trace: TraceData) -> Iterator[wire.StageInfo]:
    """The stages that the trace has texts of; explorer's own first, in the compiler's order."""
    first: dict[str, Artifact] = {}
    for artifact in trace.artifacts:
        first.setdefault(artifact.stage, artifact)
    order = list(dict.fromkeys((*(stage.name for stage in STAGES), *first)))
    for stage in (stage_of(trace, name) for name in order if name in first):
        info: wire.StageInfo = {
            "name": stage.name,
            "title": stage.title,
            "about": stage.about,
            "language": first[stage.name].language,
            "opens_at": stage.opens_at,
            "made_from": list(stage.made_from),
        }
        if stage.secondary:
            info["secondary"] = True
        if stage.passes is not None:
            info["passes"] = {"compiler": stage.passes.compiler, "whole": stage.passes.whole}
        yield info


def _artifact(trace: TraceData, a: Artifact, strings: dict[str, int], texts: Mapping[str, int]) -> wire.ArtifactInfo:
    """Return one artifact for the view.

    `strings` gains the strings that its nodes refer to. `texts` has the index of each text of the trace.
    """
    file, line, function = a.path[-1] if a.path else ("", 0, "")
    info: wire.ArtifactInfo = {
        "id": a.id,
        "stage": a.stage,
        "frame": a.frame,
        "graph": a.graph,
        "kernel": a.kernel,
        "title": a.title,
        "language": a.language,
        "text": a.text,
        "lines": len(a.lines),
        "seconds": a.seconds,
        "time": round(a.time, 4),
        "note": stage_of(trace, a.stage).summary([a]),
        "made_by": f"{function} ({file}:{line})" if a.path else "",
        "data": small(a.data),
    }
    if a.stage == "source" and (arguments := argument_lines(trace, a)):
        info["arguments"] = jsonable(sorted(arguments.items()))
    if a.nodes:
        info["nodes"] = columns(a, strings)
        info["operators"] = sum(map(_calls_an_operator, with_inner(a)))
        if a.stage == "post_grad" and (rows := by_node(trace, a.frame, a.graph)):
            info["nodes"]["lowered"] = lowered_columns(info["nodes"]["name"], rows, strings)
    if a.stage == "ttgir" and (layouts := _layouts(a.text)):
        info["layouts"] = layouts
    if isinstance(a.data, Guards):
        info["rows"] = jsonable(guard_facts_of(trace, a))
    elif "rows" in a.data:  # of any stage, a user's own included
        info["rows"] = jsonable(a.data["rows"])
    if isinstance(a.data, FxPass):
        info["before"] = texts.get(a.data.before, a.data.before)
        if a.data.idle:
            info["idle"] = jsonable(a.data.idle)
        if a.data.idle_after:
            info["idle_after"] = jsonable(a.data.idle_after)
    elif isinstance(before := a.data.get("before"), str) and _is_behind_a_pass(trace, a.stage):
        info["before"] = texts.get(before, before)
    return info


def _is_behind_a_pass(trace: TraceData, name: str) -> bool:
    """Whether a stage has the whole texts after another stage's passes."""
    return any(stage.passes is not None and stage.passes.whole == name for stage in stages_of(trace))


def _layouts(text: str) -> wire.LayoutsInfo | None:
    """Return the layouts of a TTGIR's values, each type and access once; None where no value has one."""
    layouts = list(layouts_of(text))
    if not layouts:
        return None
    types = {layout.type: layout for layout in layouts}
    accesses = {str(access): access for layout in layouts for access in layout.accesses}
    type_at, access_at = ({key: n for n, key in enumerate(keys)} for keys in (types, accesses))
    return {
        "types": [_layout(layout) for layout in types.values()],
        "accesses": [_access(access) for access in accesses.values()],
        "values": [(a.line, a.name, type_at[a.type], [access_at[str(one)] for one in a.accesses]) for a in layouts],
    }


def _access(access: Access) -> wire.AccessInfo:
    return {"about": str(access), "addresses": list(access.use.addresses), "width": access.use.width}


def _layout(layout: Layout) -> wire.LayoutInfo:
    return {
        "type": layout.type,
        "facts": layout.facts,
        "memory": layout.memory,
        "shape": list(layout.shape),
        "bits": layout.bits,
        "bases": {name: [list(basis) for basis in bases] for name, bases in layout.bases.items()},
        "padding": list(layout.padding),
    }


def columns(a: Artifact, strings: dict[str, int]) -> wire.Nodes:
    """Return a graph's nodes as columns of equal length, without inputs that are no nodes of the graph."""
    nodes = with_inner(a)
    at = {node["name"]: n for n, node in enumerate(nodes)}
    lines = lines_of_nodes(a)
    facts = [_facts(node) for node in _with_modules(nodes)]

    def texts(column: str) -> list[int]:
        return [strings.setdefault(fact[column], len(strings)) for fact in facts]

    columns: wire.Nodes = {
        "name": list(at),
        "line": [lines.get(name, 0) for name in at],
        "inputs": [sorted({at[i] for i in node.get("inputs", ()) if i in at}) for node in nodes],
        "op": texts("op"),
        "target": texts("target"),
        "type": texts("type"),
        "module": texts("module"),
        "place": texts("place"),
        "code": texts("code"),
        "args": texts("args"),
    }
    if any(node.get("fused") for node in nodes):
        columns["fused"] = [list(node.get("fused", ())) for node in nodes]
    if any(node.get("origins") for node in nodes):
        columns["origins"] = [list(node.get("origins", ())) for node in nodes]
    return columns


def lowered_columns(names: Sequence[str], rows: Mapping[str, LoweringRow], strings: dict[str, int]) -> wire.LoweredNodes:
    """Return how each node was lowered, as columns in the order of `names`."""
    said = [rows.get(name) for name in names]

    def texts(values: Iterable[str]) -> list[int]:
        return [strings.setdefault(value, len(strings)) for value in values]

    by = (f"{row['function']} ({row['lowered_at']})" if row and row["function"] else "" for row in said)
    return {
        "kind": texts(row["kind"] if row else "" for row in said),
        "by": texts(by),
        "why": texts(row["why"] if row else "" for row in said),
        "kernels": [[*row["kernels"], *row["calls"]] if row else [] for row in said],
    }


def with_inner(a: Artifact) -> tuple[Mapping[str, Plain], ...]:
    """Return the nodes of a graph and of its inner graphs.

    An inner graph's output becomes an input of the node that names that graph as an argument.
    """
    paths = {node["name"].rpartition(".")[0] for node in a.inner}

    def joined(node: Mapping[str, Plain]) -> Mapping[str, Plain]:
        above = node["name"].rpartition(".")[0]
        path = f"{above}.{node['target']}" if above else str(node.get("target", ""))
        if node.get("op") != "get_attr" or path not in paths:
            return node
        return {**node, "inputs": (*node.get("inputs", ()), f"{path}.output")}

    return tuple(joined(node) for node in (*a.nodes, *a.inner)) if paths else a.nodes


def _with_modules(nodes: Sequence[Mapping[str, Plain]]) -> Sequence[Mapping[str, Plain]]:
    """Return the nodes of a graph; those that a pass made without a module have the one around them, where the graph has any."""
    if not any(node.get("module") for node in nodes) or all(node.get("module") is not None for node in nodes):
        return nodes
    paths = module_paths(nodes)
    lacking = {name for node in nodes if node.get("module") is None and (name := node["name"]) in paths}
    return [{**node, "module": joined_name(paths[name])} if (name := node["name"]) in lacking else node for node in nodes]


def _facts(node: Mapping[str, Plain]) -> dict[str, str]:
    """Return a node's tooltip: operator, tensor type, module path, and the user line's place and code."""
    shape, dtype = node.get("shape"), str(node.get("dtype", ""))
    sizes = node.get("sizes")
    kind = f"{dtype}[{', '.join(map(str, shape))}]" if shape is not None else dtype
    if sizes and not kind:
        kind = " × ".join(f"({', '.join(map(str, size))})" for size in sizes)
    at = f"{short(node['file'])}:{node['line']} in {node.get('function', '')}" if node.get("file") else ""
    return {
        "op": str(node.get("op") or node.get("kind", "")),
        "target": str(node.get("target", "")),
        "type": kind,
        "module": str(node.get("module", "")),
        "place": at,
        "code": str(node.get("code", "")),
        "args": f"{node.get('args', '')}{node.get('kwargs', '')}"[:SMALL],
    }


def _calls_an_operator(node: Mapping[str, Plain]) -> bool:
    facts = _facts(node)
    return facts["op"].startswith("call_") and "getitem" not in facts["target"]


def lines_of_nodes(a: Artifact) -> Mapping[str, int]:
    """Map each node of a graph to its line of the text; {} for stages without nodes."""
    if not a.nodes:
        return {}
    if a.language == "onnx":
        return {name: lines[0] for name, lines in lines_of(a).items()}
    return _headings(a.text) if a.language == "inductor-ir" else node_lines(a)


def _headings(text: str) -> dict[str, int]:
    """Map each scheduler node of an IR text to the first line that names it."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text_lines(text), 1):
        if heading := _HEADING.match(line):
            lines.setdefault(heading[1], number)
    return lines


def _kernels(trace: TraceData, index: Mapping[str, int], computed: WhatIsComputed) -> Iterator[wire.KernelInfo]:
    """Yield the generated kernels."""
    for kernel, row in zip(kernels_of(trace), kernel_rows(trace), strict=True):
        yield _kernel(trace, kernel, row, index, computed.kernel(kernel.artifact.id))


def _kernel(trace: TraceData, kernel: KernelData, row: KernelRow, index: Mapping[str, int], what: Computed) -> wire.KernelInfo:
    """Return a kernel for the table of kernels: its texts by `index`, operators, GPU resources and cost."""
    form = first_form(trace, kernel.artifact) or blank(KernelForm)
    return {
        "artifact": index[kernel.artifact.id],
        "name": kernel.name,
        "title": what.title,
        "user": jsonable(what.user),
        "advised": list(what.advised),
        "language": kernel.language,
        "frame": kernel.artifact.frame,
        "graph": kernel.artifact.graph,
        "forms": {text.stage: index[text.id] for text in texts_of_kernel(trace, kernel.artifact)},
        "operators": list(kernel.operators),
        "resources": jsonable(form.metadata),
        "launches": jsonable(form.launches),
        "candidates": jsonable(form.candidates),
        "config": jsonable(form.config),
        "chosen": form.chosen,
        "cost": _cost(row),
    }


def _cost(row: KernelRow | CallRow) -> Cost:
    return {
        "launches": row["launches"],
        "read": row["read"],
        "written": row["written"],
        "bytes_known": row["bytes_known"],
        "seconds": row["seconds"],
        "launch_seconds": row["launch_seconds"],
        "limit": row["limit"],
        "timed": row["timed"],
        "seconds_known": row["seconds_known"],
    }


def _calls(trace: TraceData, index: Mapping[str, int], computed: WhatIsComputed) -> Iterator[wire.CallInfo]:
    """Yield the library calls, each with its line in a text."""
    lines = call_lines(trace)
    for row in call_rows(trace):
        artifact, line = lines[row["frame"], row["graph"], row["node"]]
        title, user, advised = computed.library_call(row["frame"], row["graph"], row["node"])
        yield {
            "artifact": index.get(artifact, -1),
            "line": line,
            "node": row["node"],
            "name": row["call"],
            "title": title,
            "user": jsonable(user),
            "advised": list(advised),
            "frame": row["frame"],
            "graph": row["graph"],
            "operator": row["operator"],
            "dtype": row["dtype"],
            "operations": row["operations"],
            "cost": _cost(row),
        }


def small(data: Mapping[str, Plain]) -> dict[str, Any]:
    """Return the short entries of an artifact's data: facts for a tooltip, not the nodes of a graph."""
    entries = ((k, jsonable(v)) for k, v in data.items() if k not in LONG and (k in WHOLE or _may_be_small(v)))
    return {k: value for k, value in entries if k in WHOLE or _is_small(value)}


def _may_be_small(value: Plain) -> bool:
    """Whether a value can have JSON of so few characters: an entry of a list takes two at least."""
    return not isinstance(value, tuple) or 2 * len(value) <= SMALL


def _is_small(value: Any) -> bool:
    if isinstance(value, (str, list, dict)) and len(value) > SMALL:
        return False  # its JSON is longer still, so it need not be written to be measured
    return len(json.dumps(value)) <= SMALL


def _fusion(trace: TraceData, graph: Graph, index: Mapping[str, int]) -> wire.FusionInfo:
    """Return the verdicts on one graph in recorded order, and the data that answers `Trace.why` in a browser."""
    a, v = graph.artifact, graph.verdicts
    singles = range(len(v.names))
    nodes = (index[other.id] for other in trace.find("ir_pre_fusion", a.frame, a.graph) if graph.is_of(other))
    return {
        "frame": a.frame,
        "graph": a.graph,
        "of": v.data.of,
        "nodes": next(nodes, -1),
        "groups": _rows(graph.groups()),
        "costs": group_costs(trace, graph),
        "made": _rows(graph.buffers()),
        "inlined": _rows(graph.inlined()),
        "verdicts": [
            jsonable(
                {
                    **graph.row(each),
                    "pair": (each.first, each.second),
                    "after": tuple(v.earlier(each)),
                    **({"for_speed": True} if each.rule.said in FOR_SPEED else {}),
                }
            )
            for each in v.each()
        ],
        "names": list(v.names),
        "modules": [graph.module(name) for name in v.names],
        "members": [list(v.members(len(v.names) + n)) for n in range(len(v.data.groups))],
        "known": {name: list(of) for name, of in graph.numbers_by_name.items() if name not in v.names},
        "operators": {
            name: [{"node": place.node, "code": place.code, "numbers": list(place.numbers)} for place in places]
            for name, places in graph.operators.items()
        },
        "touched": [sorted(graph.touched((n,))) for n in singles],
        "kept_inputs": [sorted(inputs) for inputs in graph.kept_inputs],
        "inputs": [list(inputs) for inputs in graph.inputs],
        "steps": jsonable(tuple((step.kind, step.text, step.node) for step in graph.steps)),
        "fx_inputs": {name: list(inputs) for name, inputs in graph.fx_inputs.items()},
        "devices": [graph.nodes.get(name, {}).get("device") for name in v.names],
        "apart": [graph.unfusable("", n) for n in singles],
        "epilogues": [list(readers) for readers in graph.epilogues],
        "kernels": jsonable(v.data.kernels),
        "final": [row.number for row in v.data.final],
        "attempts": graph.most_partners,
    }


def _choices(trace: TraceData) -> Iterator[wire.ChoiceInfo]:
    """Yield the rows of `t.inductor.choices` with their lines, without the source key that only a live process can use."""
    for number, artifact in enumerate(trace.artifacts):
        if artifact.stage != "autotune":
            continue
        data = typed(Autotune, artifact.data)
        operation = {"frame": artifact.frame, "graph": artifact.graph, "operation": data.operation, "inputs": data.inputs}
        for line, choice in enumerate(data.choices, 2):  # the first line of the text names the operation
            row = {**operation, **choice}
            facts = {key: value for key, value in row.items() if key != "source"}
            more = {
                "settings": settings(choice.config),
                "forms": choice_forms(trace, row),
                "no_source": "" if choice.source else no_source(row),
            }
            yield jsonable({**facts, **more, "artifact": number, "line": line})


def _memory(trace: TraceData, memory: Memory, cells: Mapping[str, str]) -> wire.MemoryInfo:
    """Return the memory tables of the compiled graphs, with the places of the user's lines for people; {} without output code."""
    if not trace.find("output_code"):
        return {}
    table = [{**row, "lines": [_place(cells, line) for line in row["lines"]]} for row in memory.table]
    return {
        "table": _rows(table),
        "timeline": _rows(memory.timeline),
        "unread": _rows(memory.unread),
        "uncounted": _rows(memory.uncounted),
    }


def _collectives(trace: TraceData, index: Mapping[str, int], cells: Mapping[str, str]) -> wire.CollectivesInfo:
    """Return the collectives, the texts in which they start, and their overlap; {} without a collective."""
    rows = priced_rows(trace)
    if not rows:
        return {}
    table = [{**row, "text": index[row["wrapper"] or row["artifact"]], "place": _place_of(cells, row)} for row in rows]
    return {"table": _rows(table), "overlap": _rows({**row, "text": index[row["wrapper"]]} for row in overlap(trace))}


def _place_of(cells: Mapping[str, str], row: PricedRow) -> str:
    return place(cells, row["file"], row["line"]) if row["file"] else ""


def _place(cells: Mapping[str, str], line: str) -> str:
    file, _, number = line.rpartition(":")
    return place(cells, file, int(number))


def _rows(rows: Iterable[Mapping[str, Plain]]) -> list[Any]:
    return [jsonable(row) for row in rows]


# Links -----------------------------------------------------------------------------------------------------------------


def _links(trace: TraceData, hows: Sequence[str]) -> Iterator[Any]:
    """Yield the links by pair of artifacts and kind, without links to texts that the trace lacks."""
    index = {a.id: n for n, a in enumerate(trace.artifacts)}
    groups: dict[tuple[int, int, str], list[Link]] = {}
    for link in trace.links:
        if link.source in index and link.target in index:
            groups.setdefault((index[link.source], index[link.target], link.how), []).append(link)
    for (source, target, how), links in groups.items():
        yield [source, target, hows.index(how), [n for run in merged(runs(links)) for n in run]]


def runs(links: Iterable[Link]) -> Iterator[Run]:
    """Yield each link as runs of neighbouring source lines and of neighbouring target lines."""
    for link in links:
        for (source, m), (target, n) in product(neighbours(link.source_lines), neighbours(link.target_lines)):
            yield source, m, target, n


def neighbours(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Group line numbers into (first, count) runs: 3, 4, 5, 9 → (3, 3), (9, 1)."""
    spans: list[tuple[int, int]] = []
    for line in sorted(set(lines)):
        if spans and line == sum(spans[-1]):
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((line, 1))
    return spans


def merged(runs: Iterable[Run]) -> list[Run]:
    """Join each run with the one before that it continues: the same target, or target lines one by one."""
    result: list[Run] = []
    for run in runs:
        grown = _joined(result[-1], run) if result else None
        if grown:
            result[-1] = grown
        else:
            result.append(run)
    return result


def _joined(last: Run, run: Run) -> Run | None:
    """Return both runs as one, if that states exactly the same links; else None."""
    source, m, target, n = last
    if run[0] != source + m:
        return None
    if run[2:] == (target, n) and n:
        return source, m + run[1], target, n
    single = run[1] == run[3] == 1 and (n == 0 or m == n == 1)
    return (source, m + 1, target, 0) if single and run[2] == target + m else None
