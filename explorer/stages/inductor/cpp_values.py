"""Which FX nodes the lines of a C++ kernel compute, read from its text and the graph's, where no probe saw them. Pure.

A line is a node's where both state the same expression: an operator on the same values. What a line reads is known from what
its buffers hold. Of any other line its node lies between the values it is made of and those made of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.model.shared import FxNode
from explorer.stages.inductor.library_calls import operator_of
from explorer.stages.inductor.wrapper_values import Graph, KernelCall, Slot, Walk, learn, walk

_PARAMETERS = re.compile(r'^extern "C".*?\bkernel\(([^)]*)\)', re.MULTILINE | re.DOTALL)
_DEFINES = re.compile(r"^(?:auto|[\w:<>, ]+?[>\w*]) (?P<name>tmp\w*) = (?P<value>.*);$")
_ASSIGNS = re.compile(r"^(?P<name>tmp_acc\w*)(?:\[[^\]]*\])? = (?P<value>.*);$")
_STORES = re.compile(r"^(?P<value>tmp\w*)\.store\((?P<name>\w+)\b")
_PUTS = re.compile(r"^(?P<name>\w+)\[.*?\] (?:=|\+=) (?P<value>.*);$")
_ARRAY = re.compile(r"^(?:alignas\(.*\) |__at_align__ )?[\w:<>, ]+ (?P<name>tmp\w*)(?:\[[^\]]*\])?;$")
_LAMBDA = re.compile(r"^auto (?P<name>tmp\w*) = \[&\](?:\(\))?$")
_RENAMES = re.compile(r"^auto (?P<name>\w+_ptr\d+) = (?P<value>\w+_ptr\d+);$")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: A value of another type or width, or as often as a vector has places.
_CAST = re.compile(
    r"^(?:static_cast<[\w:]+>|c10::convert<[\w:]+>|at::vec::convert<[^()]*>|at::vec::VectorizedN?<[^()]*>|float|double|decltype\(\w+\))"
    r"\((?P<value>[^()]+)\)$"
)
_WRAPPED = re.compile(r"^(?:float|double|decltype\(\w+\)|static_cast<[\w:]+>)\((?P<value>.+)\)$")
_LOAD = re.compile(r"^(?:at::vec::VectorizedN?<[^()]*>::loadu\((?P<vector>\w+) \+ [^\[\]]*\)|(?P<scalar>\w+)\[[^\[\]]*\])$")
_NUMBER = re.compile(r"^-?[\d.]+(?:e[+-]?\d+)?L?$")
_ACCUMULATOR = re.compile(r"^(tmp_acc\d+)\w*$")
#: The forms that name one operand more than once.
_REPEATS = ("at::vec::clamp_min(", "std::max({0}, decltype", "decltype(")

#: What the lines are that compute an operator, with its operands numbered; a scalar is in them as a number is.
_UNARY = ("erf", "exp", "log", "sqrt", "tanh", "sin", "cos", "abs", "floor", "ceil", "expm1", "log1p")
#: Unary operators that have further forms.
_OTHER_FORMS = {
    "rsqrt": ("1 / std::sqrt({0})",),
    "neg": ("-{0}", "decltype({0})(-{0})"),
    "reciprocal": ("1 / {0}", "1/{0}"),
}
EXPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "add": ("{0} + {1}",),
    "sub": ("{0} - {1}",),
    "mul": ("{0} * {1}",),
    "div": ("{0} / {1}",),
    "maximum": ("at::vec::maximum({0}, {1})", "max_propagate_nan({0}, {1})"),
    "minimum": ("at::vec::minimum({0}, {1})", "min_propagate_nan({0}, {1})"),
    "relu": (
        "at::vec::clamp_min({0}, decltype({0})(0))",
        "std::max({0}, decltype({0})(0))",
    ),
    **{name: (f"{{0}}.{name}()", f"std::{name}({{0}})", *_OTHER_FORMS.get(name, ())) for name in (*_UNARY, *_OTHER_FORMS)},
}
#: The operators that a step of a reduction may be for, by the function that the step calls.
VARIANCES = ("var", "var_mean", "std", "std_mean")
REDUCTIONS = {
    "welford": VARIANCES,
    "sum": ("sum", "mean", *VARIANCES),
    " + ": ("sum", "mean", *VARIANCES),
    "max": ("amax", "max"),
    "min": ("amin", "min"),
}
#: The reductions whose step gathers their argument itself, and those that give what was gathered.
OF_THEIR_ARGUMENT, AS_GATHERED = ("sum", "mean", "amax", "amin"), ("sum", "amax", "amin")


@dataclass(eq=False)
class Value:
    """What a line makes, the values that it makes it of, and the FX node or number that it is, where known."""

    line: int
    of: tuple[Value, ...] = ()
    node: str | None = None
    number: float | None = None
    computes: bool = True  # whether the line does more than to name, cast or load a value
    same: Value | None = None  # the value that this one is, in another place
    step: tuple[str, ...] = ()  # the operators that may gather this value
    is_loaded: bool = False  # from a buffer, after it was stored there
    slots: list[Slot] = field(default_factory=list)  # the buffers that hold it in the end
    users: list[Value] = field(default_factory=list)

    @property
    def origin(self) -> Value:
        """The value that this one is, where it was made or loaded first."""
        value = self
        while value.same is not None:
            value = value.same
        return value


class Found(NamedTuple):
    """What the texts say of one launch of a kernel: (line counted from 1, FX node), and all nodes that it computes.

    A line with several nodes computes one of them.
    """

    kernel: str
    lines: tuple[tuple[int, str], ...]
    nodes: tuple[str, ...]


def read(wrapper: str, kernels: Mapping[str, str], nodes: Sequence[FxNode]) -> Iterator[Found]:
    """Read the C++ kernels of a wrapper, by name, that a post-grad graph with these nodes became."""
    graph = Graph(nodes)
    calls = walk(wrapper, graph, {name: [written for _, written in parameters(text)] for name, text in kernels.items()})
    known = -1
    readers: list[_Reader] = []
    while known != (known := learn(calls, graph)):
        readers = [_Reader(kernels[call.name], call, graph) for call in calls.kernels]
    for call, reader in zip(calls.kernels, readers, strict=True):
        yield Found(call.name, *reader.found(calls))


def parameters(text: str) -> list[tuple[str, bool]]:
    """The name of each argument of a kernel, and whether the kernel may write it."""
    match = _PARAMETERS.search(text)
    parts = [part.strip() for part in match[1].split(",")] if match and match[1].strip() else []
    return [(part.split()[-1].lstrip("*"), "*" in part and not part.startswith("const ")) for part in parts]


class _Reader:
    """Reads one launch of a kernel line by line; what it finds its buffers to hold, their slots hold from then on."""

    def __init__(self, text: str, call: KernelCall, graph: Graph) -> None:
        self._graph = graph
        self._made: list[Value] = []
        self._variables: dict[str, Value | None] = {}
        self._hidden: list[dict[str, Value | None]] = []  # what a block's own variables hide, by block
        self._memory: dict[str, Value] = {}
        self._before_vectors: dict[str, Value] = {}
        self._in_vectors: dict[str, Value] = {}
        self._lambdas: list[tuple[int, str]] = []
        self._arrays: dict[str, Value] = {}  # the lines that declare variables without a value
        self._outputs: dict[str, Slot] = {}
        self._renamed: dict[str, str] = {}
        self._loaded: set[str] = set()
        names = parameters(text)
        if len(names) != len(call.before):
            return
        for (name, written), before, after in zip(names, call.before, call.after, strict=True):
            if "_ptr" in name:  # not a size
                self._memory[name] = Value(0, node=before.node if before else None)
            if written and after is not None:
                self._outputs[name] = after
        for number, line in enumerate(text.split("\n"), 1):
            self._read(number, line.strip())
        for name, slot in self._outputs.items():
            if (value := self._memory.get(name)) and value.line:
                value.slots.append(slot)
                if slot.node is None and not slot.is_part:
                    slot.node = value.node

    # Lines

    def _read(self, number: int, line: str) -> None:
        """Read one line."""
        if "C10_UNLIKELY" in line:  # the rest of what the block above does in vectors: it finds the buffers as that found them
            self._in_vectors, self._memory = self._memory, dict(self._before_vectors)
        elif "C10_LIKELY" in line:
            self._before_vectors, self._in_vectors = dict(self._memory), {}
        for _ in range(line.count("}") - line.count("{")):
            self._variables |= self._hidden.pop()  # what was declared in the block is gone
        self._hidden += ({} for _ in range(line.count("{") - line.count("}")))
        if declared := _ARRAY.match(line):
            self._declare(declared["name"])
            self._arrays[_variable(declared["name"])] = self._make(number, (), computes=False)
        elif renamed := _RENAMES.match(line):
            self._renamed[renamed["name"]] = self._place(renamed["value"])
        elif begun := _LAMBDA.match(line):
            self._lambdas.append((number, begun["name"]))
            self._declare(begun["name"])
        elif line.startswith("return ") and self._lambdas:
            at, name = self._lambdas.pop()
            self._variables[name] = self._make(at, self._operands(line))
        elif stored := _STORES.match(line):
            self._store(number, stored["name"], self._operands(stored["value"]))
        elif match := _DEFINES.match(line) or _ASSIGNS.match(line):
            self._define(number, match["name"], match["value"], is_new=match.re is _DEFINES)
        elif put := _PUTS.match(line):
            self._store(number, put["name"], [self._evaluated(number, put["value"])])
        elif line.endswith(");") and "=" not in line.partition("(")[0]:
            self._move(number, line)

    def _declare(self, name: str) -> None:
        """A block has its own variable; after the block the outer one of that name is back."""
        if self._hidden:
            self._hidden[-1].setdefault(name, self._variables.get(name))
        self._variables[name] = None

    def _define(self, number: int, name: str, text: str, *, is_new: bool) -> None:
        """A variable gets a value; the variables of one accumulator, for vectors, threads and the rest, count as one."""
        variable = _variable(name)
        gathered = variable if name.startswith("tmp_acc") else ""
        value = self._evaluated(number, text, gathered)
        before = self._variables.get(variable)
        if gathered and before and not before.computes and not value.computes:
            before.users.append(value)  # each of an accumulator's variables begins with a line of its own
        if declared := self._arrays.get(variable):
            declared.users.append(value)
        if is_new and (not gathered or name == variable):
            self._declare(variable)
        self._variables[variable] = value

    def _move(self, number: int, line: str) -> None:
        """A call that moves values: a transposition into the last array that it names, an atomic addition into a buffer."""
        words = [self._place(word) for word in _WORD.findall(line)]
        is_copy = line.startswith("transpose")
        places = [word for word in words if word in self._outputs or (is_copy and word in self._variables)]
        if places:
            self._store(number, places[-1], self._operands(line, without=places[-1]), is_copy=is_copy)

    def _store(self, number: int, name: str, of: Sequence[Value], *, is_copy: bool = True) -> None:
        """Store a value; a local array is a variable like others, the same value where a block is transposed in it."""
        is_copy = is_copy and not name.startswith("tmpbuf")  # such an array is a function's argument, place by place
        value = self._make(number, of, same=of[0] if len(of) == 1 and is_copy else None)
        if name.startswith("tmp"):
            self._variables[_variable(name)] = value
            if declared := self._arrays.get(_variable(name)):
                declared.users.append(value)
            return
        place = self._place(name)
        if (in_vectors := self._in_vectors.get(place)) and in_vectors is not self._before_vectors.get(place):
            in_vectors.users.append(value)  # both are parts of one value
        before = self._memory.get(place)
        if before and before.line and not before.is_loaded and before.node != value.node:  # each is a part, as in a concatenation
            value = self._make(number, (before, value), computes=False)
        self._memory[place] = value

    # Values

    def _place(self, name: str) -> str:
        return self._renamed.get(name, name)

    def _operands(self, text: str, *, without: str = "") -> list[Value]:
        """The values that a text names, in order."""
        values = []
        for word in _WORD.findall(text):
            place = self._place(word)
            if word == without:
                continue
            if value := self._variables.get(_variable(word)):
                values.append(value)
            elif place in self._memory and place != without:
                values.append(self._loaded_from(place))
        return list(dict.fromkeys(values))

    def _loaded_from(self, place: str) -> Value:
        value = self._memory[place]
        value.is_loaded = True
        if value.line == 0 and value.node:
            self._loaded.add(value.node)
        return value

    def _make(
        self,
        line: int,
        of: Sequence[Value],
        *,
        same: Value | None = None,
        node: str | None = None,
        number: float | None = None,
        computes: bool = True,
        step: tuple[str, ...] = (),
    ) -> Value:
        """A value that a line makes of others."""
        if same is not None:
            node, number, step = same.node, same.number, same.step
        made = Value(line, tuple(of), node, number, computes, same, step)
        for each in of:
            each.users.append(made)
        self._made.append(made)
        return made

    def _evaluated(self, line: int, text: str, gathered: str = "") -> Value:
        """The value of an expression; `gathered` is the accumulator that gets it, where one does."""
        whole = text
        while (wrapped := _WRAPPED.match(text)) and _is_balanced(wrapped["value"]):
            text = wrapped["value"]
        cast = _CAST.match(text)
        inner = cast["value"] if cast else text
        if _NUMBER.match(inner):
            return self._make(line, (), number=float(inner.rstrip("L")), computes=False)
        word = _variable(inner)
        if (of := self._variables.get(word)) and word != gathered:
            return self._make(line, (of,), same=None if self._is_converted(whole, of) else of, computes=False)
        if load := _LOAD.match(text):
            place = self._place(load["vector"] or load["scalar"])
            of = self._variables.get(place)  # a block that was transposed
            if of is None and place in self._memory and not self._operands(text, without=place):
                of = self._loaded_from(place)  # where an index is a value, it is a gather
            if of:
                return self._make(line, (of,), same=of, computes=False)
        operands = self._operands(text)
        if not operands:
            return self._make(line, (), computes=False)
        if gathered:
            return self._gathered(line, text, self._variables.get(gathered), operands)
        return self._make(line, operands, node=self._node(text))

    def _is_converted(self, text: str, of: Value) -> bool:
        """Whether a cast may be a node of the graph, which converts the value to another type."""
        readers = self._graph.by_first_argument.get(of.node, ()) if of.node else ()
        return "(" in text and any(_operator_in(self._graph, name) in ("convert_element_type", "_to_copy") for name in readers)

    def _node(self, text: str) -> str | None:
        """The one node of the graph that states the expression of a line; None where there is none, or several."""
        given: list[object] = []

        def numbered(match: re.Match[str]) -> str:
            value = self._variables.get(match[0])
            if value is None:
                return match[0]
            given.append(value.number if value.node is None else value.node)
            return f"{{{len(given) - 1}}}"

        form = _WORD.sub(numbered, text.replace("{", "").replace("}", ""))
        if form.startswith(_REPEATS):  # what names its one operand more than once
            form, given = re.sub(r"\{\d\}", "{0}", form), given[:1]
        if not given or None in given:
            return None
        stated = [(operator, tuple(given)) for operator, forms in EXPRESSIONS.items() if form in forms]
        if form == "{0} * {1}" and given[0] == given[1]:
            stated.append(("pow", (given[0], 2.0)))
        names = [name for expression in stated for name in self._graph.by_expression.get(expression, ())]
        return names[0] if len(names) == 1 else None

    def _gathered(self, line: int, text: str, before: Value | None, operands: Sequence[Value]) -> Value:
        """The value of a step of a reduction; what only brings the parts of an accumulator together is the same value."""
        rest = [value for value in operands if value is not before]
        if before is not None and not rest:
            return self._make(line, (before,), same=before)
        step = next((operators for name, operators in REDUCTIONS.items() if name in text), ())
        node = None
        if len(rest) == 1 and rest[0].node is not None:
            readers = self._graph.by_first_argument.get(rest[0].node, ())
            alike = [name for name in readers if _operator_in(self._graph, name) in step]
            node = alike[0] if len(alike) == 1 and _operator_in(self._graph, alike[0]) in AS_GATHERED else None
        begins = [before] if before is not None and not before.computes else []  # the value with which it begins
        return self._make(line, (*rest, *begins), node=node, step=step)

    # What is found

    def found(self, calls: Walk) -> tuple[tuple[tuple[int, str], ...], tuple[str, ...]]:
        """Return the nodes of each line and of the kernel; a library's call has its own."""
        in_libraries = {call.node for call in calls.libraries}
        possible = self._possible()
        lines: dict[int, tuple[str, ...]] = {}
        for value in reversed(self._made):
            if value.computes:
                names = tuple(name for name in possible[value] if name not in in_libraries) or _copied_for(value, calls)
                possible[value] = names
            else:  # a line that only makes a variable is for the lines that use it
                names = tuple(dict.fromkeys(name for user in value.users for name in possible[user]))
                possible[value] = names
            if len(names) == 1 or self._of_one_line(names):
                lines.setdefault(value.line, names)
        pairs = tuple((line, name) for line, names in sorted(lines.items()) for name in names)
        return pairs, self._all(in_libraries)

    def _possible(self) -> dict[Value, tuple[str, ...]]:
        """The nodes that each value's line may be for.

        They come after the nodes that the value is made of, and before the nodes made of it. A value that is a part of what one
        node computes, such as a sum for a variance, is a border too: what it is made of is that node's or comes before it.
        """
        above: dict[Value, frozenset[str]] = {}
        for value in self._made:
            above[value] = frozenset[str]().union(*({each.node} if each.node else above.get(each, ()) for each in value.of))
        below: dict[Value, frozenset[str]] = {}
        possible: dict[Value, tuple[str, ...]] = {}
        for value in reversed(self._made):
            stored = {slot.node for slot in value.slots if slot.node}
            used = (self._before(user, possible[user]) or below[user] for user in value.users)
            below[value] = frozenset[str]().union(stored, *used)
            possible[value] = self._names(value, above[value], (), below[value])
        for value in self._made:
            parts = [possible[each][0] for each in value.of if not each.node and len(possible.get(each, ())) == 1]
            possible[value] = self._names(value, above[value], parts, below[value])
        return possible

    def _before(self, user: Value, possible: Sequence[str]) -> set[str]:
        """Return the known inputs of a value: nodes, or parts of nodes; nothing where several nodes are possible."""
        if user.node is not None or len(possible) != 1:
            return {user.node} if user.node else set()
        is_argument = user.same is None and user.step and _operator_in(self._graph, possible[0]) in OF_THEIR_ARGUMENT
        return {str(self._graph.arguments[possible[0]][0])} if is_argument else {possible[0]}

    def _names(self, value: Value, above: Collection[str], parts: Collection[str], below: Collection[str]) -> tuple[str, ...]:
        """The nodes that a value's line may be for; it is made of whole nodes, of parts of nodes, or of both."""
        if value.node and value.origin.line and {slot.node for slot in value.slots} <= {None, value.node}:
            return (value.node,) if value.node in self._graph.computing else ()
        names = self._graph.between(above, parts, below)
        gathering = tuple(name for name in names if _operator_in(self._graph, name) in value.step)
        return gathering if len(gathering) == 1 else names

    def _of_one_line(self, names: Sequence[str]) -> bool:
        """Whether nodes come from one line of the program."""
        stacks = {self._graph.computing[name].stack for name in names}
        return len(stacks) == 1 and None not in stacks

    def _all(self, in_libraries: Collection[str | None]) -> tuple[str, ...]:
        """All nodes of the kernel: from what it stores up to what it loads; none where the texts do not agree on that."""
        left = [slot.node for slot in self._outputs.values() if slot.node and slot.node not in self._loaded]
        nodes: set[str] = set()
        while left:
            name = left.pop()
            node = self._graph.nodes[name]
            if name in nodes or name in self._loaded or (node.op == "placeholder" and node.dtype is None):  # a size
                continue
            if name not in self._graph.computing or name in in_libraries:
                return ()
            nodes.add(name)
            left += [self._graph.roots[each] for each in self._graph.computing[name].inputs]
        return tuple(name for name in self._graph.computing if name in nodes)


def _copied_for(value: Value, calls: Walk) -> tuple[str, ...]:
    """The library's call that a loaded value is copied for, such as a convolution that wants another layout: its only reader."""
    copies, slots = [value], []
    for copy in copies:
        slots += copy.slots
        copies += [user for user in copy.users if user.same is copy]
    readers = {call.node for call in calls.libraries if any(slot in call.reads for slot in slots)}
    is_read_elsewhere = any(slot in calls.returned for slot in slots)
    only = readers.pop() if len(readers) == 1 and not is_read_elsewhere and value.node and not value.origin.line else None
    return (only,) if only and {slot.node for slot in slots} == {value.node} else ()


def _operator_in(graph: Graph, name: str) -> str:
    return operator_of(graph.computing[name].target)


def _variable(name: str) -> str:
    """The variable that a name is of: "tmp_acc0_vec_arr" is "tmp_acc0"."""
    accumulator = _ACCUMULATOR.match(name)
    return accumulator[1] if accumulator else name


def _is_balanced(text: str) -> bool:
    """Whether each bracket that a text closes was opened in it."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0
