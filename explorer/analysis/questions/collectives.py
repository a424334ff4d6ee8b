"""The collectives of a trace: what each exchanges, in which group, where it starts and is waited for. Pure.

They are read from the FX graph that Inductor lowers, or from AOTAutograd's where no Inductor ran. Where there is a wrapper, its
lines say when each starts and is waited for, after the passes that bucket and reorder. `process_groups` of the trace's meta has
the ranks of each group by its name; without it the number of ranks is known only where an operator of the group is given it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TypedDict

from explorer.analysis.questions.launch_sites import Site, sites, variable_of
from explorer.analysis.questions.memory import element_size, symbol_values
from explorer.model.integers import evaluated
from explorer.model.records import typed
from explorer.model.shared import FxNode
from explorer.model.syntax import parsed_expression
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import Artifact, Table, once
from explorer.stages.fx_graph import NOWHERE, StackPlace, all_fx_nodes, node_lines, places_of, readable_nodes, stack_of
from explorer.stages.inductor.output_code import EXTERN
from explorer.stages.torch_compile.eager_collective import EagerCollectives, line_of, name_of, neighbours, sent_by

#: Operators that exchange data between ranks, by torch's namespaces of them.
_COLLECTIVE = re.compile(
    r"^(?:torch\.ops\.)?(?P<space>_c10d_functional|_c10d_functional_autograd|_dtensor|symm_mem)\.(?P<name>\w+)"
)
_WAIT = re.compile(r"^(?:torch\.ops\.)?_c10d_functional(?:_autograd)?\.wait_tensor\b")
#: Operators that are given the number of ranks: the place of that argument.
_SIZE_AT: Mapping[str, int] = {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 2}
#: Operators whose result is the whole: n times what each rank gives.
_GATHERING = ("all_gather",)
#: The file of torch's functions around these operators, whose lines are no line of the program.
_OF_TORCH = re.compile(r"[/\\]torch[/\\](?:distributed|_\w+|nn|utils|autograd)\b")


class CollectiveRow(TypedDict):
    """A collective of a graph, a row of `collectives`.

    `node` is its FX node in `artifact`, `true_graph_0.all_reduce` for one in a branch of a cond. `operator` is the short name,
    such as "all_reduce", `call` the operator of torch in full. `ranks` are the ranks of the group, () if not recorded, and `size`
    their number, None if unknown. `bytes` is the size of the whole tensor: the output of an all_gather, the input of all others;
    None where a size is known only in the run. `file`, `line` and `code` are the user's. `started` and `waited` are lines of
    `wrapper`, or of `artifact` where that is ""; None if this graph does not wait for it; with several tensors the first wait
    counts. `between` names the kernels and library calls from the one to the other.

    `sent_by` says who sent a collective outside of the graphs, such as "DDP bucket 0: 2 parameters, …"; "" for one in a graph.
    A row with it has no frame and no node; `artifact` is the text that lists it and `started` its line there. `module` is the
    innermost one that has all of its parameters. `runs` counts its runs, None in a graph. `after` and `before` name the compiled
    graphs between which it was sent last, "" where none ran.
    """

    frame: str
    graph: str
    artifact: str
    node: str
    operator: str
    call: str
    group: str
    ranks: tuple[int, ...]
    size: int | None
    dtype: str
    shape: tuple[str, ...]
    bytes: int | None
    module: str
    file: str
    line: int
    code: str
    wrapper: str
    started: int | None
    waited: int | None
    between: tuple[str, ...]
    sent_by: str
    runs: int | None
    after: str
    before: str


@dataclass(frozen=True)
class Span:
    """Where a collective starts and is waited for, in lines of a text, and the kernels and calls in between."""

    started: int | None = None
    waited: int | None = None
    between: tuple[str, ...] = ()


def collectives(trace: TraceData) -> Table:
    """List the collectives of every graph, in the order in which they start: see `CollectiveRow`."""
    return Table((dict(row) for row in collective_rows(trace)), CollectiveRow.__annotations__)


@once
def collective_rows(trace: TraceData) -> tuple[CollectiveRow, ...]:
    """The rows of `collectives`."""
    return tuple(row for graph in _graphs(trace) for row in _rows(trace, graph))


def is_collective(target: str) -> bool:
    """Tell whether an operator, as FX and the wrapper write it, exchanges data between ranks."""
    return bool(_COLLECTIVE.match(target)) and not is_wait(target)


def is_wait(target: str) -> bool:
    """Tell whether an operator waits for a collective."""
    return bool(_WAIT.match(target))


def _graphs(trace: TraceData) -> Iterator[Artifact]:
    """The graphs of each frame and name: Inductor's after its passes, or AOTAutograd's.

    They are several of one name where DDPOptimizer makes one for each bucket. For a graph without nodes, as from Inductor's
    cache, AOTAutograd's is taken.
    """
    graphs: dict[tuple[str, str], list[Artifact]] = {}
    for stage in ("forward", "backward", "post_grad"):
        for (frame, name), found in _by_name(trace.find(stage)).items():
            before = graphs.get((frame, name), [])
            same = len(before) == len(found)
            graphs[frame, name] = [a if a.nodes or not same else before[n] for n, a in enumerate(found)]
    for several in graphs.values():
        yield from several


def _by_name(artifacts: Sequence[Artifact]) -> dict[tuple[str, str], list[Artifact]]:
    found: dict[tuple[str, str], list[Artifact]] = {}
    for artifact in artifacts:
        found.setdefault((artifact.frame, artifact.graph), []).append(artifact)
    return found


def _rows(trace: TraceData, artifact: Artifact) -> list[CollectiveRow]:
    nodes = readable_nodes(artifact)
    found = [node for node in nodes if node.op == "call_function" and is_collective(node.target)]
    if not found:
        return []
    # which part of a wrapper is a graph inside is not read from it, so that those graphs have their spans in their own texts
    wrapper = _wrapper(trace, artifact) if not any("." in node.name for node in found) else None
    spans = _spans_in_wrapper(trace, artifact, found, wrapper) if wrapper else {}
    where = wrapper.id if wrapper and spans else ""
    spans = spans or _spans_in_graphs(artifact, nodes)
    rows = [_row(trace, artifact, node, where, spans.get(node.name, Span())) for node in found]
    return in_order(rows)


def in_order(rows: Sequence[CollectiveRow]) -> list[CollectiveRow]:
    """Sort the rows of a graph by their start; a row without a start stays after its predecessor in the graph."""
    lines = list(accumulate((row["started"] for row in rows), lambda last, line: last if line is None else line, initial=0))
    return [row for _, row in sorted(zip(lines[1:], rows, strict=True), key=lambda pair: pair[0] or 0)]


def _row(trace: TraceData, artifact: Artifact, node: FxNode, wrapper: str, span: Span) -> CollectiveRow:
    operator = short_name(node.target)
    arguments = _arguments(node)
    group = _group(arguments)
    ranks = _ranks(trace, group)
    size = len(ranks) or _stated_sizes(artifact).get(group)
    tensors = _tensors(artifact, node)
    values = symbol_values(trace, artifact.frame)
    bytes = [_bytes(shape, dtype, values) for shape, dtype in tensors]
    gives_part = not operator.startswith(_GATHERING)
    place = _place(trace, artifact, node)
    return {
        "frame": artifact.frame,
        "graph": artifact.graph,
        "artifact": artifact.id,
        "node": node.name,
        "operator": operator,
        "call": node.target,
        "group": group,
        "ranks": ranks,
        "size": size,
        "dtype": tensors[0][1] if tensors else "",
        "shape": tensors[0][0] if tensors else (),
        "bytes": _whole(bytes, 1 if gives_part else size),
        "module": node.module or "",
        "file": place.file,
        "line": place.line,
        "code": place.code,
        "wrapper": wrapper,
        "started": span.started,
        "waited": span.waited,
        "between": span.between,
        "sent_by": "",
        "runs": None,
        "after": "",
        "before": "",
    }


@once
def eager_rows(trace: TraceData) -> tuple[CollectiveRow, ...]:
    """The collectives that were sent outside of the compiled graphs, as DDP's and FSDP2's hooks do, in order."""
    return tuple(
        _eager_row(artifact.id, data, number)
        for artifact in trace.find("eager_collective")
        for data in [typed(EagerCollectives, artifact.data)]
        for number in range(len(data.rows))
    )


def _eager_row(artifact: str, data: EagerCollectives, number: int) -> CollectiveRow:
    sent = data.rows[number]
    before, after = neighbours(data, number)
    return {
        "frame": "",
        "graph": "",
        "artifact": artifact,
        "node": "",
        "operator": sent.operator,
        "call": sent.call,
        "group": sent.group,
        "ranks": sent.ranks,
        "size": len(sent.ranks) or None,
        "dtype": sent.dtype,
        "shape": tuple(map(str, sent.shape)),
        "bytes": sent.bytes,
        "module": sent.module or _common_module(sent.parameters),
        "file": sent.file,
        "line": sent.line,
        "code": sent.code,
        "wrapper": "",
        "started": line_of(number),
        "waited": None,
        "between": (),
        "sent_by": sent_by(sent),
        "runs": sent.runs,
        "after": name_of(before) if before else "",
        "before": name_of(after) if after else "",
    }


def _common_module(parameters: Sequence[str]) -> str:
    """The path of the innermost module that has all of these parameters; "" for the outermost."""
    paths = [name.split(".")[:-1] for name in parameters]
    return ".".join(part for part, *_ in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def short_name(target: str) -> str:
    """Shorten an operator's name: "_c10d_functional.all_reduce_.default" is "all_reduce", in place or not."""
    match = _COLLECTIVE.match(target)
    return match["name"].removesuffix("_out").rstrip("_") if match else target


