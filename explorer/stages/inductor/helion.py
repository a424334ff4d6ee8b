"""The kernels that Helion writes into a wrapper, and the program's lines that their comments name. Pure.

    # src[model.py:31]: s = x[tile] + y[tile]
    load = tl.load(x + …)

Helion copies each line of its function above the lines that it wrote for it. A function of the host, which Inductor names, gives
the kernel its arguments through `_launcher`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: How a line of a Helion kernel is known to be a line of the program.
COMMENT = "Helion's comment above it"
#: The argument of Helion's function of the host that launches its kernels.
LAUNCHER = "_launcher"
#: The name that the arguments of the kernel's call are given below its source.
CALL = "explorer_call"
#: How a kernel of Helion's is changed: Helion writes it anew of its function.
REMEDY = "change the Helion function, or its config=, and trace again"
_SRC = re.compile(r"^\s*# src\[([^\]\n]+):(\d+)\]: (.*)$")
#: One that names no line too: of code without a source, or the end of a statement of more than three lines.
_ANY = re.compile(r"^\s*# src\[")


class Named(NamedTuple):
    """A line of the program that a comment names, and the kernel's lines below the comment, counted from 1."""

    file: str
    line: int
    text: str
    numbers: tuple[int, ...]


def is_of_host(function: ast.FunctionDef) -> bool:
    """Tell whether a function of a wrapper is Helion's for the host."""
    return any(argument.arg == LAUNCHER for argument in function.args.kwonlyargs)


def with_call(source: str, call: str) -> str:
    """Add the arguments of its call to a kernel's source, which states no types of them."""
    return f"{source}\n\nimport torch\n{CALL} = {call}\n"


def is_helion(source: str) -> bool:
    """Tell whether a kernel's source is Helion's."""
    return f"*, {LAUNCHER}=" in source


def first_line(lines: Sequence[str], line: int) -> int:
    """The line on which the kernel begins whose function of the host ends on `line`: below Inductor's comment, counted from 1."""
    while line > 1 and (not lines[line - 2].startswith("#") or _ANY.match(lines[line - 2])):
        line -= 1
    return line


def named_lines(lines: Sequence[str]) -> Iterator[Named]:
    """Each line of the program that the comments name, with the lines below, up to the next comment or the function's end.

    Comments without code between them name the same lines: a statement with its body, or one of several lines.
    """
    comments: list[tuple[str, int, str]] = []
    numbers: list[int] = []
    for number, line in enumerate([*lines, ""], 1):
        is_comment, inside = bool(_ANY.match(line)), line.startswith((" ", "\t"))
        if numbers and (is_comment or not inside):
            yield from (Named(*comment, tuple(numbers)) for comment in comments)
            comments, numbers = [], []
        if not inside:
            comments = []
        elif found := _SRC.match(line):
            comments.append((found[1], int(found[2]), found[3].strip()))
        elif comments and not is_comment:
            numbers.append(number)
