"""The launches and library calls of a wrapper, in order, and what each of their arguments is called before. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.model.syntax import parsed, parsed_expression
from explorer.model.values import Artifact, once
from explorer.stages.inductor.output_code import LIBRARIES, calls_of, kernel_called

#: What a wrapper writes where it looks at memory in another way.
_VIEW = "reinterpret_tensor"


@dataclass(frozen=True)
class Site:
    """A launch of a kernel, or a call into a library: its line, its name without `.run`, and its arguments as source.

    `occurrence` counts the sites of the same name. `result` is the variable that is assigned, "" for none. `former` has for
    each variable that takes over the memory of another the other's name: `buf3` for `buf3 = buf0; del buf0  # reuse`.
    """

    line: int
    name: str
    occurrence: int
    arguments: tuple[str, ...]
    keywords: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    former: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_library(self) -> bool:
        """Whether it goes into a library."""
        return f"{self.name}.".startswith(LIBRARIES)

    def names_of(self, argument: str) -> tuple[str, ...]:
        """What the memory of an argument is called: the argument's own variable first, then what that took over."""
        name = variable_of(argument)
        names = [name] if name else []
        while name in self.former and self.former[name] not in names:
            name = self.former[name]
            names.append(name)
        return tuple(names)


def variable_of(argument: str) -> str:
    """The variable that an argument is, or looks at by `reinterpret_tensor`; "" for another expression."""
    try:
        return _variable(parsed_expression(argument).body)
    except SyntaxError:
        return ""


@once
def sites(wrapper: Artifact) -> tuple[Site, ...]:
    """The launches and library calls of a wrapper in Python, in the order of its text; () for one in C++."""
    if wrapper.language == "cpp":
        return ()
    try:
        tree = parsed(wrapper.text)
    except SyntaxError:
        return ()
    calls = dict(calls_of(wrapper))
    found: list[Site] = []
    for function in _functions(tree):
        found += _in_function(function, calls)
    counts: dict[str, int] = {}
    counted = []
    for site in sorted(found, key=lambda site: site.line):
        number = counts[site.name] = counts.get(site.name, -1) + 1
        counted.append(Site(site.line, site.name, number, site.arguments, site.keywords, site.result, site.former))
    return tuple(counted)


@once
def returned(wrapper: Artifact) -> tuple[str, ...]:
    """What the wrapper returns, as source; () where it is not known."""
    try:
        tree = parsed(wrapper.text)
    except SyntaxError:
        return ()
    calls = [function for function in _functions(tree) if function.name == "call"]
    values = [node.value for node in ast.walk(calls[0]) if isinstance(node, ast.Return)] if len(calls) == 1 else []
    if len(values) != 1 or not isinstance(values[0], ast.Tuple):
        return ()
    return tuple(ast.unparse(element) for element in values[0].elts)


def viewed(argument: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Variable, sizes and strides of a `reinterpret_tensor` from the first element on; None for another expression."""
    try:
        call = parsed_expression(argument).body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != _VIEW or len(call.args) != 4:
        return None
    variable, sizes, strides, offset = call.args
    if not (isinstance(variable, ast.Name) and isinstance(sizes, ast.Tuple) and isinstance(strides, ast.Tuple)):
        return None
    if ast.unparse(offset) != "0":
        return None
    return variable.id, tuple(map(ast.unparse, sizes.elts)), tuple(map(ast.unparse, strides.elts))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a wrapper that launch: its `call`, and the parts into which it may be cut."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("benchmark"):
            yield node


def _in_function(function: ast.FunctionDef, calls: Mapping[int, str]) -> Iterator[Site]:
    """The sites of one function, each with what its variables took over until then."""
    former: dict[str, str] = {}
    for statement in _statements(function.body):
        value = getattr(statement, "value", None)
        target = _target(statement)
        if isinstance(value, ast.Call) and calls.get(statement.lineno) == ast.unparse(value.func):
            yield Site(
                statement.lineno,
                kernel_called(calls[statement.lineno]),
                0,
                tuple(ast.unparse(argument) for argument in value.args),
                {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords if keyword.arg},
                target,
                dict(former),
            )
        if target and value is not None:
            before = _variable(value)
            if before and before != target:
                former[target] = before
            else:
                former.pop(target, None)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function in order, those inside others too."""
    for statement in body:
        yield statement
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if inner and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                yield from _statements(inner)


def _target(statement: ast.stmt) -> str:
    """The one variable that a statement assigns; "" where it does something else."""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _variable(value: ast.expr) -> str:
    """The variable that an expression is, or looks at."""
    if isinstance(value, ast.Name):
        return value.id
    if isinstance(value, ast.Call) and ast.unparse(value.func) == _VIEW and value.args:
        return _variable(value.args[0])
    return ""


__all__ = ["Site", "returned", "sites", "variable_of", "viewed"]
