"""The eager subgraph that a generated kernel, a library call, or several of these in a row compute. Pure.

A kernel reads buffers and writes buffers. Inductor's IR says of which FX node a buffer has the value. So the subgraph is what
leads, in the post-grad graph, from the nodes of the buffers that are read to the nodes of those that are written. A buffer that
has no FX node's value, such as the partial sums of a reduction that was split, ends no subgraph: the kernels that read it are to
be taken along, up to where a node's value exists.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from explorer.analysis.questions.launch_sites import Site, returned, sites, variable_of, viewed
from explorer.model.records import typed
from explorer.model.shared import FxNode, Kernel
from explorer.model.syntax import parsed, parsed_expression
from explorer.model.trace_data import TraceData, artifact_of
from explorer.model.values import Artifact, once
from explorer.stages.fx_graph import node_lines, outer_nodes
from explorer.stages.inductor.scheduler_ir import BufferLayout, SchedulerGraph, SchedulerNode
from explorer.stages.inductor.signature import Parameter, parameters

#: What the operators are called that draw random numbers, which a kernel draws otherwise than eager.
_RANDOM = (
    "inductor_rand",
    "inductor_seed",
    "aten.rand",
    "aten.bernoulli",
    "aten.native_dropout",
    "aten.normal",
    "aten.uniform",
    "aten.exponential",
    "aten.multinomial",
    "philox_rand",
)
#: Why an output of a kernel is not compared that depends on such numbers.
DRAWN = "depends on random numbers, which the kernel draws otherwise than eager"
#: What is free in the code of a post-grad graph, as torch.fx writes it.
NAMES = "import torch\nfrom torch import device, inf, nan\n"


@dataclass(frozen=True)
class Port:
    """A value that enters or leaves a subgraph, and where it is at a launch.

    `node` is the FX node, `buffer` Inductor's name of the memory. `step` numbers the launches of the subgraph, `argument` is the
    place among the launch's arguments, and `parameter` the kernel's name for it ("in_ptr0"). For a library call, `argument` is
    None if the value is its `out` or its result. `shape` and `stride` say, as text, how the memory is the node's tensor, which
    begins at its first element. An input that is `after` is one that the launch itself writes. `why_not` says why an output
    cannot be compared, "" where it can.
    """

    node: str
    buffer: str
    step: int
    argument: int | None
    parameter: str
    shape: tuple[str, ...] = ()
    stride: tuple[str, ...] = ()
    dtype: str = ""
    after: bool = False
    why_not: str = ""


@dataclass(frozen=True)
class Size:
    """A number that the code takes: the FX node, its symbol ("s77"), and where a launch has it.

    `sources` are (step, argument, dimension): the argument itself where the dimension is None, else that length of the tensor.
    """

    node: str
    symbol: str
    sources: tuple[tuple[int, int, int | None], ...]


@dataclass(frozen=True)
class Subgraph:
    """What launches compute, as nodes of the post-grad graph and as Python.

    `code` defines `eager`, which takes the inputs and then the sizes, by the names of their FX nodes, and returns as a tuple the
    outputs that can be compared. It needs the names of `NAMES`. `unmatched` says what could not be found out, as sentences;
    `unnamed` are buffers that are read elsewhere and have no FX node's value. A subgraph that is not `whole` computes less than
    its launches.
    """

    wrapper: str
    steps: tuple[Site, ...]
    nodes: tuple[str, ...] = ()
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    sizes: tuple[Size, ...] = ()
    code: str = field(default="", repr=False)
    unnamed: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all that the launches compute is in the code."""
        return bool(self.outputs) and not self.unnamed and not self.unmatched

    @property
    def name(self) -> str:
        """The names of what is launched."""
        return ", ".join(step.name for step in self.steps)


def subgraph(trace: TraceData, kernel: Artifact, occurrence: int = 0) -> Subgraph:
    """The subgraph of one launch of a kernel: the first, or another of those in its wrapper."""
    graph = graph_of(trace, kernel)
    for number, site in enumerate(graph.sites):
        if site.name == kernel.kernel and site.occurrence == occurrence:
            return graph.subgraph([number])
    why = f"the output code has no launch number {occurrence} of {kernel.kernel}"
    return Subgraph(graph.wrapper.id if graph.wrapper else "", (), unmatched=(why,))


