"""Render FX graphs, and link their nodes to the user's lines; shared by the stages that are FX graphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from explorer.model.records import FieldError, Record, changed, record, typed
from explorer.model.shared import FxNode, Names
from explorer.model.stage import text_artifact
from explorer.model.trace_data import TraceData, source_line
from explorer.model.values import CALL_STACK, CALLED_FROM, Artifact, Event, Link, once, text_lines
from explorer.stages.program_names import module_name, program_name


@record
class FxGraph(Record):
    """An FX graph: its nodes, the nodes of the graphs inside it, and the distinct Python stacks of its nodes.

    `graph_text` is the graph as `print(gm.graph)` writes it. `of` is the path of a graph inside another one, "" for the
    outermost. Logs and caches have only the text, from which `graph_of_text` reads the nodes; `cached` says that it is a cache's.
    """

    nodes: tuple[FxNode, ...] | None = None
    inner: tuple[FxNode, ...] | None = None
    stacks: Names | None = None
    graph_text: str | None = None
    of: str | None = None
    cached: bool | None = None


@record
class FxGraphText(FxGraph):
    """An FX graph, as Python with shapes, strides, devices and the user's lines as comments."""

    text: str


#: Operators that compute nothing: they give a view of a tensor, or one of several tensors.
VIEWS = re.compile(
    r"^(aten\.(_unsafe_view|_reshape_alias|alias|as_strided|detach|expand|permute|reshape|select|slice|split\w*|squeeze|t|transpose|"
    r"unbind|unsqueeze|view)\.|_operator\.getitem|operator\.getitem|getitem)"
)
_COMMENT = re.compile(r"^\s*# (?:File: (?P<file>.+?):(?P<line>\d+) in .*|No stacktrace found.*)$")

_NODE = re.compile(r"^\s+(?P<name>\w+)(?:: [^=]*)? = ")
#: An operator in place, or `x[i] = y`: what it does comes first, and then its node's name.
_IN_PLACE = re.compile(r"^\s+\w+(?:\[.*\] =| [^\s\w=]+=) .*?;  (?P<name>\w+)(?:: [^=]*)? = ")
_NESTED = re.compile(r"^\s+class (?P<name>\w+)\(")
#: What torch.func and torch.autograd hand to autograd inside a graph.
_DERIVES = re.compile(r"autograd_grad\b|autograd\.(?:grad|backward)\b|_(?:jvp|vjp)\b")
_PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>\S+)')


class StackPlace(NamedTuple):
    """A place of a Python traceback, and the code there."""

    file: str
    line: int
    function: str
    code: str


#: What a row of a table has where no line of the user's is known.
NOWHERE = StackPlace("", 0, "", "")


def render_graph(title: str) -> Callable[[Event, str], Artifact]:
    """A render function for a stage whose event holds an FX graph's text and nodes."""

    def render(event: Event, id: str) -> Artifact:
        """The graph's text, its nodes with the user's innermost line each."""
        graph = typed(FxGraphText, event.data)
        placed = replace(event, data=_with_places(graph))
        return text_artifact(placed, id, title + of_graph(graph.of), "fx", text=graph.text.strip("\n"))

    return render


def _with_places(graph: FxGraphText) -> FxGraphText:
    """The graph, each node with the innermost place of its stack."""
    places = [innermost(stack) for stack in graph.stacks or ()]
    nodes, inner = (part and tuple(_placed(node, places) for node in part) for part in (graph.nodes, graph.inner))
    return replace(graph, nodes=nodes, inner=inner)


def _placed(node: FxNode, places: Sequence[StackPlace | None]) -> FxNode:
    """The node with its place, and with its module's path as the program writes it."""
    place = None if node.stack is None else places[node.stack]
    if node.module and (module := module_name(node.module)) != node.module:
        node = changed(node, module=module)
    return node if place is None else changed(node, file=place.file, line=place.line, function=place.function, code=place.code)


def of_graph(path: str | None) -> str:
    """Word the path of a graph inside another one for a title; "" for the outermost."""
    return f" of {path}" if path else ""


@once
def outer_nodes(artifact: Artifact) -> tuple[FxNode, ...]:
    """Return the nodes of an FX graph, without the nodes of graphs inside it."""
    return tuple(typed(FxNode, node) for node in artifact.nodes)


@once
def all_fx_nodes(artifact: Artifact) -> tuple[FxNode, ...]:
    """The nodes of an FX graph and then of the graphs inside it; none for the artifact of another stage."""
    return (*outer_nodes(artifact), *(typed(FxNode, node) for node in artifact.inner))


def innermost(stack: str) -> StackPlace | None:
    """The last place of a Python traceback; None where it has none."""
    places = places_of(stack)
    return places[-1] if places else None


