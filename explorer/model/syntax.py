"""Parse Python source, whatever other threads do meanwhile, and find the values that a line of MLIR or LLVM IR names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

#: How often a source is parsed before the error counts.
ATTEMPTS = 20
#: What reading malformed data raises: values of other types, keys that lack, nesting without end.
UNREADABLE = (ValueError, SyntaxError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
#: The name of a value in MLIR and LLVM IR. MLIR calls a negative constant "%c-1_i32".
IR_VALUE = re.compile(r"%[\w$.-]+")


def parsed(source: str) -> ast.Module:
    """Return the tree that `ast.parse` makes of a module's source.

    CPython 3.11 keeps one depth for the trees that all threads make, and raises SystemError where one is begun while another is
    made; the source is then parsed again. SyntaxError and ValueError are `ast.parse`'s own. Python raises MemoryError for a
    source that nests too deeply. Here that is a SyntaxError, which cannot be mistaken for a lack of memory.
    """
    tree = _parsed(source, "<unknown>", "exec")
    assert isinstance(tree, ast.Module)
    return tree


def parsed_expression(source: str, file: str = "<unknown>") -> ast.Expression:
    """Return the tree of an expression, as `parsed` returns a module's."""
    tree = _parsed(source, file, "eval")
    assert isinstance(tree, ast.Expression)
    return tree


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement in a tree, in the order of `ast.walk`, which looks at each expression too: nine nodes of ten."""
    level = [tree]
    while level:
        below: list[ast.AST] = []
        for node in level:
            yield node
            for part in ("body", "handlers", "orelse", "finalbody", "cases"):
                inner = getattr(node, part, ())
                below += inner if isinstance(inner, list) else ()
        level = below


def definitions(source: str) -> str:
    """Keep a module's imports, functions, classes and literal constants, each on its lines, and blank the rest."""
    lines = source.split("\n")
    kept = [""] * len(lines)
    for statement in parsed(source).body:
        if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (
            isinstance(statement, ast.Assign) and _is_literal(statement.value)
        ):
            decorators = getattr(statement, "decorator_list", ())
            first = min(node.lineno for node in (statement, *decorators)) - 1
            kept[first : statement.end_lineno] = lines[first : statement.end_lineno]
    return "\n".join(kept)


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except UNREADABLE:
        return False
    return True


def _parsed(source: str, file: str, mode: str) -> ast.AST:
    try:
        for _ in range(ATTEMPTS - 1):
            with suppress(SystemError):
                return ast.parse(source, file, mode)
        return ast.parse(source, file, mode)
    except MemoryError as error:
        raise SyntaxError(f"{file} is nested too deeply") from error
