"""The launches of a kernel that the wrapper states: line, arguments, and the grid that follows from them. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from explorer.model.integers import evaluated
from explorer.model.syntax import parsed
from explorer.stages.inductor import cpp_wrapper as _cpp_wrapper
from explorer.stages.inductor.helion import is_of_host
from explorer.stages.triton.origins import Launch

#: How a wrapper gives a kernel in CUDA C++ or HIP a tensor, or the stream.
_POINTER = re.compile(r"^c_void_p\((.*?)(?:\.data_ptr\(\))?\)$")


def launches(
    wrapper: str, name: str, arguments: Sequence[str], grid: Sequence[str], prefix: Sequence[str] = ()
) -> tuple[Launch, ...]:
    """Each `name.run(…)` of the wrapper: its line, its arguments by the kernel's names for them, and its grid.

    `grid` has the three expressions of the launch grid in the arguments' names, `prefix` assignments that these need.
    A part of the grid is a number where the wrapper gives numbers, else its expression, as with dynamic sizes.
    """
    rows = []
    runs_by_name = _cpp_wrapper.runs(wrapper) if _cpp_wrapper.is_cpp(wrapper) else _runs(wrapper)
    for line, texts in runs_by_name.get(name, ()):
        values = dict(zip(arguments, texts, strict=False))
        rows.append(Launch(line=line, arguments=values, grid=_grid(values, grid, prefix)))
    return tuple(rows)


@lru_cache(maxsize=2)
def _runs(wrapper: str) -> Mapping[str, Sequence[tuple[int, Sequence[str]]]]:
    """Each kernel's name → the line and arguments of its launches; a wrapper is parsed once for all of its kernels.

    A kernel is launched by its method `run`, one of Helion's by a call of its function of the host.
    """
    runs_by_name: dict[str, list[tuple[int, list[str]]]] = {}
    tree = parsed(wrapper)
    of_helion = {statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef) and is_of_host(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in of_helion:
            runs_by_name.setdefault(node.func.id, []).append((node.lineno, [ast.unparse(a) for a in node.args]))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run":
            arguments = [ast.unparse(a) for a in node.args if not isinstance(a, ast.Starred)]
            runs_by_name.setdefault(ast.unparse(node.func.value), []).append((node.lineno, arguments))
    return runs_by_name


@lru_cache(maxsize=2)
def launches_by_call(wrapper: str, name: str, arguments: Sequence[str]) -> tuple[Launch, ...]:
    """Each call of a kernel in Metal, Halide, CUDA C++ or HIP: its line, its arguments, and its grid.

    For Metal the arguments have `threads` and `group_size`, and the grid counts threadgroups. It is () where the wrapper gives no
    `group_size`: for other languages, or where torch chooses at a launch. Of a pointer to a tensor the argument is the tensor.
    """
    rows = []
    for node in ast.walk(parsed(wrapper)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (name, f"{name}.{name}"):
            keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            sizes = [_elements(keywords.get(keyword)) for keyword in ("threads", "group_size")]
            pairs = zip(arguments, node.args, strict=False)
            values = {key: _POINTER.sub(r"\1", ast.unparse(value)) for key, value in (*pairs, *keywords.items())}
            grid = tuple(_threadgroups(threads, group) for threads, group in zip(*sizes, strict=False))
            rows.append(Launch(line=node.lineno, arguments=values, grid=_grid(values, grid, ())))
    return tuple(rows)


def _threadgroups(threads: str, group: str) -> str:
    """Return how many threadgroups of `group` threads `threads` threads are, as source."""
    if threads == group:
        return "1"
    return threads if group == "1" else f"({threads} + {group} - 1) // {group}"


def _elements(value: ast.expr | None) -> list[str]:
    """The elements of a list that is written out, as source; [] for anything else."""
    return [ast.unparse(element) for element in value.elts] if isinstance(value, ast.List) else []


def _grid(values: Mapping[str, str], grid: Sequence[str], prefix: Sequence[str]) -> tuple[int | str, ...]:
    numbers: dict[str, int] = {}
    for key, text in [*values.items(), *((p.partition(" = ")[0], p.partition(" = ")[2]) for p in prefix)]:
        if (number := evaluated(text, numbers)) is not None:
            numbers[key] = number
    return tuple(number if (number := evaluated(part, numbers)) is not None else values.get(part, part) for part in grid)