def _arguments(node: FxNode) -> list[object]:
    """The values of a node's arguments; a node or a list of nodes is None."""
    try:
        body, named = parsed_expression(node.args).body, parsed_expression(node.kwargs or "{}").body
    except SyntaxError:
        return []
    elements = [*(body.elts if isinstance(body, ast.Tuple) else [body]), *(named.values if isinstance(named, ast.Dict) else ())]
    return [element.value if isinstance(element, ast.Constant) else None for element in elements]


def _ranks(trace: TraceData, group: str) -> tuple[int, ...]:
    """The ranks of a group, as recorded; () where they were not."""
    groups = trace.meta.get("process_groups") or {}
    return tuple(map(int, groups.get(group, ())))


@once
def _stated_sizes(artifact: Artifact) -> Mapping[str, int]:
    """The number of ranks of each group, as operators of the graph are given it."""
    sizes: dict[str, int] = {}
    for node in all_fx_nodes(artifact):
        place = _SIZE_AT.get(short_name(node.target).removesuffix("_coalesced")) if is_collective(node.target) else None
        arguments = _arguments(node) if place is not None else []
        if place is not None and place < len(arguments) and isinstance(size := arguments[place], int):
            sizes[_group(arguments)] = size
    return sizes


def _group(arguments: Sequence[object]) -> str:
    """The name of the group: the last text among an operator's arguments."""
    return next((value for value in reversed(arguments) if isinstance(value, str)), "")


