"""What the stages that are FX graphs share: the links their text states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from explorer.model.stage import text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import CALL_STACK, CALLED_FROM, Artifact, Event, Link, Plain, once, plain, text_lines

_COMMENT = re.compile(r"^\s*# (?:File: (?P<file>.+?):(?P<line>\d+) in .*|No stacktrace found.*)$")

_NODE = re.compile(r"^\s+(?P<name>\w+)(?:: [^=]*)? = ")
#: An operator in place, or `x[i] = y`: what it does comes first, and then its node's name.
_IN_PLACE = re.compile(r"^\s+\w+(?:\[.*\] =| [^\s\w=]+=) .*?;  (?P<name>\w+)(?:: [^=]*)? = ")
_NESTED = re.compile(r"^\s+class (?P<name>\w+)\(")
#: What torch.func and torch.autograd hand to autograd inside a graph.
_DERIVES = re.compile(r"autograd_grad\b|autograd\.(?:grad|backward)\b|_(?:jvp|vjp)\b")
_PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>\S+)')


def render_graph(title: str) -> Callable[[Event, str], Artifact]:
    """A render function for a stage whose event holds an FX graph's text and nodes."""

    def render(event: Event, id: str) -> Artifact:
        """The graph's text, its nodes with the user's innermost line each."""
        data = {k: v for k, v in event.data.items() if k != "text"}
        if "nodes" in data:
            places = [innermost(stack) for stack in data["stacks"]]
            for key in ("nodes", "inner") if "inner" in data else ("nodes",):
                data[key] = tuple(plain({**n, **places[n["stack"]]}) if "stack" in n else n for n in data[key])
        return text_artifact(
            event,
            id,
            f"{title} of {data['of']}" if data.get("of") else title,
            "fx",
            text=str(event.data.get("text", "")).strip("\n"),
            data=plain(data),
        )

    return render


def of_graph(event: Event) -> str:
    """What a title says of an event of a graph inside another one; "" for one of the outermost."""
    return f" of {event.data['of']}" if event.data.get("of") else ""


def innermost(stack: str) -> dict[str, Plain]:
    """The last place of a Python traceback: file, line, function and the code there."""
    places = list(_PLACE.finditer(stack))
    if not places:
        return {}
    last = places[-1]
    code = stack[last.end() :].strip().partition("\n")[0]
    return {"file": last["file"], "line": int(last["line"]), "function": last["function"], "code": code.strip()}


def placed_rows(event: Event) -> list[dict[str, Plain]]:
    """The rows of a table, each once, with the innermost line of the user's of its `stack`: file, line, function and code."""
    nowhere = {"file": "", "line": 0, "function": "", "code": ""}
    rows = [{**row, **nowhere, **innermost(str(row.get("stack", "")))} for row in event.data["rows"]]
    kept = [{key: value for key, value in row.items() if key != "stack"} for row in rows]
    return [row for number, row in enumerate(kept) if row not in kept[:number]]


