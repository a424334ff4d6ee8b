"""Read an FX graph's text, as `print_readable` writes it, into its nodes. Pure.

What the text does not have stays away: the modules, the operators that were decomposed, and autograd's numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from explorer.model.shared import FxNode
from explorer.model.syntax import UNREADABLE, parsed
from explorer.model.values import text_lines
from explorer.stages.fx_graph import FxGraphText

_COMMENT = re.compile(r"^# File: (?P<file>.+?):(?P<line>\d+) in (?P<function>.+?)(?:, code: (?P<code>.*))?$")
_NO_STACK = "# No stacktrace found"
_CLASS = re.compile(r"class (?P<name>\S+)\(.*\):$")
_PARAMETER = re.compile(r'^\*?(?P<name>\w+)(?:: ?"(?P<type>[^"]*)")?,?(?:  ?# (?P<what>.*))?$')
_DECLARED = re.compile(r'(\w+): "([^"]*)"')
_WHAT = re.compile(r'^\w+: "[^"]*"  ?# (?P<what>\w+\(.*\))$')
_TENSOR = re.compile(r"^(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]+(?::\d+)?)?$")
_SYMBOL = re.compile(r"^Sym\((?P<value>.*)\)$")
#: torch's short names of dtypes (`torch/utils/_dtype_abbrs.py`) that are no letters and a size.
_DTYPES = {"b8": "bool", "bf16": "bfloat16", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
_OF_LETTER = {"f": "float", "i": "int", "c": "complex"}
_OPERATORS: Mapping[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "invert",
    ast.Not: "not_",
}


def graph_of_text(text: str, *, cached: bool | None = None) -> FxGraphText:
    """Return the record of a graph's text, with its nodes, the nodes of graphs inside it, and each one's place in the program."""
    return _Reader(text).record(cached)


def _dtype(short: str) -> str:
    """The name of a dtype by its short one: "f32" is "float32"; a name that is not known stays."""
    letter, size = short[:1], short[1:]
    if short in _DTYPES:
        return _DTYPES[short]
    if size.isdigit() and letter in _OF_LETTER:
        return f"{_OF_LETTER[letter]}{size}"
    return short.replace("f8e", "float8_e", 1) if short.startswith("f8e") else short


def sizes_of(text: str) -> tuple[str, ...]:
    """The sizes of a shape; the commas inside of an expression such as Mod(s0, 2) do not part them."""
    sizes, depth, start = [], 0, 0
    for number, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            sizes.append(text[start:number].strip())
            start = number + 1
    return tuple(size for size in (*sizes, text[start:].strip()) if size)


def with_type(node: FxNode, type: str) -> FxNode:
    """The node with what its annotation says of it, such as "f32[8, 16][16, 1]cuda:0"."""
    if symbol := _SYMBOL.match(type):
        return replace(node, value=symbol["value"])
    tensor = _TENSOR.match(type)
    if tensor is None:
        return node
    stride = None if tensor["stride"] is None else sizes_of(tensor["stride"])
    return replace(node, shape=sizes_of(tensor["shape"]), stride=stride, dtype=_dtype(tensor["dtype"]), device=tensor["device"])


#: The program's name for an input, by AOTAutograd's description of it.
_INPUTS = (
    (re.compile(r"^PlainAOTInput\(idx=(\d+)\)$"), "args[{}]"),
    (re.compile(r"^ParamAOTInput\(target='(.*)'\)$"), "self.get_parameter('{}')"),
    (re.compile(r"^BufferAOTInput\(target='(.*)'\)$"), "self.get_buffer('{}')"),
    (re.compile(r"^TangentAOTInput\(output=PlainAOTOutput\(idx=(\d+)\)\)$"), "__output_tangent(output[{}])"),
)


def _input(description: str | None) -> str | None:
    """The expression of an input that AOTAutograd describes; None where it is another, or has no description."""
    for pattern, expression in _INPUTS:
        if description and (match := pattern.match(description)):
            return expression.format(match[1])
    return None


class _Reader:
    """Reads one text, line by line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stacks: dict[str, int] = {}
        self._stack: int | None = None
        self._classes: list[tuple[int, str]] = []
        self._graphs: dict[str, list[FxNode]] = {"": []}
        self._inputs: dict[str, FxNode] = {}  # of the signature that is read now
        self._names: set[str] = set()
        self._in_signature = False
        self._unfinished = ""  # a return that goes on in the next line

    def record(self, cached: bool | None) -> FxGraphText:
        """The record of the text."""
        for line in text_lines(self._text):
            self._read(line)
        self._close()
        inner = tuple(node for path, nodes in self._graphs.items() if path for node in nodes)
        stacks = tuple(self._stacks)
        return FxGraphText(text=self._text, nodes=tuple(self._graphs[""]), inner=inner or None, stacks=stacks, cached=cached)

    @property
    def _path(self) -> str:
        return ".".join(name for _, name in self._classes[1:])

    def _read(self, line: str) -> None:
        """Read one line."""
        code = line.strip()
        if comment := _COMMENT.match(code):
            stack = f'  File "{comment["file"]}", line {comment["line"]}, in {comment["function"]}\n    {comment["code"] or ""}\n'
            self._stack = self._stacks.setdefault(stack, len(self._stacks))
        elif code.startswith(_NO_STACK):
            self._stack = None
        elif begun := _CLASS.match(code):
            self._begin(len(line) - len(line.lstrip()), begun["name"])
        elif code.startswith("def forward("):
            self._signature(code)
        elif self._in_signature:
            self._parameter(code)
        elif self._unfinished or code.startswith("return"):
            self._output(f"{self._unfinished}{code}\n")
        elif code and not code.startswith("#"):
            self._statements(code)

    def _begin(self, indent: int, name: str) -> None:
        """A class begins: the graph itself, or one inside it."""
        self._close()
        self._unfinished, self._in_signature = "", False  # a text that was cut off goes on with the next graph
        self._classes = [*(outer for outer in self._classes if outer[0] < indent), (indent, name)]
        self._graphs.setdefault(self._path, [])
        self._names, self._stack = set(), None

    def _close(self) -> None:
        """End a graph: inputs that no line renames come before its nodes."""
        nodes = self._graphs[self._path]
        nodes[:0] = [replace(node, name=self._qualified_name(node.name)) for node in self._inputs.values()]
        self._inputs = {}

    def _qualified_name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    # Inputs

    def _signature(self, code: str) -> None:
        """The head of a graph, which may end on another line."""
        inside = code.partition("(")[2]
        self._in_signature = "):" not in inside and not inside.endswith(") :")
        for name, type in _DECLARED.findall(inside):
            self._add_input(name, type, None)

    def _parameter(self, code: str) -> None:
        """One input of a head that has a line for each."""
        if code.startswith(")"):
            self._in_signature = False
        elif (parameter := _PARAMETER.match(code)) and parameter["name"] != "self":
            self._add_input(parameter["name"], parameter["type"], parameter["what"])

    def _add_input(self, name: str, type: str | None, what: str | None) -> None:
        node = FxNode(name=name, op="placeholder", target=name, args="()", kwargs="", inputs=(), input=_input(what))
        self._inputs[name] = with_type(node, type or "")
        self._names.add(name)

    # Nodes

    def _statements(self, code: str) -> None:
        """A line of code: declarations of inputs, or a node and what is forgotten after it."""
        if what := _WHAT.match(code):  # a declaration whose input is described
            name, type = _DECLARED.findall(code)[0]
            self._add_input(name, type, what["what"])
            return
        done: list[ast.stmt] = []
        with suppress(*UNREADABLE):  # a line that was cut off, or is nested without end, loses itself alone
            for statement in parsed(code).body:
                self._statement(statement, done)
                done.append(statement)

    def _statement(self, statement: ast.stmt, before: Sequence[ast.stmt]) -> None:
        """One statement of a line, after those before it on the line."""
        target, type = _target(statement)
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.AnnAssign) and value is None:
            self._add_input(target, type, None)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            self._unpacked(statement.targets[0])
        elif target and value is not None and not _forgets(value):
            if isinstance(value, ast.Name) and value.id in self._inputs and not before:
                self._rename(value.id, target)
            elif not (isinstance(value, ast.Attribute) and _root(value) not in {"self", *self._names}):  # a call that was cut off
                self._add(target, type, before[0] if before and isinstance(value, ast.Name) else value)

    def _unpacked(self, names: ast.Tuple) -> None:
        """AOTAutograd's joint graph unpacks its two arguments into its inputs."""
        wanted = [name.id for name in names.elts if isinstance(name, ast.Name)]
        for name in wanted:
            if name not in self._inputs:
                self._add_input(name, None, None)
        self._inputs = {name: self._inputs[name] for name in wanted}

    def _rename(self, parameter: str, name: str) -> None:
        """Dynamo's graph gives each of its arguments the name of its node."""
        if parameter != name:
            node = self._inputs.pop(parameter)
            self._inputs[name] = replace(node, name=name)
            self._names.add(name)

    def _add(self, name: str, type: str, value: ast.AST) -> None:
        """Add the node that a value computes."""
        op, target, args, kwargs = self._call(value)
        inputs = dict.fromkeys(n for part in (*args, *kwargs.values()) for n in _names(part) if n in self._names)
        written = ", ".join(f"{key!r}: {ast.unparse(part)}" for key, part in kwargs.items())
        node = FxNode(
            name=self._qualified_name(name),
            op=op,
            target=target,
            args=f"({', '.join(map(ast.unparse, args))}{',' * (len(args) == 1)})",
            kwargs=f"{{{written}}}" if written else "",
            inputs=tuple(map(self._qualified_name, inputs)),
            stack=self._stack,
        )
        self._graphs[self._path].append(with_type(node, type))
        self._names.add(name)

    def _call(self, value: ast.AST) -> tuple[str, str, Sequence[ast.expr], dict[str, ast.expr]]:
        """What a value calls: op, target, arguments and named arguments."""
        if isinstance(value, ast.Call):
            return self._of_call(value)
        if isinstance(value, ast.Attribute):
            if _root(value) == "self":
                return "get_attr", ast.unparse(value).removeprefix("self."), (), {}
            return "call_function", "builtins.getattr", (value.value, ast.Constant(value.attr)), {}
        if isinstance(value, ast.Subscript):
            return "call_function", "_operator.getitem", (value.value, value.slice), {}
        if isinstance(value, ast.AugAssign):
            return "call_function", f"_operator.i{_OPERATORS[type(value.op)].rstrip('_')}", (value.target, value.value), {}
        if isinstance(value, ast.Assign) and isinstance(value.targets[0], ast.Subscript):
            place = value.targets[0]
            return "call_function", "_operator.setitem", (place.value, place.slice, value.value), {}
        return self._of_operator(value)

    def _of_operator(self, value: ast.AST) -> tuple[str, str, Sequence[ast.expr], dict[str, ast.expr]]:
        """What an operator of Python's calls."""
        if isinstance(value, ast.BinOp):
            return "call_function", f"_operator.{_OPERATORS[type(value.op)]}", (value.left, value.right), {}
        if isinstance(value, ast.UnaryOp):
            return "call_function", f"_operator.{_OPERATORS[type(value.op)]}", (value.operand,), {}
        if isinstance(value, ast.Compare) and type(value.ops[0]) in _OPERATORS:
            return "call_function", f"_operator.{_OPERATORS[type(value.ops[0])]}", (value.left, value.comparators[0]), {}
        return "call_function", "", tuple(part for part in [value] if isinstance(part, ast.expr)), {}

    def _of_call(self, call: ast.Call) -> tuple[str, str, Sequence[ast.expr], dict[str, ast.expr]]:
        """What a call calls: a function of torch's, a method of a node's value, a module."""
        kwargs = {word.arg: word.value for word in call.keywords if word.arg is not None}
        written = ast.unparse(call.func)
        root = _root(call.func)
        if root == "self":
            return "call_module", written.removeprefix("self."), call.args, kwargs
        if isinstance(call.func, ast.Attribute) and (root in self._names or root is None):
            return "call_method", call.func.attr, (call.func.value, *call.args), kwargs
        return "call_function", _operator_name(written), call.args, kwargs

    def _output(self, code: str) -> None:
        """The end of a graph, whose values may have a line each."""
        nodes = self._graphs[self._path]
        if sum(map(code.count, "([{")) > sum(map(code.count, ")]}")):
            self._unfinished = code
            return
        self._unfinished = ""
        try:
            statement = parsed(code).body[0]
        except UNREADABLE:
            return
        if isinstance(statement, ast.Return) and statement.value is not None:
            value = statement.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "pytree.tree_unflatten" and value.args:
                value = value.args[0]
            inputs = dict.fromkeys(name for name in _names(value) if name in self._names)
            nodes.append(
                FxNode(
                    name=self._qualified_name("output"),
                    op="output",
                    target="output",
                    args=f"({ast.unparse(value)},)",
                    kwargs="",
                    inputs=tuple(map(self._qualified_name, inputs)),
                )
            )


def _target(statement: ast.stmt) -> tuple[str, str]:
    """The name that a statement gives its value, and the type written beside it; "" for another statement."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        type = statement.annotation.value if isinstance(statement.annotation, ast.Constant) else ""
        return statement.target.id, str(type)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, ""
    return "", ""


def _forgets(value: ast.expr) -> bool:
    """Whether a name is only forgotten: `x = None`."""
    return isinstance(value, ast.Constant) and value.value is None


def _root(value: ast.expr) -> str | None:
    """The name that a dotted name begins with; None for what is no dotted name."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return value.id if isinstance(value, ast.Name) else None


def _names(value: ast.AST) -> Iterator[str]:
    """Return the names in an expression, in their order."""
    if isinstance(value, ast.Name):
        yield value.id
    for child in ast.iter_child_nodes(value):
        yield from _names(child)


def _operator_name(written: str) -> str:
    """The name of a function as explorer writes it: torch.ops.aten.add.Tensor is aten.add.Tensor."""
    parts = written.split(".")
    if written.startswith("torch.ops.") and parts[2] != "higher_order":
        return ".".join(parts[2:])
    return written
