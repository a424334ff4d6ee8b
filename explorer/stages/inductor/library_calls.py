"""Which FX nodes the wrapper's calls into libraries compute, where no scheduler node is known: in a log or a cache. Pure.

Calls and nodes of one operator are paired by the inputs of the graph that they read, such as the weight of a layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from explorer.model.shared import FxNode
from explorer.model.values import Artifact
from explorer.stages.fx_graph import outer_nodes

#: A buffer that takes the place of another: "buf1 = addmm; del addmm  # reuse".
_REUSED = re.compile(r"^\s+(\w+) = (?:reinterpret_tensor\()?(\w+)[,;].*del \2\b")
_ALLOCATED = re.compile(r"^\s+(\w+) = empty_strided_\w+\(\(([^)]*)\)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OUT = re.compile(r"\bout=(\w+)")
_RESULT = re.compile(r"^\s+(\w+) = ")
#: Operators that give a view of what they are given, or that give it itself.
VIEWS = frozenset(
    (
        "aten.permute",
        "aten.t",
        "aten.transpose",
        "aten.view",
        "aten.reshape",
        "aten._unsafe_view",
        "aten.expand",
        "aten.unsqueeze",
        "aten.squeeze",
        "aten.slice",
        "aten.select",
        "aten.as_strided",
        "aten.alias",
        "aten.detach",
        "aten.view_as",
    )
)

#: The inputs of the graph that a call or a node reads, and the shape that it gives, "" where that is not stated.
Key = tuple[frozenset[str], str]


def nodes_of_calls(
    calls: Iterable[tuple[int, str]], wrapper: Artifact, graph: Artifact, in_kernels: Collection[str]
) -> Iterator[tuple[int, str]]:
    """(line of the wrapper, FX node) for each call that can mean one node alone; `in_kernels` has the nodes of the kernels."""
    read_by_node = _inputs_of_nodes(graph)
    candidates: dict[str, list[FxNode]] = {}
    for node in outer_nodes(graph):
        if node.op == "call_function" and node.name not in in_kernels:
            candidates.setdefault(operator_of(node.target), []).append(node)
    lines: dict[str, list[int]] = {}
    for line, called in calls:
        lines.setdefault(operator_of(called), []).append(line)
    key_of_call = _keys_of_calls(wrapper, graph)
    for operator, numbers in lines.items():
        keys = {number: key_of_call(number) for number in numbers}
        for number, key in keys.items():
            nodes = [n for n in candidates.get(operator, ()) if _fits(key, (read_by_node[n.name], ", ".join(n.shape or ())))]
            if len(nodes) == 1 and sum(_fits(other, key) or _fits(key, other) for other in keys.values()) == 1:
                yield number, nodes[0].name


def _fits(call: Key, node: Key) -> bool:
    """Whether a call reads the inputs that a node or another call reads, and gives its shape where the wrapper states one."""
    return call[0] == node[0] and call[1] in ("", node[1])


def operator_of(name: str) -> str:
    """The operator that a call or a node names, without its overload: "extern_kernels.mm" and "aten.mm.default" are "mm"."""
    parts = name.removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("extern_kernels", "aten") else ".".join(parts[:2])


def _inputs_of_nodes(graph: Artifact) -> Mapping[str, frozenset[str]]:
    """The inputs of the graph that each node reads itself or through views."""
    sources: dict[str, frozenset[str]] = {}
    read: dict[str, frozenset[str]] = {}
    for node in outer_nodes(graph):
        if node.op == "placeholder":
            sources[node.name] = frozenset((node.name,))
            continue
        read[node.name] = frozenset().union(*(sources.get(name, frozenset()) for name in node.inputs))
        if node.target.rpartition(".")[0] in VIEWS:
            sources[node.name] = read[node.name]
    return read


def _keys_of_calls(wrapper: Artifact, graph: Artifact) -> Callable[[int], Key]:
    """A function that gives for a line of the wrapper the inputs that it reads, also by names of buffers, and its shape."""
    inputs = {node.name for node in outer_nodes(graph) if node.op == "placeholder"}
    renamed: dict[str, str] = {}
    for line in wrapper.lines:
        if (reused := _REUSED.match(line)) and (name := renamed.get(reused[2], reused[2])) in inputs:
            renamed[reused[1]] = name
    shapes = dict(_allocated(wrapper))

    def key(number: int) -> Key:
        line = wrapper.lines[number - 1]
        arguments = _OUT.sub("", line.partition("(")[2])
        read = frozenset(name for word in _NAME.findall(arguments) if (name := renamed.get(word, word)) in inputs)
        return read, _shape_of_call(line, shapes)

    return key


def _allocated(wrapper: Artifact) -> Iterator[tuple[str, str]]:
    """Each buffer that the wrapper allocates, and its shape."""
    for line in wrapper.lines:
        if buffer := _ALLOCATED.match(line):
            yield buffer[1], ", ".join(size.strip() for size in buffer[2].split(",") if size.strip())


def _shape_of_call(line: str, shapes: Mapping[str, str]) -> str:
    """The shape of what a call writes; "" where the wrapper does not state it."""
    out = _OUT.search(line) or _RESULT.match(line)
    return shapes.get(out[1], "") if out else ""
