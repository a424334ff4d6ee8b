"""The statements of a notebook's cell, each of which runs by itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from explorer.model.syntax import parsed


@dataclass(frozen=True)
class Statement:
    """Lines `first` to `last` of a cell, and the code that runs them alone, with the line numbers that they have in it."""

    first: int
    last: int
    code: str


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
            return [Statement(1, len(lines), cell)]
        spans.append((first, node.end_lineno or first, node))
    return [Statement(first, last, _alone(lines, first, last, node is body[-1], node)) for first, last, node in spans]


def _alone(lines: list[str], first: int, last: int, ends_the_cell: bool, node: ast.stmt) -> str:
    """The statement below as many comments as lines stand above it; only the last expression of a cell shows its value."""
    code = "\n".join(lines[first - 1 : last])
    if isinstance(node, ast.Expr) and not ends_the_cell:
        code = f"{ast.get_source_segment(chr(10).join(lines), node)};"
    return "#\n" * (first - 1) + code
