"""The launches of a kernel that the wrapper states: line, arguments, and the grid that follows from them. Pure."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from explorer.model.values import Plain
from explorer.stages.inductor import cpp_wrapper as _cpp_wrapper

_OPERATORS: Mapping[type[ast.AST], Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
}


def launches(
    wrapper: str, name: str, arguments: Sequence[str], grid: Sequence[str], prefix: Sequence[str] = ()
) -> tuple[dict[str, Plain], ...]:
    """Each `name.run(…)` of the wrapper: its line, its arguments by the kernel's names for them, and its grid.

    `grid` has the three expressions of the launch grid in the arguments' names, `prefix` assignments that these need.
    A part of the grid is a number where the wrapper gives numbers, else its expression, as with dynamic sizes.
    """
    found = []
    stated = _cpp_wrapper.runs(wrapper) if _cpp_wrapper.is_cpp(wrapper) else _runs(wrapper)
    for line, given in stated.get(name, ()):
        values = dict(zip(arguments, given, strict=False))
        found.append({"line": line, "arguments": values, "grid": _grid(values, grid, prefix)})
    return tuple(found)


@lru_cache(maxsize=2)
def _runs(wrapper: str) -> Mapping[str, Sequence[tuple[int, Sequence[str]]]]:
    """Each kernel's name → the line and arguments of its launches; a wrapper is parsed once for all of its kernels."""
    found: dict[str, list[tuple[int, list[str]]]] = {}
    for node in ast.walk(ast.parse(wrapper)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run":
            given = [ast.unparse(a) for a in node.args if not isinstance(a, ast.Starred)]
            found.setdefault(ast.unparse(node.func.value), []).append((node.lineno, given))
    return found


def _grid(values: Mapping[str, str], grid: Sequence[str], prefix: Sequence[str]) -> tuple[int | str, ...]:
    known: dict[str, int] = {}
    for key, text in [*values.items(), *((p.partition(" = ")[0], p.partition(" = ")[2]) for p in prefix)]:
        if (number := evaluated(text, known)) is not None:
            known[key] = number
    return tuple(number if (number := evaluated(part, known)) is not None else values.get(part, part) for part in grid)


def evaluated(text: str, names: Mapping[str, int]) -> int | None:
    """The value of an integer expression, None where it uses a name that is not known."""
    try:
        return _value(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError, AttributeError):
        return None


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](_value(node.left, names), _value(node.comparators[0], names))
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("max", "min"):
        return (max if ast.unparse(node.func) == "max" else min)(_value(a, names) for a in node.args)
    raise TypeError(ast.unparse(node))