def link_rows(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each row of a table to the user's line that its stack names."""
    for number, row in enumerate(artifact.data["rows"], 1):
        if row["line"] and (found := trace.source_line(row["file"], row["line"], frame=artifact.frame)):
            yield Link(artifact.id, (number,), *_at(found), "stack_trace")


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
    """Each line of a graph to the user's lines on its node's stack, or else to the one its comment names."""
    if artifact.nodes:
        return link_stacks(artifact, trace)
    return [
        Link(artifact.id, (number,), *_at(found), "File comment")
        for number, file, line in file_comments(artifact.text)
        if (found := trace.source_line(file, line, frame=artifact.frame))
    ]


def link_stacks(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """The lines of all nodes made by one stack, to the user's line that made them and to the calls that led there."""
    lines, calls = node_lines(artifact), nodes_of_calls(artifact, trace)
    by_stack: dict[tuple[int, bool], list[int]] = {}
    for node in (*artifact.nodes, *artifact.inner):
        if "stack" in node and node["name"] in lines:
            by_stack.setdefault((node["stack"], node["name"] in calls), []).append(lines[node["name"]])
    for (number, of_call), where in by_stack.items():
        how = CALL_STACK if of_call else "stack_trace"
        for place in reversed(list(_PLACE.finditer(artifact.data["stacks"][number]))):
            if found := trace.source_line(place["file"], int(place["line"]), frame=artifact.frame):
                yield Link(artifact.id, tuple(where), *_at(found), how)
            how = CALLED_FROM


def nodes_of_calls(artifact: Artifact, trace: TraceData) -> set[str]:
    """The nodes that state where a call stands which led to them, and no line inside it.

    Those of a graph that is an argument of a node, where they have the stack of that node, and the gradients of torch.func.
    """
    callers = _callers(artifact)
    found = set()
    for node in artifact.inner:
        caller = callers.get(node["name"].rpartition(".")[0])
        if caller is not None and node.get("stack", -1) == caller.get("stack"):
            found.add(node["name"])
    derivatives = _derivatives(trace, artifact.frame) if any("from" in node for node in artifact.nodes) else set()
    return found | {n["name"] for n in (*artifact.nodes, *artifact.inner) if derivatives.intersection(n.get("from", ())[:1])}


def _callers(artifact: Artifact) -> dict[str, Mapping[str, Plain]]:
    """The node that each graph inside is an argument of, by the graph's path."""
    graphs = {node["name"]: str(node["target"]) for node in (*artifact.nodes, *artifact.inner) if node.get("op") == "get_attr"}
    found: dict[str, Mapping[str, Plain]] = {}
    for node in (*artifact.nodes, *artifact.inner):
        for name in node.get("inputs", ()) if node.get("op") != "output" else ():
            if name in graphs:
                above = name.rpartition(".")[0]
                found[f"{above}.{graphs[name]}" if above else graphs[name]] = node
    return found


def _derivatives(trace: TraceData, frame: str) -> set[str]:
    """The nodes of Dynamo's graph that stand for a whole backward or forward derivative."""
    return {node["name"] for graph in trace.find("dynamo", frame) for node in graph.nodes if _DERIVES.search(str(node["target"]))}


def _at(found: tuple[str, int]) -> tuple[str, tuple[int]]:
    return found[0], (found[1],)


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
            classes = [*(known for known in classes if known[0] < indent), (indent, nested["name"])]
            inside = "".join(f"{name}." for _, name in classes)
        elif node := _NODE.match(line) or _IN_PLACE.match(line):
            lines[inside + node["name"]] = number
    return lines


#: What the functions of the scheduler's loop bodies are called in its text.
_LOOP_OPERATOR = re.compile(r"\bops\.(\w+)\(")


def operator_counts(artifact: Artifact) -> Iterator[dict[str, Plain]]:
    """One row a level of operators in a graph: how many, how many distinct, and how often each."""
    found: dict[str, Counter[str]] = {}
    if artifact.language == "inductor-ir":
        found["loop IR"] = Counter(_LOOP_OPERATOR.findall(artifact.text))
    elif artifact.nodes and artifact.stage != "fx_pass":
        for node in (*artifact.nodes, *artifact.inner):
            if str(node.get("op", "")).startswith("call_") and "getitem" not in str(node["target"]):
                target = str(node["target"])
                found.setdefault(level_of(target, artifact.stage), Counter())[target] += 1
    for level, names in found.items():
        place = {"frame": artifact.frame, "graph": artifact.graph, "stage": artifact.stage, "level": level}
        yield {**place, "operators": names.total(), "distinct": len(names), "names": dict(names.most_common())}


def level_of(target: str, stage: str) -> str:
    """The level of an operator: "ATen" and "prims" by its name, "torch" for what Dynamo writes down, else "other"."""
    for prefix, level in (("aten.", "ATen"), ("torch.ops.aten.", "ATen"), ("prims.", "prims"), ("torch.ops.prims.", "prims")):
        if target.startswith(prefix):
            return level
    return "torch" if stage in ("dynamo", "pre_grad") else "other"


#: A part of a module in Dynamo's name for a value, such as `._modules['0']`.
_MODULE_PART = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")
_ROOT = re.compile(r"^[LG]\['([^']*)'\]")
#: An input of Dynamo's graph in AOTAutograd's name for one of its own.
_ARGUMENT = re.compile(r"\bargs\[(\d+)\]")
_OF_A_MODULE = re.compile(r"^self\.get_(?:parameter|buffer)\('(.*)'\)$")
_TANGENT = re.compile(r"^__output_tangent\(output\[(\d+)\]\)$")


def input_names(trace: TraceData, frame: str, graph: str) -> dict[str, str]:
    """What the inputs of a compiled graph are to the program: "h.0.attn.weight" for "primals_3", "x" for "arg0_1".

    A parameter or buffer is called as its module calls it, by the path below the module that was compiled.
    """
    return _input_names(trace).get((frame, graph), {})


@once
def _input_names(trace: TraceData) -> dict[tuple[str, str], dict[str, str]]:
    """`input_names` of every graph of a trace: kernels ask for theirs one by one."""
    given: dict[str, list[str]] = {}
    for artifact in trace.find("dynamo"):
        inputs = (node for node in artifact.nodes if node.get("op") == "placeholder")
        given[artifact.frame] = [of_program(str(node.get("input", ""))) for node in inputs]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for artifact in (a for stage in ("forward", "inductor_input", "backward", "post_grad") for a in trace.find(stage)):
        names = found.setdefault((artifact.frame, artifact.graph), {})
        for node in artifact.nodes:
            if node.get("op") == "placeholder":
                name = _of_input(str(node.get("input", "")), given.get(artifact.frame, ()))
                names |= {node["name"]: name} if name else {}
    return found


def of_program(source: str) -> str:
    """A value as the program calls it, by Dynamo's name: "0.weight" for "L['self']._modules['0']._parameters['weight']"."""
    name = _MODULE_PART.sub(r".\1", source)
    root = _ROOT.match(name)
    if root is None:
        return name
    rest = name[root.end() :]
    if root[1] in ("self", "fn") and rest.startswith("."):  # the module itself; "fn" where torch wraps one of its own
        return rest[1:]
    return root[1] + rest


def _of_input(expression: str, given: Sequence[str]) -> str:
    """What AOTAutograd's name for an input says; "" where it says nothing of the program."""
    if of_module := _OF_A_MODULE.match(expression):
        return of_module[1]
    if tangent := _TANGENT.match(expression):
        return f"gradient of output {tangent[1]}"
    numbers = [int(number) for number in _ARGUMENT.findall(expression)]
    if not numbers or any(number >= len(given) or not given[number] for number in numbers):
        return ""
    return _ARGUMENT.sub(lambda match: given[int(match[1])], expression)


def short(file: str) -> str:
    """A file's name without its folders, for titles."""
    return Path(file).name or file
