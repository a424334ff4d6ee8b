"""How Inductor lowered each FX node: by which function, to what, and why a library is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from explorer.model.records import typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.model.wording import quantity
from explorer.stages.fx_graph import of_graph
from explorer.stages.inductor.lowered import LoweredNode, LoweredOperation, Lowering, kinds_of_node, said_of_loops, why_fallback
from explorer.stages.inductor.scheduler_ir import post_grad_lines

#: A line of the text and the FX node that it is about, "" for none.
Line = tuple[str, str]


def render(event: Event, id: str) -> Artifact:
    """A line a node, and Inductor's decisions on loops; `data` has them as recorded, see `t.inductor.lowerings`."""
    recorded = typed(Lowering, event.data)
    text = "\n".join(text for text, _ in readable(recorded))
    return text_artifact(event, id, f"Lowering{of_graph(recorded.of)}", "text", text=text)


def readable(data: Lowering) -> Iterator[Line]:
    """The text, line by line."""
    operations = operations_by_node(data)
    for node in data.lowered:
        yield _node_line(node, operations.get(node.node, ())), node.node
    for title, decisions in said_of_loops(data):
        yield "", ""
        yield title, ""
        for node_name, said in decisions:
            yield f"  {node_name}: {said}" if node_name else f"  {said}", node_name


def operations_by_node(data: Lowering) -> dict[str, list[LoweredOperation]]:
    """Return the operations of each FX node, in the order in which they were made."""
    operations: dict[str, list[LoweredOperation]] = {}
    for operation in data.operations:
        operations.setdefault(operation.node, []).append(operation)
    return operations


def _node_line(node: LoweredNode, operations: Sequence[LoweredOperation]) -> str:
    kinds = " + ".join(kinds_of_node(node, operations))
    by = f", by {node.function} ({node.file}:{node.line})" if node.function else ""
    buffers = ", ".join(name for operation in operations for name in operation.buffers)
    why = next((f": {why_fallback(one.reason)}" for one in operations if one.reason is not None), "")
    return f"{node.node} = {node.target} → {kinds}{f' in {buffers}' if buffers else ''}{by}{why}"


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Each line to the FX node that it is about, in the post-grad graph."""
    graph, lines = post_grad_lines(artifact, trace)
    data = typed(Lowering, artifact.data)
    within = f"{data.path}." if data.path else ""
    for number, (_, node) in enumerate(readable(data), 1):
        if node and within + node in lines:
            yield Link(artifact.id, (number,), graph, (lines[within + node],), "FX node")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many nodes were lowered, and how many of them call a library for want of a lowering."""
    recorded = [(artifact.id, typed(Lowering, artifact.data)) for artifact in artifacts]
    nodes = sum(len(data.lowered) for _, data in recorded)
    called = {(id, one.node) for id, data in recorded for one in data.operations if one.reason is not None}
    return quantity(nodes, "node") + (f", {quantity(len(called), 'fallback')}" if called else "")


STAGE = Stage(
    name="lowering",
    title="Lowering",
    language="text",
    event=Lowering,
    artifact=Lowering,
    render=render,
    link=link,
    summary=summary,
    backend="inductor",
    about="Which function lowered each FX node to a loop nest, a template or a call, and why a library is called.",
)