def places_of(stack: str) -> list[StackPlace]:
    """The places of a Python traceback, the outermost first."""
    matches = list(_PLACE.finditer(stack))
    return [
        StackPlace(m["file"], int(m["line"]), m["function"], stack[m.end() :].strip().partition("\n")[0].strip()) for m in matches
    ]


def link_rows(artifact: Artifact, lines: Iterable[tuple[str, int]], trace: TraceData) -> Iterator[Link]:
    """Link each row of a table to the user's line on its stack; `lines` has the file and line of each, 0 for none."""
    for number, (file, line) in enumerate(lines, 1):
        if line and (place := source_line(trace, file, line, frame=artifact.frame)):
            yield Link(artifact.id, (number,), *_at(place), "stack_trace")


def file_comments(text: str) -> Iterator[tuple[int, str, int]]:
    """(line of the text, file, line of the file) for each line of code under a "# File: …" comment."""
    file, line = "", 0
    for number, content in enumerate(text_lines(text), 1):
        if comment := _COMMENT.match(content):
            file, line = comment["file"] or "", int(comment["line"] or 0)
        elif content.lstrip().startswith(("class ", "def ")):
            file = ""  # a nested graph begins, and no comment is said to go on into it
        elif file and "=" in content and not content.lstrip().startswith("#"):
            yield number, file, line