def _tensors(artifact: Artifact, node: FxNode) -> list[tuple[tuple[str, ...], str]]:
    """Shape and dtype of each tensor that a collective is given; not those that it is to fill."""
    by_name = {one.name: one for one in all_fx_nodes(artifact)}
    filled = set(re.findall(r"\w+", node.kwargs or "")) if node.target.partition(".")[2].startswith("all_gather") else set()
    given = [by_name[name] for name in node.inputs if name in by_name and name not in filled]
    return [(one.shape, one.dtype or "") for one in given if one.shape is not None]


def _bytes(shape: Sequence[str], dtype: str, values: Mapping[str, int]) -> int | None:
    lengths = [evaluated(length, values) for length in shape]
    if any(length is None for length in lengths):
        return None
    return math.prod(length or 0 for length in lengths) * element_size(dtype)


def _whole(sizes: Sequence[int | None], times: int | None) -> int | None:
    """Add up the bytes of the tensors of all ranks together; None where one is not known."""
    if not sizes or times is None or any(size is None for size in sizes):
        return None
    return sum(size or 0 for size in sizes) * times


def _place(trace: TraceData, artifact: Artifact, node: FxNode) -> StackPlace:
    """The user's innermost line of a node: the last on its stack that the trace has the source of and torch has not."""
    places = [place for place in places_of(stack_of(artifact, node.stack)) if not _OF_TORCH.search(place.file)]
    in_program = [place for place in places if source_line(trace, place.file, place.line, frame=artifact.frame)]
    return next(reversed(in_program or places), NOWHERE)


# Where it starts and is waited for ---------------------------------------------------------------------------------------


def _spans_in_graphs(artifact: Artifact, nodes: Sequence[FxNode]) -> dict[str, Span]:
    """The same for each of several graphs, one inside another; a node inside has the path of its graph before its name."""
    graphs: dict[str, list[FxNode]] = {}
    for node in nodes:
        graphs.setdefault(node.name.rpartition(".")[0], []).append(node)
    return {name: span for own in graphs.values() for name, span in _spans_in_graph(artifact, own).items()}


def _spans_in_graph(artifact: Artifact, nodes: Sequence[FxNode]) -> dict[str, Span]:
    """Return the lines of a graph that start its collectives and wait for them."""
    lines = node_lines(artifact)
    waits: dict[str, int] = {}
    started_by: dict[str, str] = {}  # each value that is not complete yet, and the collective that makes it
    for place, node in enumerate(nodes):
        source = next((started_by[name] for name in node.inputs if name in started_by), "")
        if node.op == "call_function" and is_collective(node.target):
            started_by[node.name] = node.name
        elif source and is_wait(node.target):
            waits.setdefault(source, place)
        elif source and "getitem" in node.target:
            started_by[node.name] = source
    found = {}
    for place, node in enumerate(nodes):
        if started_by.get(node.name) == node.name:
            end = waits.get(node.name)
            inside = nodes[place + 1 : end] if end is not None else ()
            computing = tuple(n.name for n in inside if n.op == "call_function" and not _exchanges(n.target))
            found[node.name] = Span(lines.get(node.name), lines.get(nodes[end].name) if end is not None else None, computing)
    return found


