"""Integer expressions as compilers write sizes and launch grids: "4*s77", "-((xnumel) // -(256))". Pure.

Nothing is run: an expression that is made of more than integers, known names, arithmetic, comparisons, max, min and a rounded-up
division has no value.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

from explorer.model.syntax import parsed_expression

_OPERATORS: Mapping[type[ast.AST], Callable[..., int]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: operator.pow,
        ast.LShift: operator.lshift,
        ast.RShift: operator.rshift,
        ast.BitAnd: operator.and_,
        ast.BitOr: operator.or_,
        ast.BitXor: operator.xor,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.Gt: operator.gt,
        ast.LtE: operator.le,
        ast.GtE: operator.ge,
        ast.USub: operator.neg,
        ast.UAdd: operator.pos,
        ast.Invert: operator.invert,
        ast.Not: operator.not_,
    }
)


def rounded_up(one: int, other: int) -> int:
    """A division rounded up, as triton's cdiv."""
    return -(-one // other)


#: Functions by name: sympy writes Max and Min.
_FUNCTIONS: Mapping[str, Callable[..., int]] = MappingProxyType({"max": max, "min": min, "Max": max, "Min": min})
#: Functions of a module, such as `tl`, by name.
_OF_MODULES: Mapping[str, Callable[..., int]] = MappingProxyType({"cdiv": rounded_up})
#: Numbers of more bits are no size: a shift by such a number would take all memory.
MAX_BITS = 128


def evaluated(text: str, names: Mapping[str, int]) -> int | None:
    """The value of an expression such as "64" or "4*s77"; None where it uses an unknown name, or is no integer expression."""
    try:
        tree = parsed_expression(text.strip())
    except (SyntaxError, ValueError, RecursionError):
        return None
    return value_of(tree.body, names)


def value_of(node: ast.expr, names: Mapping[str, int]) -> int | None:
    """The value of a parsed expression; None as for `evaluated`."""
    try:
        return int(_value(node, names))
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and isinstance(names[node.id], int):
        return names[node.id]
    if isinstance(node, ast.BinOp):
        return _combined(node.op, _value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _combined(node.ops[0], _value(node.left, names), _value(node.comparators[0], names))
    if isinstance(node, ast.Call) and not node.keywords:
        return _function(node.func)(*(_value(argument, names) for argument in node.args))
    raise TypeError(ast.dump(node))


def _function(node: ast.expr) -> Callable[..., int]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _OF_MODULES[node.attr]
    return _FUNCTIONS[ast.unparse(node)]


def _combined(operation: ast.AST, one: int, other: int) -> int:
    if isinstance(operation, ast.Div):
        if one % other:  # a fraction, which C++ rounds and sympy keeps
            raise ValueError
        return one // other
    if _bits(operation, one, other) > MAX_BITS or (isinstance(operation, ast.Pow) and other < 0):
        raise OverflowError
    return _OPERATORS[type(operation)](one, other)


def _bits(operation: ast.AST, one: int, other: int) -> int:
    """At most so many bits has the result of an operation that makes large numbers; 0 for the others."""
    if isinstance(operation, ast.Mult):
        return one.bit_length() + other.bit_length()
    if isinstance(operation, ast.LShift):
        return one.bit_length() + other
    return one.bit_length() * other if isinstance(operation, ast.Pow) else 0
