"""Which FX node each buffer of a wrapper holds, by the library calls that read it and by what the wrapper returns. Pure.

A wrapper in Python calls kernels and libraries in turn. A library call that can be only one FX node says with its arguments
which nodes' values its buffers hold, and the last statement says so of the outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_

from explorer.model.shared import FxNode
from explorer.model.syntax import UNREADABLE, parsed, parsed_expression, statements
from explorer.stages.inductor.library_calls import VIEWS, operator_of

#: How the name of a function of a library begins.
LIBRARIES = ("extern_kernels.", "torch.ops.", "aten.")


class Graph:
    """The nodes of a post-grad graph, where a view counts as what it shows."""

    def __init__(self, nodes: Sequence[FxNode]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.roots: dict[str, str] = {}
        self.arguments: dict[str, tuple[object, ...]] = {}
        #: The nodes that compute something, by name.
        self.computing: dict[str, FxNode] = {}
        self._bits = {node.name: 1 << number for number, node in enumerate(nodes)}  # sets of nodes are sums of these
        self._needed: dict[str, int] = {}  # what a node is computed of, and itself
        self._users: dict[str, int] = {}  # what is computed of a node
        inputs_by_name: dict[str, list[str]] = {}
        for node in nodes:
            inputs = [self.roots.get(name, name) for name in node.inputs]
            is_view = bool(inputs) and node.target.rpartition(".")[0] in VIEWS
            self.roots[node.name] = inputs[0] if is_view else node.name
            if not is_view:
                inputs_by_name[node.name] = inputs
                self._needed[node.name] = reduce(or_, (self._needed.get(n, 0) for n in inputs), self._bits[node.name])
                self.arguments[node.name] = tuple(self._values(node.args))
                if node.op == "call_function":
                    self.computing[node.name] = node
        for name, inputs in reversed(inputs_by_name.items()):
            for each in inputs:
                self._users[each] = self._users.get(each, 0) | self._users.get(name, 0) | self._bits[name]
        self.by_expression: dict[tuple[str, tuple[object, ...]], list[str]] = {}
        self.by_first_argument: dict[object, list[str]] = {}
        self.by_operator: dict[str, list[str]] = {}
        self._tensors: dict[str, tuple[str, ...]] = {}
        for name, node in self.computing.items():
            self.by_operator.setdefault(operator_of(node.target), []).append(name)
            if node.kwargs in ("", "{}"):
                self.by_expression.setdefault((operator_of(node.target), self.arguments[name]), []).append(name)
            self.by_first_argument.setdefault(next(iter(self.arguments[name]), None), []).append(name)

    def _values(self, args: str) -> Iterator[object]:
        """Each argument of a node: the node that it names, a number, or else its text."""
        with suppress(*UNREADABLE):
            tree = parsed_expression(args).body
            for part in tree.elts if isinstance(tree, ast.Tuple) else ():
                if isinstance(part, ast.Name):
                    yield self.roots.get(part.id, part.id)
                else:
                    number = _number(part)
                    yield ast.unparse(part) if number is None else number

    def tensors(self, name: str) -> tuple[str, ...]:
        """The nodes that a node's arguments name, in order, also those in a list."""
        if name not in self._tensors:
            names = []
            with suppress(*UNREADABLE):
                names = [part.id for part in ast.walk(parsed_expression(self.nodes[name].args)) if isinstance(part, ast.Name)]
            self._tensors[name] = tuple(self.roots[each] for each in names if each in self.roots)
        return self._tensors[name]

    def between(self, above: Collection[str], parts: Collection[str], below: Collection[str]) -> tuple[str, ...]:
        """The nodes that need each node of `above`, need or are each of `parts`, and are or are needed for each of `below`."""
        if not below or not (above or parts):
            return ()
        bits = reduce(and_, (self._needed.get(name, 0) for name in below))
        bits = reduce(and_, (self._users.get(name, 0) for name in above), bits)
        bits = reduce(and_, (self._users.get(name, 0) | self._bits[name] for name in parts), bits)
        return tuple(name for name in self.computing if bits & self._bits[name]) if bits else ()


def _number(part: ast.expr) -> float | None:
    """The number that an expression writes out."""
    with suppress(*UNREADABLE):
        value = ast.literal_eval(part)
        if isinstance(value, (int, float)):
            return float(value)
    return None


@dataclass(eq=False)
class Slot:
    """What a buffer holds from one write to the next: the value of a node, where one is known."""

    node: str | None = None
    is_part: bool = False  # what is written is a part of the buffer: it does not say what the whole holds


@dataclass
class KernelCall:
    """A launch: what each argument holds before it, and what it holds afterwards."""

    name: str
    line: int
    before: list[Slot | None]
    after: list[Slot | None]


@dataclass
class LibraryCall:
    """A call into a library: the operator, what it reads, and what it makes."""

    operator: str
    reads: list[Slot]
    makes: Slot
    node: str | None = None


@dataclass
class Walk:
    """The calls of a wrapper, each with what its buffers hold, and what the wrapper returns."""

    kernels: list[KernelCall] = field(default_factory=list)
    libraries: list[LibraryCall] = field(default_factory=list)
    items: list[tuple[Slot, int, Slot]] = field(default_factory=list)
    returned: list[Slot | None] = field(default_factory=list)