def link_files(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each line of a graph to the user's lines on its node's stack, or else to the line that its comment names."""
    if artifact.nodes:
        return link_stacks(artifact, trace)
    return [
        Link(artifact.id, (number,), *_at(place), "File comment")
        for number, file, line in file_comments(artifact.text)
        if (place := source_line(trace, file, line, frame=artifact.frame))
    ]


def link_stacks(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link the nodes of each stack to the user's innermost line on it, and to the calls that led there."""
    lines, calls = node_lines(artifact), nodes_of_calls(artifact, trace)
    by_stack: dict[tuple[int, bool], list[int]] = {}
    for node in all_fx_nodes(artifact):
        if node.stack is not None and node.name in lines:
            by_stack.setdefault((node.stack, node.name in calls), []).append(lines[node.name])
    for (number, of_call), where in by_stack.items():
        how = CALL_STACK if of_call else "stack_trace"
        for place in reversed(list(_PLACE.finditer(stack_of(artifact, number)))):
            if source := source_line(trace, place["file"], int(place["line"]), frame=artifact.frame):
                yield Link(artifact.id, tuple(where), *_at(source), how)
            how = CALLED_FROM


def stack_of(artifact: Artifact, number: int | None) -> str:
    """The Python stack that a node of the graph has by its number; "" for a node without one."""
    stacks = typed(FxGraph, artifact.data).stacks
    return "" if number is None or stacks is None else stacks[number]


def nodes_of_calls(artifact: Artifact, trace: TraceData) -> set[str]:
    """The nodes whose stack ends at a call, without a line inside the called function.

    Those of a graph that is an argument of a node, where they have the stack of that node, and the gradients of torch.func.
    """
    callers = _callers(artifact)
    names = set()
    for node in all_fx_nodes(artifact)[len(artifact.nodes) :]:
        caller = callers.get(node.name.rpartition(".")[0])
        if caller is not None and node.stack is not None and node.stack == caller.stack:
            names.add(node.name)
    traced = any(node.from_ is not None for node in outer_nodes(artifact))
    derivatives = _derivatives(trace, artifact.frame) if traced else set()
    return names | {node.name for node in all_fx_nodes(artifact) if derivatives.intersection((node.from_ or ())[:1])}


def _callers(artifact: Artifact) -> dict[str, FxNode]:
    """The node that each graph inside is an argument of, by the graph's path."""
    graphs = {node.name: node.target for node in all_fx_nodes(artifact) if node.op == "get_attr"}
    callers: dict[str, FxNode] = {}
    for node in all_fx_nodes(artifact):
        for name in node.inputs if node.op != "output" else ():
            if name in graphs:
                above = name.rpartition(".")[0]
                callers[f"{above}.{graphs[name]}" if above else graphs[name]] = node
    return callers


def runs_inside(artifact: Artifact, path: str) -> int:
    """How often one run of a graph runs a graph inside it: once, or as often as nodes invoke it as their region."""
    above, _, name = path.rpartition(".")
    nodes = [node for node in all_fx_nodes(artifact) if node.name.rpartition(".")[0] == above]
    regions = {node.name for node in nodes if node.op == "get_attr" and node.target == name}
    invoking = [node for node in nodes if node.target.endswith("invoke_subgraph") and regions & {*node.inputs}]
    return max(1, len(invoking)) * (runs_inside(artifact, above) if above else 1)


def _derivatives(trace: TraceData, frame: str) -> set[str]:
    """The nodes of Dynamo's graph that stand for a whole backward or forward derivative."""
    return {node.name for graph in captured_graphs(trace, frame) for node in outer_nodes(graph) if _DERIVES.search(node.target)}


def _at(place: tuple[str, int]) -> tuple[str, tuple[int]]:
    return place[0], (place[1],)


@once
def node_lines(artifact: Artifact) -> Mapping[str, int]:
    """The line of the text on which each node is computed, by the node's name.

    Nested graphs, such as the branches of a cond, stand below as classes of their own, and those inside them again below
    these, indented further; a node there is `class.node`, or `class.class.node`.
    """
    lines: dict[str, int] = {}
    classes: list[tuple[int, str]] = []
    inside = ""
    for number, line in enumerate(artifact.lines, 1):
        if number > 1 and (nested := _NESTED.match(line)):
            indent = len(line) - len(line.lstrip())
            classes = [*(outer for outer in classes if outer[0] < indent), (indent, nested["name"])]
            inside = "".join(f"{name}." for _, name in classes)
        elif node := _NODE.match(line) or _IN_PLACE.match(line):
            lines[inside + node["name"]] = number
    return lines


def readable_nodes(artifact: Artifact) -> tuple[FxNode, ...]:
    """Return `all_fx_nodes`; none if the nodes have another form, as in a stage of the user's own."""
    try:
        return all_fx_nodes(artifact)
    except FieldError:
        return ()


#: An input of Dynamo's graph in AOTAutograd's name for one of its own.
_ARGUMENT = re.compile(r"\bargs\[(\d+)\]")
_OF_A_MODULE = re.compile(r"^self\.get_(?:parameter|buffer)\('(.*)'\)$")
_TANGENT = re.compile(r"^__output_tangent\(output\[(\d+)\]\)$")


def input_names(trace: TraceData, frame: str, graph: str) -> dict[str, str]:
    """The program's names for the inputs of a compiled graph: "h.0.attn.weight" for "primals_3", "x" for "arg0_1".

    A parameter or buffer is called as its module calls it, by the path below the module that was compiled.
    """
    return _input_names(trace).get((frame, graph), {})


@once
def _input_names(trace: TraceData) -> dict[tuple[str, str], dict[str, str]]:
    """`input_names` of every graph of a trace: kernels ask for theirs one by one."""
    captured = ((a.frame, outer_nodes(a)) for a in (*trace.find("dynamo"), *trace.find("piece")))
    compiled = (((a.frame, a.graph), outer_nodes(a)) for stage in COMPILED for a in trace.find(stage))
    return names_of_inputs(captured, compiled)


def captured_graphs(trace: TraceData, frame: str) -> tuple[Artifact, ...]:
    """The graph of Dynamo's that a frame is compiled from: of a piece its own part."""
    return trace.find("piece", frame) or trace.find("dynamo", frame)


#: The stages that are graphs as a compiler is handed them, whose inputs have names in the program.
COMPILED = ("forward", "inductor_input", "backward", "post_grad")


def names_of_inputs(
    captured: Iterable[tuple[str, Sequence[FxNode]]], compiled: Iterable[tuple[tuple[str, str], Sequence[FxNode]]]
) -> dict[tuple[str, str], dict[str, str]]:
    """The program's names for the inputs of each compiled graph, by (frame, graph), of the nodes of Dynamo's graphs by frame."""
    sources_by_frame: dict[str, list[str]] = {}
    for frame, nodes in captured:
        sources_by_frame[frame] = [program_name(node.input or "") for node in nodes if node.op == "placeholder"]
    names_by_graph: dict[tuple[str, str], dict[str, str]] = {}
    for place, nodes in compiled:
        names = names_by_graph.setdefault(place, {})
        for node in nodes:
            if node.op == "placeholder" and (name := _of_input(node.input or "", sources_by_frame.get(place[0], ()))):
                names[node.name] = name
    return names_by_graph


def _of_input(expression: str, sources: Sequence[str]) -> str:
    """Return the program's name inside AOTAutograd's name for an input; "" if there is none."""
    if of_module := _OF_A_MODULE.match(expression):
        return of_module[1]
    if tangent := _TANGENT.match(expression):
        return f"gradient of output {tangent[1]}"
    numbers = [int(number) for number in _ARGUMENT.findall(expression)]
    if not numbers or any(number >= len(sources) or not sources[number] for number in numbers):
        return ""
    return _ARGUMENT.sub(lambda match: sources[int(match[1])], expression)


def short(file: str) -> str:
    """A file's name without its folders, for titles."""
    return Path(file).name or file