def subgraphs(trace: TraceData, wrapper: Artifact) -> tuple[Subgraph, ...]:
    """The subgraph of each launch and library call of a wrapper, in order."""
    graph = graph_of(trace, wrapper)
    return tuple(graph.subgraph([number]) for number in range(len(graph.sites)))


def regions(trace: TraceData, wrapper: Artifact) -> tuple[Subgraph, ...]:
    """The launches and calls of a wrapper in groups, in order: each alone where the graph names what it gives and takes.

    Those that pass each other memory without a name in the graph are one group.
    """
    graph = graph_of(trace, wrapper)
    return tuple(graph.subgraph(group) for group in graph.groups())


def narrowed(trace: TraceData, part: Subgraph, nodes: Collection[str]) -> Subgraph:
    """The part of a subgraph that leads to some of its outputs, by the names of their FX nodes."""
    graph = graph_of(trace, artifact_of(trace, part.wrapper))
    return graph.subgraph([number for number, site in enumerate(graph.sites) if site in part.steps], nodes)


def graph_of(trace: TraceData, artifact: Artifact) -> LaunchedGraph:
    """The launches of an artifact's frame and graph."""
    return _graphs(trace, artifact.frame, artifact.graph)


def _graphs(trace: TraceData, frame: str, graph: str) -> LaunchedGraph:
    known = _by_place(trace)
    if (frame, graph) not in known:
        known[frame, graph] = LaunchedGraph(trace, frame, graph)
    return known[frame, graph]


@once
def _by_place(trace: TraceData) -> dict[tuple[str, str], LaunchedGraph]:
    """The graphs that were asked for."""
    return {}


@dataclass(frozen=True)
class Value:
    """The FX node whose value a buffer holds, with the sizes and strides that make the memory that node's tensor."""

    node: FxNode
    shape: tuple[str, ...]
    stride: tuple[str, ...]


