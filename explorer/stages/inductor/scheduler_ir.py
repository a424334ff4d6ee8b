"""Link Inductor's IR, before and after fusion: scheduler nodes and their operations to FX nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import ORIGINS, Artifact, Event, Link, once
from explorer.stages.fx_graph import node_lines, of_graph


@record
class BufferLayout(Record):
    """A buffer in memory: its dtype, such as "torch.float32", and size and stride in elements, as the compiler writes them.

    `mutates` names the buffer or graph input in whose memory it is, where the node works in place; where that writes through a
    view, `size` is the view's, and `stride` is ().
    """

    dtype: str
    size: Names
    stride: Names
    mutates: str | None = None


@record
class SchedulerNode(Record):
    """A node of Inductor's scheduler.

    `kind` is the class of the node. `reads` and `writes` name buffers, `inputs` the nodes that write what it reads, `fused` the
    nodes in it and `origins` the FX nodes it computes; `node` is the one whose result it writes. `sizes` are the ranges of its
    loops, parallel then reduced. `layouts` has the layouts of the buffers that it makes, by name. `bodies` has the FX node of
    each operation, by node in it, block and operation. `line_count` is the number of its lines in the text.
    """

    name: str
    kind: str
    device: str
    fused: Names
    inputs: Names
    reads: Names
    writes: Names
    sizes: tuple[Names, ...]
    origins: Names
    line_count: int
    node: str | None = None
    layouts: Mapping[str, BufferLayout] | None = None
    bodies: Mapping[str, Mapping[str, Mapping[str, str]]] | None = None


@record
class SchedulerGraph(Record):
    """The scheduler's nodes before or after fusion; `of` is Inductor's name of the graph, `path` its path in the outermost."""

    nodes: tuple[SchedulerNode, ...]
    of: str | None = None
    path: str | None = None


@record
class SchedulerText(SchedulerGraph):
    """The scheduler's nodes, as TORCH_COMPILE_DEBUG=1 writes them."""

    text: str


#: How an operation of a LoopBody is known: the FX node under way when it was traced.
LOOP_BODY = "LoopBody"
_HEADER = re.compile(r"^(?P<name>\w+): (?:\w*(?:Scheduler|Foreach|Fused|Kernel)\w*)\(")
_BODY = re.compile(r"^class (?P<name>\w+)_loop_body:")
_BLOCK = re.compile(r"^    def (?P<name>\w+)\(")
_OPERATION = re.compile(r"^        (?P<name>\w+) = ")


def render_nodes(event: Event, id: str, title: str) -> Artifact:
    """The scheduler's nodes as TORCH_COMPILE_DEBUG=1 writes them."""
    data = typed(SchedulerText, event.data)
    return text_artifact(event, id, title + of_graph(data.of), "inductor-ir", text=data.text.rstrip())


def scheduler_nodes(artifact: Artifact) -> tuple[SchedulerNode, ...]:
    """The scheduler's nodes in Inductor's IR."""
    return typed(SchedulerGraph, artifact.data).nodes


@once
def headers(artifact: Artifact) -> Mapping[str, int]:
    """The first line of each scheduler node by its name, of those inside fused nodes too."""
    return {m["name"]: n for n, line in reversed(list(enumerate(artifact.lines, 1))) if (m := _HEADER.match(line))}


def all_nodes(artifact: Artifact, trace: TraceData) -> Iterator[tuple[Artifact, int, SchedulerNode]]:
    """(IR after fusion, line, node) for each scheduler node of an artifact's graph and of the graphs inside it."""
    for after in trace.find("ir_post_fusion", artifact.frame, artifact.graph):
        first = headers(after)
        yield from ((after, first[node.name], node) for node in scheduler_nodes(after) if node.name in first)


def operations(artifact: Artifact) -> Iterator[tuple[int, str, str, str]]:
    """(line, scheduler node, block, name) for each operation of the LoopBodies."""
    node = block = ""
    for number, line in enumerate(artifact.lines, 1):
        if header := _BODY.match(line):
            node, block = header["name"], ""
        elif not line.startswith(" "):
            node = ""
        elif node and (start := _BLOCK.match(line)):
            block = start["name"]
        elif node and block and (operation := _OPERATION.match(line)):
            yield number, node, block, operation["name"]


def post_grad_lines(artifact: Artifact, trace: TraceData) -> tuple[str, Mapping[str, int]]:
    """The id of the post-grad graph of an artifact's frame and graph, and the line of each of its nodes."""
    graphs = trace.find("post_grad", artifact.frame, artifact.graph)
    return (graphs[-1].id, node_lines(graphs[-1])) if graphs else ("", {})


def link_nodes(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each operation to the FX node it was traced for, and each scheduler node to all FX nodes it comes from."""
    graph, lines = post_grad_lines(artifact, trace)
    data = typed(SchedulerGraph, artifact.data)
    path = data.of if data.path is None else data.path
    within = f"{path}." if path else ""
    bodies: dict[str, Mapping[str, Mapping[str, str]]] = {}
    first = headers(artifact)
    for node in data.nodes:
        bodies.update(node.bodies or {})
        origins = tuple(sorted(lines[within + name] for name in node.origins if within + name in lines))
        if node.name in first and origins:
            yield Link(artifact.id, (first[node.name],), graph, origins, ORIGINS)
    by_node: dict[int, list[int]] = {}
    for number, scheduler_node, block, name in operations(artifact):
        fx_nodes = bodies.get(scheduler_node, {}).get(block, {}).get(name) or ""
        for each in fx_nodes.split():  # of a load also the views that its index is of
            if each in lines:
                by_node.setdefault(lines[each], []).append(number)
    for line, numbers in by_node.items():
        yield Link(artifact.id, tuple(numbers), graph, (line,), LOOP_BODY)