def _exchanges(target: str) -> bool:
    return is_collective(target) or is_wait(target)


def _wrapper(trace: TraceData, artifact: Artifact) -> Artifact | None:
    """The wrapper in Python that was made of a graph, of several graphs of a name by number; None without one."""
    wrappers = [a for a in trace.find("output_code", artifact.frame, artifact.graph) if a.language != "cpp"]
    graphs = [a.id for a in trace.find("post_grad", artifact.frame, artifact.graph)]
    if artifact.id not in graphs or not wrappers:
        return None
    if len(graphs) == 1:
        return wrappers[-1]
    return wrappers[graphs.index(artifact.id)] if len(graphs) == len(wrappers) else None


def _spans_in_wrapper(trace: TraceData, graph: Artifact, found: Sequence[FxNode], wrapper: Artifact) -> dict[str, Span]:
    """Return the lines of the wrapper that start the graph's collectives and wait for them; {} if it does not say."""
    calls = sites(wrapper)
    started = [site for site in calls if is_collective(site.name)]
    nodes = _nodes_of_sites(trace, graph, found, wrapper, started)
    waited = _waits(calls)
    return {name: _span(calls, site, waited.get(site.line)) for name, site in nodes.items()}


def _nodes_of_sites(
    trace: TraceData, graph: Artifact, found: Sequence[FxNode], wrapper: Artifact, started: Sequence[Site]
) -> dict[str, Site]:
    """The call of the wrapper that each collective of the graph became: by links, the others by operator and order."""
    by_line = {line: name for name, line in node_lines(graph).items()}
    targets = {node.name: short_name(node.target) for node in found}
    linked: dict[int, list[str]] = {}
    for link in trace.links:
        if link.source == wrapper.id and link.target == graph.id and link.how == EXTERN:
            for line in link.source_lines:
                linked.setdefault(line, []).extend(by_line[n] for n in link.target_lines if n in by_line)
    nodes: dict[str, Site] = {}
    for site in started:
        names = [n for n in linked.get(site.line, ()) if targets.get(n) == _target(site) and n not in nodes]
        if len(names) == 1:
            nodes[names[0]] = site
    taken = {site.line for site in nodes.values()}
    for target in dict.fromkeys(targets.values()):
        left = [site for site in started if _target(site) == target and site.line not in taken]
        lacking = [name for name, its in targets.items() if its == target and name not in nodes]
        if len(left) == len(lacking):
            nodes.update(zip(lacking, left, strict=True))
    return nodes


def _target(site: Site) -> str:
    """The operator that a wrapper calls, in place or not, as `short_name` has it: Inductor may have chosen the other."""
    return short_name(site.name)


def _waits(calls: Sequence[Site]) -> dict[int, int]:
    """The line of the first wait for each collective, by the line that starts it."""
    waits: dict[int, int] = {}
    for start, wait in _pairs(calls):
        if start:
            waits.setdefault(start, wait)
    return waits


def starts_of_waits(wrapper: Artifact) -> tuple[int, ...]:
    """For each wait of a wrapper, in order, return the line that starts its collective; 0 if that is not in the wrapper."""
    return tuple(start for start, _ in _pairs(sites(wrapper)))


def _pairs(calls: Sequence[Site]) -> Iterator[tuple[int, int]]:
    """The lines of each wait: where what it waits for starts, or 0, and its own."""
    pending: dict[str, int] = {}  # the collective that fills each variable
    for site in calls:
        if is_collective(site.name):
            pending.update(dict.fromkeys(_filled(site), site.line))
        elif is_wait(site.name) and site.arguments:
            names = (*site.names_of(site.arguments[0]), *re.findall(r"[A-Za-z_]\w*", site.arguments[0]))
            starts = [pending[name] for name in names if name in pending]
            yield starts[0] if starts else 0, site.line


def _filled(site: Site) -> tuple[str, ...]:
    """Return the variables that a collective fills: its result, the tensors that it overwrites, or `out`."""
    if site.result:
        return (site.result,)
    given = site.keywords.get("out") or (site.arguments[0] if site.arguments else "")
    return (variable_of(given),) if variable_of(given) else tuple(re.findall(r"[A-Za-z_]\w*", given))


def _span(calls: Sequence[Site], site: Site, end: int | None) -> Span:
    """The span of a call, with the kernels and library calls up to its wait."""
    inside = [one for one in calls if end is not None and site.line < one.line < end and not _exchanges(one.name)]
    return Span(site.line, end, tuple(one.name for one in inside))


__all__ = [
    "CollectiveRow",
    "collective_rows",
    "collectives",
    "eager_rows",
    "in_order",
    "is_collective",
    "is_wait",
    "short_name",
    "starts_of_waits",
]