def walk(text: str, graph: Graph, writes: Mapping[str, Sequence[bool]]) -> Walk:
    """Walk through a wrapper; `writes` says of each kernel which of its arguments it writes."""
    done = Walk()
    slots = {name: Slot(name) for name, node in graph.nodes.items() if node.op == "placeholder"}
    functions = [each for each in statements(parsed(text)) if isinstance(each, ast.FunctionDef)]
    if any(function.name.startswith("partition_") for function in functions):
        return done  # its arguments have other names
    for function in functions:
        if function.name == "call":
            for statement in function.body:
                for each in statement.body if isinstance(statement, ast.With) else (statement,):
                    _step(each, slots, done, writes)
    return done


def _step(statement: ast.stmt, slots: dict[str, Slot], done: Walk, writes: Mapping[str, Sequence[bool]]) -> None:
    """Take one statement of a wrapper's `call`."""
    if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
        done.returned = [_slot(part, slots) for part in statement.value.elts]
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    name = target.id if isinstance(target, ast.Name) else ""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    if value is None:
        return
    if isinstance(value, ast.Call) and not _is_view(value):
        _call(value, name, slots, done, writes)
    elif name and isinstance(value, ast.Subscript) and (of := _slot(value.value, slots)):
        number = value.slice.value if isinstance(value.slice, ast.Constant) else None
        slots[name] = Slot()
        if isinstance(number, int):
            done.items.append((of, number, slots[name]))
    elif name:
        slots[name] = _slot(value, slots) or Slot()


def _call(call: ast.Call, name: str, slots: dict[str, Slot], done: Walk, writes: Mapping[str, Sequence[bool]]) -> None:
    """Take a call of a wrapper, whose result gets a name or is written to `out`."""
    called = ast.unparse(call.func)
    names = [part.id if isinstance(part := _shown(each), ast.Name) else "" for each in call.args]
    if called in writes:
        before = [slots.get(each) for each in names]
        written = writes[called] if len(writes[called]) == len(names) else [True] * len(names)
        for each, argument, is_written in zip(names, call.args, written, strict=True):
            if is_written and each:
                slots[each] = Slot(is_part=isinstance(argument, ast.Call) or names.count(each) > 1)
        done.kernels.append(KernelCall(called, call.lineno, before, [slots.get(each) for each in names]))
        return
    made = Slot()
    if called.startswith(LIBRARIES):
        reads = [slot for part in call.args for each in ast.walk(part) if (slot := slots.get(getattr(each, "id", "")))]
        done.libraries.append(LibraryCall(operator_of(called), reads, made))
        if operator_of(called).endswith("_"):  # it writes what it is given
            slots.update({each: Slot() for each in names if each})
    out = next((part.id for word in call.keywords if word.arg == "out" and isinstance(part := _shown(word.value), ast.Name)), "")
    if name or out:
        slots[name or out] = made


def _is_view(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "reinterpret_tensor"


def _shown(part: ast.expr) -> ast.expr:
    """The buffer that an expression is, or shows otherwise."""
    while isinstance(part, ast.Call) and _is_view(part) and part.args:
        part = part.args[0]
    return part


def _slot(part: ast.expr, slots: Mapping[str, Slot]) -> Slot | None:
    shown = _shown(part)
    return slots.get(shown.id) if isinstance(shown, ast.Name) else None


def learn(done: Walk, graph: Graph) -> int:
    """Note what the calls into libraries and the outputs say of the buffers, and count what is known then."""
    outputs = [graph.tensors(node.name) for node in graph.nodes.values() if node.op == "output"]
    if outputs and len(outputs[0]) == len(done.returned):
        for slot, node in zip(done.returned, outputs[0], strict=True):
            _know(slot, node)
    while sum(_match(call, done, graph) for call in done.libraries if call.node is None):  # each call once in a round
        pass
    buffers = [slot for call in done.kernels for slot in (*call.before, *call.after)]
    return sum(slot is not None and slot.node is not None for slot in buffers)


def _match(call: LibraryCall, done: Walk, graph: Graph) -> bool:
    """Find the one node that a call can be; False where there is none, or several."""
    taken = {each.node for each in done.libraries}
    alike = graph.by_operator.get(call.operator, ())
    nodes = [name for name in alike if name not in taken and _fits(call, graph.tensors(name))]
    if len(nodes) != 1:
        return False
    call.node = nodes[0]
    _know(call.makes, nodes[0])
    for slot, tensor in zip(call.reads, graph.tensors(nodes[0]), strict=True):
        _know(slot, tensor)
    for of, number, slot in done.items:
        if of is call.makes:
            items = graph.by_expression.get(("_operator.getitem", (nodes[0], float(number))), ())
            _know(slot, items[0] if len(items) == 1 else None)
    return True


def _fits(call: LibraryCall, tensors: Sequence[str]) -> bool:
    """Whether a call may read these nodes; it must be known of one of its buffers that it does."""
    pairs = list(zip(call.reads, tensors, strict=False))
    known = [slot.node == tensor for slot, tensor in pairs if slot.node is not None]
    return len(call.reads) == len(tensors) and all(known) and bool(known)


def _know(slot: Slot | None, node: str | None) -> None:
    if slot is not None and slot.node is None:
        slot.node = node