class LaunchedGraph:
    """The launches of one compiled graph beside the graph."""

    def __init__(self, trace: TraceData, frame: str, graph: str) -> None:
        self._trace = trace
        wrappers = trace.find("output_code", frame, graph)
        graphs = trace.find("post_grad", frame, graph)
        self.wrapper: Artifact | None = wrappers[-1] if wrappers else None
        self.fx: Artifact | None = graphs[-1] if graphs else None
        self.sites: tuple[Site, ...] = sites(self.wrapper) if self.wrapper else ()
        self.nodes: dict[str, FxNode] = {node.name: node for node in outer_nodes(self.fx)} if self.fx else {}
        self._kernels = {a.kernel: a for a in trace.find("kernel", frame, graph)}
        self._rows = _scheduled(trace.find("ir_pre_fusion", frame, graph) or trace.find("ir_post_fusion", frame, graph))
        self._writers = {buffer: row for row in self._rows.values() for buffer in row.writes}
        self._readers: dict[str, set[str]] = {}
        for row in self._rows.values():
            for buffer in row.reads:
                self._readers.setdefault(buffer, set()).add(row.name)

    # What a launch is of -------------------------------------------------------------------------------------------

    @cached_property
    def operations(self) -> tuple[tuple[SchedulerNode, ...], ...]:
        """For each site the scheduler's nodes that it computes; () where that is not known."""
        return tuple(self._operations(site) for site in self.sites)

    def _operations(self, site: Site) -> tuple[SchedulerNode, ...]:
        """Return the nodes of a site: of a call by the buffers it writes, of a kernel as Inductor stated where it defined it."""
        if site.is_library:
            writer = self._writers.get(site.keywords.get("out", "") or site.result)
            return (writer,) if writer is not None and writer.kind.startswith("Extern") else ()
        kernel = self._kernels.get(site.name)
        definitions = typed(Kernel, kernel.data).definitions or () if kernel else ()
        if len(definitions) != sum(other.name == site.name for other in self.sites):
            return ()
        names = definitions[site.occurrence].operations
        return tuple(self._rows[name] for name in names) if all(name in self._rows for name in names) else ()

    @cached_property
    def _parameters(self) -> Mapping[str, tuple[Parameter, ...]]:
        return {name: parameters(a.text, a.language) for name, a in self._kernels.items()}

    def value_of(self, buffer: str) -> Value | None:
        """The FX node whose value a buffer has, and how that is laid out; None if it has no node's value, or nothing says so."""
        writer = self._writers.get(buffer)
        if writer is None:
            node = self.nodes.get(buffer)
            is_input = node is not None and node.op == "placeholder" and node.dtype is not None
            return Value(node, node.shape or (), node.stride or ()) if node is not None and is_input else None
        node, layout = self._node_of(buffer, writer), self._layout_of(buffer)
        if layout is not None and len(layout.stride) != len(layout.size):  # a view of the memory, which lies elsewhere in it
            layout = None
        if node is not None and layout is not None and len(writer.writes) == 1 and _same(node, layout.size, layout.dtype):
            return Value(node, layout.size, layout.stride)
        memory = self.memory_of(buffer)
        is_last = self._mutations.get(memory, (memory,))[-1] == buffer
        return self._returned.get(memory) if is_last else None

    def _node_of(self, buffer: str, writer: SchedulerNode) -> FxNode | None:
        """Return the FX node whose result a scheduler node writes into a buffer; None where that is not known."""
        memory = self.memory_of(buffer)
        made_by = self._writers.get(memory)
        if made_by is None:  # an input of the graph, which has no node of the scheduler's
            return self._node_in_place(writer)
        node = self.nodes.get(made_by.node or "")
        for later in reversed(self._mutations.get(memory, ())):
            # Inductor names for the memory the node that wrote it last: the node before is what that works on in place. A node
            # that works on a copy, such as `aten.index_put`, has no node for the copy.
            if node is None or node.name not in self._writers[later].origins:
                continue
            if later == buffer:
                return node
            node = self.nodes.get(node.inputs[0]) if _in_place(node) and node.inputs else None
        return node if buffer == memory else None

    def _node_in_place(self, writer: SchedulerNode) -> FxNode | None:
        """Return the FX node that a scheduler node computes in place; None where there are several."""
        nodes = [self.nodes[name] for name in writer.origins if name in self.nodes and _in_place(self.nodes[name])]
        mutated = {name for node in nodes for name in node.inputs[:1]}
        last = [node for node in nodes if node.name not in mutated]
        return last[0] if len(last) == 1 else None

    @cached_property
    def _mutations(self) -> Mapping[str, Sequence[str]]:
        """For each buffer the buffers that are in its memory after it, in order."""
        mutations: dict[str, list[str]] = {}
        for row in self._rows.values():
            for buffer in row.writes:
                if (memory := self.memory_of(buffer)) != buffer:
                    mutations.setdefault(memory, []).append(buffer)
        return mutations

    def memory_of(self, buffer: str) -> str:
        """Name the buffer in whose memory a buffer is: its own name, except for one that is written in place."""
        layout = self._layout_of(buffer)
        return layout.mutates or buffer if layout is not None else buffer

    def _layout_of(self, buffer: str) -> BufferLayout | None:
        """Return the layout that the scheduler states for a buffer."""
        writer = self._writers.get(buffer)
        return (writer.layouts or {}).get(buffer) if writer is not None else None

    @cached_property
    def _returned(self) -> Mapping[str, Value]:
        """The values of buffers that the wrapper returns: the graph returns their nodes at the same places."""
        expressions = returned(self.wrapper) if self.wrapper else ()
        names = _output_names(self.nodes.get("output"))
        values: dict[str, Value] = {}
        for expression, name in zip(expressions, names, strict=False) if len(expressions) == len(names) else ():
            node, view, variable = self.nodes.get(name), viewed(expression), variable_of(expression)
            layout = self._layout_of(variable)
            if node is None or layout is None or node.op == "placeholder":
                continue
            sizes, strides = view[1:] if view else (layout.size, layout.stride)
            if (view or variable == expression) and _same(node, sizes, layout.dtype):
                values.setdefault(variable, Value(node, sizes, strides))
        return values

    def place(self, number: int, buffer: str, *, after: bool = False) -> tuple[int | None, str] | None:
        """Where a site has a buffer: the place among its arguments and the kernel's name for it; None where it has it not.

        `after` the launch memory that two buffers had one after the other has the second. The place is None, and the name "out"
        or "result", for what a library call writes.
        """
        site, buffer = self.sites[number], self.memory_of(buffer)
        if site.is_library and buffer in (site.keywords.get("out", ""), site.result):
            return None, "out" if site.keywords.get("out") == buffer else "result"
        named = self._parameters.get(site.name, ())
        nearest: tuple[int, int] | None = None
        for position, argument in enumerate(site.arguments):
            names = site.names_of(argument)[: 1 if after else None]
            if buffer in names and (nearest is None or names.index(buffer) < nearest[0]):
                nearest = names.index(buffer), position
        if nearest is None:
            return None
        position = nearest[1]
        return position, named[position].name if position < len(named) else ""

    # Groups --------------------------------------------------------------------------------------------------------

    def groups(self) -> list[list[int]]:
        """The numbers of the sites in groups: those that pass each other a buffer without a node are together."""
        group = list(range(len(self.sites)))
        writer_site = {buffer: n for n, rows in enumerate(self.operations) for row in rows for buffer in row.writes}
        for number, rows in enumerate(self.operations):
            for buffer in {buffer for row in rows for buffer in row.reads}:
                writer = writer_site.get(buffer, number)
                if group[writer] == group[number] or self.value_of(buffer) is not None:
                    continue
                if self.place(writer, buffer, after=True) is not None:
                    one, other = sorted((group[writer], group[number]))
                    group = [one if each == other else each for each in group]
        return [[n for n, each in enumerate(group) if each == first] for first in sorted(set(group))]

    # Subgraphs -----------------------------------------------------------------------------------------------------

    def subgraph(self, numbers: Sequence[int], only: Collection[str] | None = None) -> Subgraph:
        """The subgraph of the sites of these numbers, taken together; with `only` no more than leads to these FX nodes."""
        return _Region(self, tuple(numbers), only).subgraph()

    def needed_outside(self, buffer: str, names: Iterable[str]) -> bool:
        """Whether a scheduler node that is not among `names` reads a buffer, or the wrapper returns it."""
        is_read = bool(self._readers.get(buffer, set()) - set(names))
        return is_read or self.memory_of(buffer) in self._returned_variables

    @cached_property
    def _returned_variables(self) -> frozenset[str]:
        return frozenset(map(variable_of, returned(self.wrapper))) if self.wrapper else frozenset()

    def statement(self, name: str) -> str:
        """Return the statement of a graph's text that computes a node, without deletions; "" if there is none."""
        assert self.fx is not None
        number = node_lines(self.fx).get(name)
        if number is None:
            return ""
        line = self.fx.lines[number - 1].strip()
        try:
            first = parsed(line).body[0]
        except (SyntaxError, IndexError):
            return ""
        return ast.get_source_segment(line, first) or ""


