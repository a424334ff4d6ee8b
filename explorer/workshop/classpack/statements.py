"""The statements of a notebook's cell; each runs by itself."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.model.syntax import parsed


@dataclass(frozen=True)
class Statement:
    """Lines `first` to `last` of a cell, and the code that runs them alone, with the line numbers that they have in it.

    `names` are the names that it uses or binds; none for a cell with magics.
    """

    first: int
    last: int
    code: str
    names: frozenset[str] = frozenset()


def statements(cell: str) -> list[Statement]:
    """Split a cell into its statements; one with magics, which is no Python, is a single one."""
    lines = cell.split("\n")
    try:
        body = parsed(cell).body
    except SyntaxError:
        return [Statement(1, len(lines), cell)]
    spans: list[tuple[int, int, ast.stmt]] = []
    for node in body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        if spans and first <= spans[-1][1]:  # two statements on a line, `a; b`, are one here
            return [Statement(1, len(lines), cell, names_in(cell))]
        spans.append((first, node.end_lineno or first, node))
    codes = [_alone(lines, first, last, node is body[-1], node) for first, last, node in spans]
    return [Statement(first, last, code, names_in(code)) for (first, last, _), code in zip(spans, codes, strict=True)]


def names_in(code: str) -> frozenset[str]:
    """Return the notebook's names that a piece of code uses or binds, without the local names of its functions."""
    return frozenset(_names(symtable.symtable(code, "cell", "exec"), of_notebook=True))


def _names(table: symtable.SymbolTable, *, of_notebook: bool) -> Iterator[str]:
    yield from (symbol.get_name() for symbol in table.get_symbols() if of_notebook or symbol.is_global())
    for inner in table.get_children():
        yield from _names(inner, of_notebook=False)


def _alone(lines: list[str], first: int, last: int, ends_the_cell: bool, node: ast.stmt) -> str:
    """Return the statement below as many comments as lines precede it; only the last expression of a cell shows its value."""
    code = "\n".join(lines[first - 1 : last])
    if isinstance(node, ast.Expr) and not ends_the_cell:
        code = f"{ast.get_source_segment(chr(10).join(lines), node)};"
    return "#\n" * (first - 1) + code
