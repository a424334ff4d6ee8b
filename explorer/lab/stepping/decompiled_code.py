"""Compile what depyf wrote of Dynamo's bytecode into a code object that can run in its place."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from types import CodeType

from explorer.model.syntax import parsed

#: A constant of Dynamo's that no Python text can hold; depyf writes which one it is.
_CONSTANT = re.compile(r"__co_consts\[(\d+)\]")


def compiled_again(text: str, original: CodeType, transformed: CodeType, file: str) -> CodeType:
    """The code of the one function in `text`, which is in `file`, with the lines of the text.

    The code takes the arguments and the closure of the user's code, as Dynamo requires. Raises SyntaxError if the text is no
    Python. Raises ValueError, with the difference, if the code cannot replace the user's code.
    """
    tree = copy.deepcopy(parsed(text))  # trees are shared
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ValueError("what depyf wrote is not one function")
    function = tree.body[0]
    free = original.co_freevars
    outer = ast.FunctionDef(
        name="outer",
        args=ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []),
        body=[_keeping_cells(function, (*free, *original.co_cellvars))],
        decorator_list=[],
    )
    outer.__dict__.setdefault("type_params", [])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    made = next(code for code in _codes(compile(module, file, "exec")) if code.co_name == function.name)
    made = made.replace(co_consts=tuple(_constant(each, transformed) for each in made.co_consts), co_name=original.co_name)
    _must_fit(made, original)
    return made


def _keeping_cells(function: ast.FunctionDef, names: tuple[str, ...]) -> ast.FunctionDef:
    """The function with a use of each name of a closure at its end, never run: Dynamo gives it those that it does not use too."""
    if names:
        used = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
        inner = ast.Lambda(ast.arguments([], [], None, [], [], None, []), used)
        never = ast.If(ast.Constant(False), [ast.Expr(inner)], [])
        function.body.append(ast.copy_location(never, function.body[-1]))
    return function


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code objects in a code object, outer ones first."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _constant(value: object, transformed: CodeType) -> object:
    """Return a constant of the text; for a placeholder, the constant of Dynamo's code."""
    found = _CONSTANT.fullmatch(value) if isinstance(value, str) else None
    return transformed.co_consts[int(found[1])] if found else value


def _must_fit(made: CodeType, original: CodeType) -> None:
    """Raise ValueError if the arguments or the closure differ from the user's code."""
    fields = ("co_argcount", "co_kwonlyargcount", "co_freevars", "co_cellvars")
    for name in fields:
        if sorted_names(getattr(made, name)) != sorted_names(getattr(original, name)):
            raise ValueError(f"its {name} is {getattr(made, name)}, and that of the program's function {getattr(original, name)}")


def sorted_names(value: object) -> object:
    """Names in an order of their own; a number as it is."""
    return sorted(value) if isinstance(value, tuple) else value
