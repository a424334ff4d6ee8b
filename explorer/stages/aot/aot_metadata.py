"""AOTAutograd's view-and-mutation metadata: inputs that are changed in place, and outputs that are views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, Plain
from explorer.stages.fx_graph import captured_graphs, node_lines, outer_nodes


@record
class GraphInput(Record):
    """An input of AOTAutograd's graph, and what the program does to it.

    `type` is its dtype and sizes, "" where that is not known. `mutation` is torch's: "not_mutated", "mutated_in_graph" (the
    compiled graph changes it) or "mutated_out_graph" (the code around the graph copies the new value into it).
    """

    type: str
    mutation: str
    mutates_data: bool
    mutates_metadata: bool
    is_leaf: bool
    requires_grad: bool


@record
class GraphOutput(Record):
    """An output of the program: torch's `OutputType` by name, and the number of the value that it views, or None."""

    kind: str
    base: int | None
    requires_grad: bool


@record
class AotMetadata(Record):
    """AOTAutograd's metadata of a graph: the inputs that are changed in place, and the outputs that are views."""

    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]


#: What happens to an input that the program changes, by torch's MutationType.
CHANGED = {
    "not_mutated": "not changed",
    "mutated_in_graph": "changed in the graph",
    "mutated_out_graph": "changed after the graph, by copying its new value into it",
}
#: What an output is, by torch's OutputType; the number is that of its base.
OUTPUTS = {
    "non_alias": "a tensor of its own",
    "is_input": "input {base} itself",
    "alias_of_input": "a view of input {base}, made from it after the graph",
    "alias_of_intermediate_save_as_output": "a view of an intermediate tensor, which the graph returns too (extra output {base})",
    "alias_of_intermediate": "a view of an intermediate tensor that the graph returns already (extra output {base})",
    "alias_of_intermediate_base_is_user_output": "a view of output {base}, made from it after the graph",
    "unsafe_view_alias": "an unsafe view, taken for a tensor of its own",
    "custom_function_view": "a view that an autograd.Function made",
}

#: The kinds of outputs that share no memory with an input or another output, as far as AOTAutograd is concerned.
NO_VIEWS = ("non_alias", "unsafe_view_alias")


def rows_of(data: AotMetadata) -> Iterator[dict[str, Plain]]:
    """One row for each input, then for each output, with a sentence on each."""
    for number, each in enumerate(data.inputs):
        of = " (sizes or strides)" if each.mutates_metadata and not each.mutates_data else ""
        words = CHANGED.get(each.mutation, each.mutation) + of
        yield {"what": "input", "number": number, "type": each.type, "is": words}
    for number, output in enumerate(data.outputs):
        words = OUTPUTS.get(output.kind, output.kind).format(base=output.base)
        yield {"what": "output", "number": number, "type": "", "is": words}


def render(event: Event, id: str) -> Artifact:
    """One line for each input and output."""
    rows = rows_of(typed(AotMetadata, event.data))
    lines = (" ".join(filter(None, (row["what"], str(row["number"]), row["type"], "is", row["is"]))) for row in rows)
    return text_artifact(event, id, "Views and mutations", "text", text="\n".join(lines))


def rows(artifact: Artifact, trace: TraceData) -> Iterable[Mapping[str, Plain]]:
    """The rows of `Trace.table`."""
    return rows_of(typed(AotMetadata, artifact.data))


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link inputs and outputs to the nodes of Dynamo's graph by position; none where their numbers differ."""
    data = typed(AotMetadata, artifact.data)
    for graph in captured_graphs(trace, artifact.frame)[:1]:
        lines = node_lines(graph)
        inputs = [node.name for node in outer_nodes(graph) if node.op == "placeholder"]
        outputs = [name for node in outer_nodes(graph) if node.op == "output" for name in node.inputs]
        first = len(data.inputs)
        for names, count, start in ((inputs, first, 0), (outputs, len(data.outputs), first)):
            if len(names) == count:
                for number, name in enumerate(names, start + 1):
                    if name in lines:
                        yield Link(artifact.id, (number,), graph.id, (lines[name],), "position")


def summary(artifacts: Sequence[Artifact]) -> str:
    """How many inputs are changed, and how many outputs are views."""
    metadata = [typed(AotMetadata, artifact.data) for artifact in artifacts]
    changed = sum(each.mutation != "not_mutated" for data in metadata for each in data.inputs)
    views = sum(each.kind not in NO_VIEWS for data in metadata for each in data.outputs)
    counts = ((changed, "input changed", "inputs changed"), (views, "view", "views"))
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


STAGE = Stage(
    name="aot_metadata",
    title="Views and mutations",
    language="text",
    event=AotMetadata,
    artifact=AotMetadata,
    render=render,
    link=link,
    summary=summary,
    rows=rows,
    secondary=True,
    about="What AOTAutograd found of the inputs and outputs: what the program changes in place, and what is a view of what.",
)