def _scheduled(artifacts: Sequence[Artifact]) -> dict[str, SchedulerNode]:
    """The scheduler's nodes of a graph by name, without those of graphs inside it."""
    graphs = [graph for graph in (typed(SchedulerGraph, a.data) for a in artifacts) if not (graph.path or graph.of)]
    return {node.name: node for graph in graphs for node in graph.nodes}


def _same(node: FxNode, size: Sequence[str], dtype: str) -> bool:
    """Whether a buffer has the shape and type of a node's tensor; symbolic lengths may be written in two ways."""
    if node.shape is None or len(size) != len(node.shape):
        return False
    pairs = zip(size, node.shape, strict=True)
    same_type = dtype.removeprefix("torch.") == (node.dtype or "").removeprefix("torch.")
    return same_type and all(one == other or not (one.isdigit() and other.isdigit()) for one, other in pairs)


def _in_place(node: FxNode) -> bool:
    """Tell whether an FX node writes its result into its first argument, as `aten.index_put_` does."""
    name = node.target.split(".")[-2:][0]
    return name.endswith("_") and not name.endswith("__")


def _output_names(node: FxNode | None) -> tuple[str, ...]:
    """The node at each place of what a graph returns, "" for None; () where that is not known."""
    try:
        values = parsed_expression(node.args if node else "").body
    except SyntaxError:
        return ()
    first = values.elts[0] if isinstance(values, ast.Tuple) and values.elts else None
    elements = first.elts if isinstance(first, (ast.Tuple, ast.List)) else []
    return tuple(element.id if isinstance(element, ast.Name) else "" for element in elements)


class _Region:
    """One or several sites, as their subgraph is made."""

    def __init__(self, graph: LaunchedGraph, numbers: tuple[int, ...], only: Collection[str] | None = None) -> None:
        self._graph = graph
        self._numbers = numbers
        self._only = only
        self._rows = [graph.operations[number] for number in numbers]
        self._names = {row.name for rows in self._rows for row in rows}
        self._unmatched: list[str] = []
        self._unnamed: list[str] = []

    def subgraph(self) -> Subgraph:
        """Match outputs and inputs, and cut what is between them out of the graph."""
        graph = self._graph
        steps = tuple(graph.sites[number] for number in self._numbers)
        wrapper = graph.wrapper.id if graph.wrapper else ""
        for step, rows in zip(steps, self._rows, strict=True):
            if not rows:
                self._unmatched.append(f"which scheduler nodes {step.name} on line {step.line} computes is not known")
        if self._unmatched:
            return Subgraph(wrapper, steps, unmatched=tuple(self._unmatched))
        outputs = self._outputs()
        readable = self._readable()
        drawn = {port.node for port in outputs if self._draws(port.node, readable)}
        readable |= {port.node: replace(port, after=True) for port in outputs if port.node in drawn}
        outputs = [replace(port, why_not=DRAWN) if port.node in drawn else port for port in outputs]
        outputs = [port for port in outputs if self._only is None or port.node in self._only]
        order = self._between([port.node for port in outputs if not port.why_not], readable)
        if self._unmatched:
            return Subgraph(wrapper, steps, unnamed=tuple(self._unnamed), unmatched=tuple(dict.fromkeys(self._unmatched)))
        nodes = [name for name, is_input in order.items() if not is_input]
        inputs = [readable[name] for name, is_input in order.items() if is_input and name in readable]
        sizes = [self._size(name, inputs) for name, is_input in order.items() if is_input and name not in readable]
        returned = [port.node for port in outputs if not port.why_not]
        code = self._code([*(port.node for port in inputs), *(size.node for size in sizes)], nodes, returned)
        found = (tuple(nodes), tuple(inputs), tuple(outputs), tuple(sizes))
        if self._unmatched or not returned:
            code = ""
        return Subgraph(wrapper, steps, *found, code, tuple(self._unnamed), tuple(dict.fromkeys(self._unmatched)))

    def _outputs(self) -> list[Port]:
        """The buffers that the sites write and others may read, each with its node."""
        ports = []
        for step, (number, rows) in enumerate(zip(self._numbers, self._rows, strict=True)):
            written = [buffer for row in rows for buffer in row.writes]
            for buffer in {self._graph.memory_of(buffer): buffer for buffer in written}.values():  # the last in each memory
                place, value = self._graph.place(number, buffer, after=True), self._graph.value_of(buffer)
                needed = self._graph.needed_outside(buffer, self._names)
                if place is None:
                    if needed:
                        self._unmatched.append(f"{buffer} is written, but is not an argument of the launch")
                elif value is None:
                    if needed:
                        self._unnamed.append(buffer)
                else:
                    ports.append(_port(value, buffer, step, place))
        if not ports and not self._unnamed:
            self._unmatched.append("what is written has no FX node's value")
        return ports

    def _readable(self) -> dict[str, Port]:
        """The nodes whose values the sites read, each where it is read first."""
        written = {buffer for rows in self._rows for row in rows for buffer in row.writes}
        readable: dict[str, Port] = {}
        for step, (number, rows) in enumerate(zip(self._numbers, self._rows, strict=True)):
            for buffer in sorted({buffer for row in rows for buffer in row.reads} - written):
                place, value = self._graph.place(number, buffer), self._graph.value_of(buffer)
                if place is not None and place[0] is not None and value is not None:
                    readable.setdefault(value.node.name, _port(value, buffer, step, place))
        return readable

    def _draws(self, name: str, readable: Mapping[str, Port]) -> bool:
        """Whether a node depends on random numbers that the sites draw."""
        seen, left = set[str](), [name]
        while left:
            node = self._graph.nodes.get(left.pop())
            if node is None or node.name in seen or (node.name in readable and node.name != name):
                continue
            seen.add(node.name)
            if any(word in node.target for word in _RANDOM):
                return True
            left += node.inputs
        return False

    def _between(self, outputs: Sequence[str], readable: Mapping[str, Port]) -> dict[str, bool]:
        """The nodes that lead to the outputs, in the order of the graph, and whether each is an input."""
        needed: dict[str, bool] = {}
        left = list(outputs)
        while left:
            name = left.pop()
            node = self._graph.nodes.get(name)
            is_input = (name in readable and name not in outputs) or (node is not None and node.op == "placeholder")
            if name in needed:
                continue
            needed[name] = is_input
            if node is None or node.op == "get_attr":
                self._unmatched.append(f"{name}, a constant, is needed, and no argument is known to have it")
            elif is_input:
                if name not in readable and node.dtype is not None:
                    self._unmatched.append(f"{name}, an input of the graph, is needed, and no argument has it")
            else:
                left += node.inputs
        return {name: needed[name] for name in self._graph.nodes if name in needed}

    def _size(self, name: str, inputs: Sequence[Port]) -> Size:
        """Where the launches have a number of the graph."""
        node = self._graph.nodes[name]
        symbol = node.value or ""
        sources: list[tuple[int, int, int | None]] = []
        for step, number in enumerate(self._numbers):
            site = self._graph.sites[number]
            texts = enumerate(site.arguments)
            sources += [(step, n, None) for n, text in texts if text == symbol or name in site.names_of(text)]
        for port in inputs:
            dimensions = [n for n, length in enumerate(port.shape) if length == symbol]
            sources += [(port.step, port.argument, n) for n in dimensions if port.argument is not None]
        if not sources:
            self._unmatched.append(f"the size {symbol or name} is needed, and no argument of the launch has it")
        return Size(name, symbol, tuple(sources))

    def _code(self, arguments: Sequence[str], nodes: Sequence[str], outputs: Sequence[str]) -> str:
        """The code as a function."""
        statements = [self._graph.statement(name) for name in nodes]
        lacking = [name for name, statement in zip(nodes, statements, strict=True) if not statement]
        if lacking:
            self._unmatched.append(f"the graph's text has no statement for {', '.join(lacking)}")
            return ""
        returned = f"({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"
        return "\n".join([f"def eager({', '.join(arguments)}):", *(f"    {s}" for s in statements), f"    return {returned}", ""])


def _port(value: Value, buffer: str, step: int, place: tuple[int | None, str]) -> Port:
    """A port of a value."""
    return Port(value.node.name, buffer, step, *place, value.shape, value.stride, value.node.dtype or "")


def all_wrappers(trace: TraceData) -> Iterator[Artifact]:
    """Return the wrapper of each compiled graph, the last one if it was compiled again."""
    last = {(a.frame, a.graph): a for a in trace.find("output_code")}
    yield from last.values()


__all__ = [
    "NAMES",
    "LaunchedGraph",
    "Port",
    "Size",
    "Subgraph",
    "all_wrappers",
    "graph_of",
    "narrowed",
    "regions",
    "subgraph",
    "subgraphs",
]
